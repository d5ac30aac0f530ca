#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C library: a C program's checks, docs/c.md as written, allocations, threads, and what it exports.

usage: check_c.py UNROLL CONFIG LIBRARY TEST_C EXAMPLE [--address-sanitizer]
With AddressSanitizer, programs that were built without it cannot load the library, and valgrind cannot run those that
were built with it.
"""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

FAILED = []


def check(ok, what):
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    if not ok:
        FAILED.append(what)


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    return done.returncode, done.stdout, done.stderr


def check_exports(library):
    _, names, _ = run("nm", "-D", "--defined-only", library)
    found = {line.split()[-1].split("@")[0] for line in names.splitlines()}
    header = pathlib.Path(__file__).parents[2] / "frontends/c/include/unroll.h"
    declared = set(re.findall(r"^UNROLL_C_API .*?(unroll_\w+)\(", header.read_text(), re.M))
    check(found == declared and len(found) > 20,
          f"exports the {len(declared)} functions of the header {found ^ declared}")


def blocks_of(page):
    """The commands and programs of a page: [(language, text)]."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page, re.M | re.S)


def check_page(root, unroll, library, work):
    """What the page tells works, as written, with the library where the build left it."""
    blocks = dict(reversed(blocks_of((root / "docs/c.md").read_text())))
    build = library.parents[2]
    shutil.copy(root / "docs/examples/stream.c", work)
    places = {"PATH": f"{unroll.parent}:{os.environ['PATH']}", "PKG_CONFIG_PATH": f"{build}/meson-uninstalled",
              "CPATH": f"{root}/frontends/c/include", "LIBRARY_PATH": f"{library.parent}",
              "LD_LIBRARY_PATH": f"{library.parent}:{build}"}
    environment = {**os.environ, **places}
    code, said, told = run("sh", "-e", "-c", blocks["sh"], cwd=work, env=environment)
    check(code == 0 and len(said.split("\n")[-4:]) == 4, f"the commands of docs/c.md work {told}")
    code, said, told = run(sys.executable, "-c", blocks["python"], cwd=work, env=environment)
    check(code == 0 and said.startswith("["), f"the Python program of docs/c.md works {said}{told}")


def check_allocations(example, model):
    """A step allocates nothing. Opening does, a few times more or less by what the timings of schedules make of it."""
    few, many, counts = 3, 3003, []
    for steps in (few, many):
        _, _, told = run("valgrind", example, model, input="331.5\n" * steps)
        counts.append(int(re.search(r"total heap usage: ([\d,]+) allocs", told)[1].replace(",", "")))
    check(counts[1] - counts[0] < (many - few) // 3,
          f"{few} steps with {counts[0]} allocations, {many} with {counts[1]}")


def check_ctypes(library, model):
    """What a user of Python without a wheel would write."""
    lib = ctypes.CDLL(str(library))
    lib.unroll_last_error.restype = ctypes.c_char_p
    handle, stream = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.unroll_model_open(str(model).encode(), b"threads=1", ctypes.byref(handle)) == 0, "ctypes opens a model")
    check(lib.unroll_stream_new(handle, b"", ctypes.byref(stream)) == 0, "ctypes opens a stream")
    inputs, outputs = ctypes.c_size_t(), ctypes.c_size_t()
    lib.unroll_stream_sizes(stream, ctypes.byref(inputs), ctypes.byref(outputs))
    x, y = (ctypes.c_float * inputs.value)(331.0), (ctypes.c_float * outputs.value)()
    code = lib.unroll_stream_step(stream, x, ctypes.c_size_t(inputs.value), y, ctypes.c_size_t(outputs.value))
    check(code == 0 and abs(y[0] - 331) < 30, f"ctypes streams: {y[0]:.2f} follows 331")
    code = lib.unroll_stream_step(stream, x, ctypes.c_size_t(0), y, ctypes.c_size_t(outputs.value))
    check(code == 2 and b"a step reads" in lib.unroll_last_error(), "ctypes sees the error of a wrong size")
    return lib, handle, inputs.value, outputs.value


def trained(lib, unroll, kind, work):
    """A small model for the sample of this kind, open."""
    run(unroll, "new", kind, work / kind)
    code, _, told = run(unroll, "train", work / kind / "config.toml", "--out", work / f"{kind}-run", "--max-updates",
                        "1", "-q", "--set", "model.hidden=8")
    model = ctypes.c_void_p()
    path = str(work / f"{kind}-run/last.safetensors").encode()
    check(code == 0 and lib.unroll_model_open(path, b"threads=1", ctypes.byref(model)) == 0, f"a {kind} model {told}")
    return model


def check_ids(lib, unroll, work):
    """A stream refuses ids that the vocabulary does not have, and goes on."""
    stream, inputs, n = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    lib.unroll_stream_new(trained(lib, unroll, "language-model", work), b"lanes=2", ctypes.byref(stream))
    lib.unroll_stream_sizes(stream, ctypes.byref(inputs), ctypes.byref(n))
    y = (ctypes.c_float * (2 * n.value))()
    for k in (-1, 0, n.value - 1, n.value):
        ids = (ctypes.c_int32 * 2)(0, k)
        code = lib.unroll_stream_step_ids(stream, ids, ctypes.c_size_t(2), y, ctypes.c_size_t(len(y)))
        said = lib.unroll_last_error().decode()
        wrong = f"[unroll_stream_step_ids] ids[1] is {k}; the model knows ids from 0 to {n.value - 1}"
        check(code == 0 if 0 <= k < n.value else code == 2 and wrong in said, f"id {k} of {n.value}: {code} {said}")
    code = lib.unroll_stream_step(stream, y, ctypes.c_size_t(2), y, ctypes.c_size_t(len(y)))
    said = lib.unroll_last_error().decode()
    check(code == 2 and "the other kind of input is unroll_stream_step_ids" in said, f"numbers for ids: {code} {said}")
    lib.unroll_stream_free(stream)


def check_predictor_inputs(lib, unroll, work):
    """A predictor runs with lengths from 0 to T and ids of the vocabulary, and refuses others."""
    predictor = ctypes.c_void_p()
    check(lib.unroll_predictor_new(trained(lib, unroll, "label", work), ctypes.byref(predictor)) == 0, "a predictor")

    def put(name, shape, values):
        dims, data = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int32 * len(values))(*values)
        return lib.unroll_predictor_set(predictor, name, 2, dims, len(shape), data)

    check(put(b"ids", [5, 2], [1] * 10) == 0, "ids are set")
    for length in (-1, 0, 5, 6):
        put(b"lengths", [2], [5, length])
        code, said = lib.unroll_predictor_run(predictor), lib.unroll_last_error().decode()
        wrong = f"'lengths' has {length} as element 1; it must be between 0 and 5, the number of steps"
        check(code == 0 if 0 <= length <= 5 else code == 2 and wrong in said, f"length {length} of 5: {code} {said}")
    put(b"lengths", [2], [5, 5])
    for k in (-1, 1 << 20):
        put(b"ids", [5, 2], [1] * 9 + [k])
        code, said = lib.unroll_predictor_run(predictor), lib.unroll_last_error().decode()
        check(code == 2 and f"'ids'[4,1] is {k}, which is outside of the " in said, f"id {k}: {code} {said}")
    lib.unroll_predictor_free(predictor)


def check_threads(lib, handle, n_in, n_out):
    """Calls on one stream from many threads are done one at a time or refused; each thread has its own error."""
    codes, errors, lanes = [], [], 512  # a step long enough that others come in between
    shared = ctypes.c_void_p()
    check(lib.unroll_stream_new(handle, f"lanes={lanes}".encode(), ctypes.byref(shared)) == 0, "a stream of 512 lanes")
    wide_x, wide_y = (ctypes.c_float * (lanes * n_in))(331.0), (ctypes.c_float * (lanes * n_out))()

    def work(at):
        mine = ctypes.c_void_p()
        check(lib.unroll_stream_new(handle, b"", ctypes.byref(mine)) == 0, f"thread {at} has a stream of its own")
        x, y = (ctypes.c_float * n_in)(331.0), (ctypes.c_float * n_out)()
        for _ in range(300):
            codes.append(lib.unroll_stream_step(shared, wide_x, ctypes.c_size_t(len(wide_x)), wide_y,
                                                ctypes.c_size_t(len(wide_y))))
            if lib.unroll_stream_step(mine, x, ctypes.c_size_t(n_in), y, ctypes.c_size_t(n_out)):
                errors.append(lib.unroll_last_error())
        lib.unroll_stream_free(mine)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(set(codes) == {0, 10} and not errors,
          f"4 threads: {codes.count(0)} steps of a shared stream, {codes.count(10)} refused as busy, none of their own")


def main():
    unroll, config, library, test_c, example = map(pathlib.Path, sys.argv[1:6])
    sanitized = "--address-sanitizer" in sys.argv
    with tempfile.TemporaryDirectory() as work:
        code, _, told = run(unroll, "train", config, "--out", f"{work}/run", "--max-updates", "3", "-q")
        check(code == 0, f"a forecast is trained {told}")
        model = pathlib.Path(work) / "run/last.safetensors"
        code, said, told = run(test_c, model)
        check(code == 0, f"C program: {said}{told}")
        if sanitized:
            print("skipped: allocations are not counted, and neither docs/c.md nor Python is tried: AddressSanitizer")
        elif shutil.which("valgrind"):
            code, _, told = run("valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
                                "--errors-for-leak-kinds=definite", test_c, model)
            check(code == 0, f"valgrind finds no fault {told[-2000:]}")
            check_allocations(example, model)
        else:
            print("skipped: faults and allocations are not counted, since valgrind is not installed")
        code, said, told = run(example, model, input="330\n331.5\n332\n")
        check(code == 0 and len(said.split()) == 3, f"the example forecasts three times {told}")
        code, _, told = run(example, config, input="1\n")
        check(code == 1 and told.startswith("["), f"the example tells of a wrong file: {told.strip()}")
        check_exports(library)
        if not sanitized:
            check_page(pathlib.Path(__file__).parents[2], unroll.resolve(), library.resolve(), pathlib.Path(work))
            lib, *opened = check_ctypes(library, model)
            check_threads(lib, *opened)
            check_ids(lib, unroll, pathlib.Path(work))
            check_predictor_inputs(lib, unroll, pathlib.Path(work))
    sys.exit(bool(FAILED))


main()
