#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses unroll from other projects, through pkg-config and from CMake.

usage: check_packaging.py SOURCE_ROOT BUILD      installs what is built in BUILD and links it
       check_packaging.py SOURCE_ROOT            builds unroll as a Meson subproject first, static and shared
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PARTS = ["meson.build", "meson_options.txt", "core", "backends", "frontends", "tests", "bench", "docs"]
SOURCE = pathlib.Path(sys.argv[1])
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
# Instances of the standard library's templates are weak in every C++ library; the rest must be ours by name.
OURS = re.compile(r"^(unroll::|(vtable|typeinfo|typeinfo name|VTT|guard variable|construction vtable) for unroll::"
                  r"|(non-virtual|virtual|covariant return) thunk to unroll::)")
FOREIGN = re.compile(r"nlohmann|fmt::|CLI::|toml::|doctest|hwy::")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check(ok, what):
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    if not ok:
        sys.exit(1)


def exported(library):
    for line in run("nm", "-D", "--defined-only", "-C", library).splitlines():
        kind, _, name = line[17:].partition(" ")
        yield kind, re.sub(r"^(std::.*?|bool|int|void|auto) (?=unroll::)", "", name)


def check_symbols(library):
    names = list(exported(library))
    leaks = [n for k, n in names if FOREIGN.search(n.split("(")[0].split("<")[0])]
    strangers = [n for k, n in names if k not in "VWvwu" and not OURS.match(n)]
    odd = [n[:200] for n in leaks[:3] + strangers[:3]]
    check(not odd, f"{len(names)} exported symbols, all of unroll's public names {odd}")
    check(any(n.startswith("unroll::Graph::append") for _, n in names), "public functions are exported")
    check(not any(n.startswith("unroll::infer_types") for _, n in names), "private functions are not")


def check_flags(build):
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next(c["command"] for c in commands if c["file"].endswith("project/main.cc"))
    ours = re.compile(r"UNROLL|HWY|-Wshadow|-Wconversion|-ffp-contract|-fvisibility")
    leaked = [f for f in shlex.split(command) if ours.search(f)]
    check(not leaked, f"no flag of the library reaches the consumer {leaked}")


def setup(work, build, *options):
    return run("meson", "setup", build, work / "project", *options, "--wrap-mode=nodownload")


def last_flag(build, part, prefix):
    """The last flag of this prefix in the command that compiles the first file whose path contains `part`."""
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next(c["command"] for c in commands if part in c["file"])
    return [f for f in shlex.split(command) if f.startswith(prefix)][-1]


def check_optimization(work):
    """A parent project at Meson's default -O0 still gets a fast library, with debug information."""
    build = work / "build-default"
    told = setup(work, build, "-Dbuildtype=debug")
    parts = ("backends/cpu/program/program.cc", "core/ir/graph.cc", "project/main.cc")
    hot, other, consumer = (last_flag(build, part, "-O") for part in parts)
    check((hot, other, consumer) == ("-O3", "-O1", "-O0"),
          f"the library is compiled with {hot} and {other} in a project at {consumer}")
    check(last_flag(build, "core/ir/graph.cc", "-g") == "-g", "and keeps debug information")
    check("without optimization" not in told, "no warning when the library is optimized")
    told = setup(work, work / "build-slow", "-Dbuildtype=debug", "-Dunroll:optimize_in_subproject=false")
    check("unroll is compiled without optimization: training is more than 20 times" in told, "a warning when it is not")


def check_subproject(work, kind):
    build, prefix = work / f"build-{kind}", work / f"prefix-{kind}"
    # Without optimization, because it builds in a fraction of the time; one of the two file by file, as is the default.
    setup(work, build, f"-Ddefault_library={kind}", "-Doptimization=0", "-Ddebug=false", f"--prefix={prefix}",
          "--libdir=lib", "-Dunroll:install_in_subproject=true", "-Dunroll:c=enabled",
          "-Dunroll:optimize_in_subproject=false", f"-Dunroll:unity_build={str(kind == 'static').lower()}")
    run("ninja", "-C", build)
    check("error caught" in run(build / "consumer"), f"{kind}: a subproject builds and runs")
    check_flags(build)
    programs = [p for p in build.rglob("*") if p.is_file() and os.access(p, os.X_OK) and not p.suffix]
    extras = [p.name for p in programs if p.name != "consumer"]
    check(not extras, f"{kind}: a subproject builds the library only {extras}")
    run("meson", "install", "-C", build, "--no-rebuild")
    if kind == "shared":
        check_symbols(prefix / "lib/libunroll.so")
    return prefix


def check_installed(work, kind, prefix, libraries="lib", sysroot=""):
    """`sysroot` is the folder that stands for the root of the file system, where the copy is not installed in place."""
    folder = prefix / libraries
    environment = dict(os.environ, PKG_CONFIG_PATH=str(folder / "pkgconfig"), LD_LIBRARY_PATH=str(folder),
                       PKG_CONFIG_SYSROOT_DIR=str(sysroot))
    headers = {p.name for p in (SOURCE / "core/include/unroll").rglob("*")}
    installed = {p.name for p in (prefix / "include/unroll").rglob("*")}
    check(headers == installed, f"{kind}: all public headers are installed")
    cflags = run("pkg-config", "--cflags", "unroll", env=environment).split()
    check(cflags == [f"-I{prefix}/include"], f"{kind}: pkg-config gives the include folder and no other flag {cflags}")
    for static in [[], ["--static"]] if kind == "static" else [[]]:
        libs = run("pkg-config", "--libs", *static, "unroll", env=environment).split()
        check(("-lhwy" in libs) == (kind == "static"), f"{kind}: pkg-config --libs {' '.join(static)} gives {libs}")
        program = work / f"installed-{kind}"
        run(*COMPILER, "-std=c++20", work / "project/main.cc", "-o", program, *cflags, *libs)
        out = run(program, env=environment)
        check("error caught" in out, f"{kind}: an installed copy builds and runs through pkg-config")
    check_cmake(work, kind, environment)
    if (folder / "pkgconfig/unroll-c.pc").exists():
        check_c(work, kind, environment)


def check_c(work, kind, environment):
    flags = run("pkg-config", "--cflags", "--libs", "unroll-c", env=environment).split()
    program = work / f"stream-{kind}"
    run("cc", "-std=c11", "-Wall", "-Werror", SOURCE / "docs/examples/stream.c", "-o", program, *flags)
    done = subprocess.run([program, "/no/such/model"], text=True, capture_output=True, env=environment)
    check(done.returncode == 1 and "/no/such/model" in done.stderr, f"{kind}: a C program builds and runs")


def check_cmake(work, kind, environment):
    if not shutil.which("cmake"):
        print(f"skip {kind}: a CMake project; cmake is not installed", flush=True)
        return
    source, build = work / "cmake", work / f"cmake-{kind}"
    run("cmake", "-S", source, "-B", build, f"-DCMAKE_CXX_COMPILER={COMPILER[-1]}", env=environment)
    run("cmake", "--build", build, env=environment)
    check("error caught" in run(build / "consumer", env=environment), f"{kind}: a CMake project builds and runs")


def check_build(work, build):
    """A finished build, installed to a folder of its own."""
    options = {o["name"]: o["value"] for o in json.loads(run("meson", "introspect", "--buildoptions", build))}
    root = work / "root"
    run("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel,runtime", "--destdir", root)
    prefix, kind = root / options["prefix"].lstrip("/"), options["default_library"]
    if kind == "shared":
        check_symbols(prefix / options["libdir"] / "libunroll.so")
    check_installed(work, kind, prefix, options["libdir"], root)


def check_subprojects(work):
    for part in PARTS:
        target = work / "project/subprojects/unroll" / part
        if (SOURCE / part).is_dir():
            shutil.copytree(SOURCE / part, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / part, target)
    check_optimization(work)
    for kind in ("static", "shared"):
        prefix = check_subproject(work, kind)
        check((prefix / "lib/pkgconfig/unroll-c.pc").exists(), f"{kind}: the library for C programs is installed")
        check_installed(work, kind, prefix)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        shutil.copytree(SOURCE / "tests/consumer/project", work / "project")
        shutil.copytree(SOURCE / "tests/consumer/cmake", work / "cmake")
        shutil.copy(SOURCE / "tests/consumer/project/main.cc", work / "cmake")
        if len(sys.argv) > 2:
            check_build(work, pathlib.Path(sys.argv[2]))
        else:
            check_subprojects(work)


main()
