#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a newcomer: what each gives, as a table. usage: check_mistakes.py UNROLL"""
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from command import UNROLL, call, ok, run_checks, save

# command line -> exit code, words that the message has
COMMANDS = [
    ("save runs/char", 2, ['no command "save"', "best.safetensors", "unroll help"]),
    ("convert runs/char", 2, ["`unroll export`"]),
    ("test runs/char", 2, ['no command "test"', "Did you mean `unroll eval`?"]),
    ("evaluate runs/char", 2, ["`unroll eval`"]),
    ("sample runs/char", 2, ["`unroll generate`"]),
    ("run-model runs/char", 2, ["`unroll generate`"]),
    ("infer runs/char", 2, ["`unroll predict`"]),
    ("fit c.toml", 2, ["`unroll train`"]),
    ("tarin c.toml", 2, ["`unroll train`"]),
    ("Train c.toml", 2, ["`unroll train`"]),
    ("compar c.toml", 2, ["`unroll compare`"]),
    ("check c.toml", 2, ["unroll data check CONFIG"]),
    ("c.toml", 2, ["unroll train c.toml --out FOLDER"]),
    ("xyzzy", 2, ['no command "xyzzy"', "`unroll help` lists the commands"]),
    ("help xyzzy", 2, ['no command "xyzzy"']),
    ("--json doctor", 2, ["got the option --json", "unroll doctor --json"]),
]
OPTIONS = [
    ("generate run --temp 0.7", 2, ["[generate]", "no option --temp.", "Did you mean --temperature?"]),
    ("generate run --temprature=0.7", 2, ["no option --temprature.", "--temperature"]),
    ("generate run --topk 3", 2, ["--top-k"]),
    ("train c.toml --otu run", 2, ["no option --otu", "Did you mean --out?"]),
    ("train --bogus", 2, ["no option --bogus", "unroll train --help"]),
    ("train c.toml --out run --lr 0.1", 2, ["key of the config", "--set train.lr=VALUE"]),
    ("train c.toml --out run --batch-size 8", 2, ["--set train.batch=VALUE"]),
    ("train c.toml --out run --hidden 8", 2, ["--set model.hidden=VALUE"]),
    ("generate run --temperature warm", 2, ["--temperature: expected a number, 0 to 100", 'got "warm"',
                                            "--temperature 0.8"]),
    ("generate run --temperature -1", 2, ["0 to 100", 'got "-1"']),
    ("generate run --length 1.5", 2, ["a whole number", 'got "1.5"']),
    ("bench --batch 0", 2, ["--batch", "1 to 1000000", 'got "0"', "--batch 32"]),
    ("bench --batch", 2, ["--batch needs a value"]),
    ("bench --batch 3 --batch 4", 2, ["--batch is given more than once"]),
    ("bench --mode trian", 2, ["infer, train, stream, gemm", 'got "trian"', "Did you mean train? `unroll bench"]),
    ("eval run --split tset", 2, ["Did you mean test?"]),
    ("eval run --split nope", 2, ['got "nope". `unroll eval']),
    ("new classify demo --data none.csv", 3, ["[none.csv]", "there is no such file"]),
    ("new classifier demo", 2, ["KIND: expected one of", "Did you mean classify?"]),
    ("data chekc c.toml", 2, ["Did you mean check?"]),
    ("generate run And then", 2, ['unexpected argument "And"', "Quote"]),
]
OPERANDS = [(name, 2, [f"[{name}]", "is missing", f"unroll {name} --help"])
            for name in ("data", "eval", "predict", "generate", "inspect", "explain", "profile", "compare",
                         "report", "ablation", "stream", "run", "export", "import", "completion")]
OPERANDS += [("new", 2, ["[new]", "language-model"]), ("new forecast", 2, ["[new]", "folder"]),
             ("train", 2, ["[train]", "--out is missing"]), ("train c.toml", 2, ["--out is missing"]),
             ("train --out run", 2, ["config file is missing", "unroll train CONFIG --out DIR"]),
             ("run c.toml", 2, ["--input is missing"]),
             ("run c.toml --input i --output o", 2, ["--weights is missing"]),
             ("ablation c.toml", 2, ["CHANGES is missing", "hidden=512"])]
SETTINGS = [
    ("train c.toml --out run --set model.hiden=3", 2, ["model.hiden", "Did you mean model.hidden?"]),
    ("train c.toml --out run --set hidden=3", 2, ["unknown key hidden", "Did you mean model.hidden?"]),
    ("train c.toml --out run --set model.hidden=wide", 2, ["model.hidden=wide", "integer", "model.hidden=128"]),
    ("train c.toml --out run --set model.hidden=0", 2, ["model.hidden is 0", "between 1 and"]),
    ("train c.toml --out run --set model.hidden", 2, ["--set section.key=value"]),
    ("train c.toml --out run --set train.schedule=linaer", 2, ["linear", "Did you mean linear?"]),
    ("train c.toml --out run --set model.cell=gur", 2, ["gru"]),
    ("train c.toml --out run --backend gpu", 5, ["gpu", "cpu"]),
]
# Commands that take a config, a run folder, or either.
CONFIG_COMMANDS = ["train {} --out out", "data check {}", "ablation {} hidden=8 --minutes 0.01"]
RUN_COMMANDS = ["eval {}", "predict {}", "generate {}", "stream {}"]
EITHER_COMMANDS = ["explain {}", "profile {}", "compare {}", "inspect {}"]
WRONG_FILES = ["none.toml", "empty.toml", "binary.toml", "model.safetensors", "empty", "folder", "text.txt", "data.csv"]


def check(rows, folder):
    for line, code, says in rows:
        result = call(*shlex.split(line), cwd=folder)
        assert result.code == code, f"`unroll {line}` gave {result.code}, not {code}: {result.err}"
        assert result.err.startswith("unroll: error: ["), f"`unroll {line}`: {result.err}"
        for text in says:
            assert text in "\n".join(result.messages()), f"`unroll {line}`: no {text!r} in {result.err!r}"
        assert not (folder / "run").exists(), f"`unroll {line}` left a run folder"


def make_config(folder):
    (folder / "c.toml").write_text("[task]\nkind = \"language-model\"\n[data]\npath = \"text.txt\"\n")
    (folder / "text.txt").write_text("to be or not to be, that is the question.\n" * 200)


def unknown_commands(folder):
    """an unknown command names the right one, or the nearest"""
    check(COMMANDS, folder)


def wrong_options(folder):
    """a wrong option names the nearest, a wrong value its range and an example"""
    make_config(folder)
    check(OPTIONS, folder)


def missing_operands(folder):
    """a missing operand is named, with where to look"""
    make_config(folder)
    check(OPERANDS, folder)


def wrong_settings(folder):
    """a wrong --set names the key, the nearest one, the type or the range"""
    make_config(folder)
    check(SETTINGS, folder)


def wrong_files(folder):
    """a file of another kind is exit code 3 with its name and what to give instead"""
    make_config(folder)
    for name in ("empty.toml", "empty"):
        (folder / name).write_bytes(b"")
    (folder / "binary.toml").write_bytes(bytes(range(256)) * 40)
    (folder / "data.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "folder").mkdir()
    save(folder / "model.safetensors", w=("F32", [2], [1, 2]))
    readable = {"inspect {}": {"model.safetensors"}}
    for command in CONFIG_COMMANDS + RUN_COMMANDS + EITHER_COMMANDS:
        for name in WRONG_FILES:
            if name in readable.get(command, ()):
                continue
            line = command.format(name)
            result = call(*line.split(), cwd=folder)
            assert result.code in (2, 3), f"`unroll {line}` gave {result.code}: {result.err}"
            message = " ".join(result.messages())
            assert message.startswith("unroll: error: [") and name in message, f"`unroll {line}`: {result.err}"
            assert ". " in message, f"`unroll {line}` says no next step: {result.err}"
            assert not (folder / "out").exists(), f"`unroll {line}` left a folder"


def in_shell(line, folder, before=""):
    """Exit code and stderr of a command with redirections, after other commands of the shell."""
    done = subprocess.run(["sh", "-c", f"{before}exec {UNROLL} {line}"], cwd=folder, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stderr


def unwritable_output(folder):
    """output that cannot be written is exit code 6, and never ends up in another file"""
    make_config(folder)
    for line in ("help", "inspect c.toml", "train c.toml --max-updates 2 --out run", "generate run"):
        shutil.rmtree(folder / "run", ignore_errors=True)
        if line == "generate run":
            ok("train", "c.toml", "--max-updates", 2, "--out", "run", cwd=folder)
        for target in (">/dev/full", ">&-"):
            code, err = in_shell(f"{line} {target}", folder)
            assert code == 6 and "[stdout] writing failed" in err, f"`unroll {line} {target}` gave {code}: {err}"
            if line.startswith("train"):
                assert call("eval", "run", cwd=folder).code == 0, "the run is whole"
                shutil.rmtree(folder / "run")
    code, err = in_shell("predict run <&-", folder)
    assert code == 3 and "[stdin]" in err, f"without input: {code}: {err}"
    shutil.rmtree(folder / "run")
    code, err = in_shell("train c.toml --out run", folder, before="ulimit -f 8; ")
    assert code == 6 and "File too large" in err, f"with a limit on the size of files: {code}: {err}"


with tempfile.TemporaryDirectory() as work:
    run_checks([unknown_commands, wrong_options, missing_operands, wrong_settings, wrong_files, unwritable_output],
               work)
