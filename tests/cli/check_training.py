#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""new, train, resume, signals, eval, generate. usage: check_training.py UNROLL"""
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from command import UNROLL, call, ok, on_terminal, refused, run_checks

SMALL = ["--set", "model.hidden=8", "--set", "train.batch=4", "--set", "train.checkpoint_every=5", "--set",
         "train.validate_every=20", "--threads", "1"]
KINDS = ["language-model", "forecast", "classify", "label", "translate", "document"]
FILES = ["best.safetensors", "last.safetensors", "metrics.jsonl"]


def config(folder, kind="classify", *settings):
    ok("new", kind, folder / "demo", *settings)
    return folder / "demo" / "config.toml"


def same_files(a, b):
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), f"{name} differs"


def whole_flow(folder):
    """new, train, eval and inspect work for every kind of task"""
    for kind in KINDS:
        work = folder / kind
        work.mkdir()
        run = work / "run"
        result = ok("train", config(work, kind), "--out", run, "--max-updates", 20, "--json", *SMALL)
        assert result.json()["updates"] == 20 and "validation update=20 " in result.err and "\033" not in result.err
        assert sorted(p.name for p in run.iterdir()) == sorted([*FILES, "config.toml", "log.txt"])
        assert "validation update=20" in (run / "log.txt").read_text()
        assert all(json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
        report = ok("eval", run, "--json").json()
        assert report["loss"] > 0 and report["metrics"] and report["baselines"], report
        again = ok("eval", work / "demo/config.toml", "--weights", run / "best.safetensors", "--set", "model.hidden=8",
                   "--set", "train.batch=4", "--json").json()
        assert again["metrics"] == report["metrics"], (again, report)
        assert ok("inspect", run, "--json").json()["tensors"]
        if kind in ("language-model", "forecast"):  # whose steps are of one number
            (work / "steps").write_text("1\n2\n3\n")
            assert len(ok("stream", run, "--input", work / "steps").out.splitlines()) == 3
        refused(2, "train", run / "config.toml", "--out", run, says=["not empty", "--resume"])
        refused(2, "new", kind, work / "demo", says=["exists"])


def sampling(folder):
    """generate is a function of the seed and refuses what is no language model"""
    run = folder / "run"
    ok("train", config(folder, "language-model"), "--out", run, "--max-updates", 20, *SMALL)
    texts = [ok("generate", run, "--length", 50, "--seed", seed, "--prompt", "the ").out for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and len(texts[0]) >= 50
    refused(3, "generate", folder, says=["not a run folder"])
    ok("train", config(folder / "other", "classify"), "--out", folder / "c", "--max-updates", 5, *SMALL)
    assert call("generate", folder / "c").code in (2, 3)


def labelling(folder):
    """predict gives every token of a line a label, in the form of the training file or as JSON"""
    run = folder / "run"
    ok("train", config(folder, "label"), "--out", run, "--max-updates", 60, "--set", "model.hidden=16")
    assert "bidirectional = true" in (run / "config.toml").read_text(), "the kind's default"
    (folder / "lines").write_text("the sea again\n\nmy sister\n")
    blocks = ok("predict", run, "--input", folder / "lines").out.split("\n\n")
    assert [line.split("\t")[0] for line in blocks[0].split("\n")] == ["the", "sea", "again"], blocks
    assert all(line.split("\t")[1] in ("who", "does", "what", "when") for line in blocks[0].split("\n")), blocks
    rows = [json.loads(line) for line in ok("predict", run, "--input", folder / "lines", "--json").out.splitlines()]
    assert [row["tokens"] for row in rows] == [["the", "sea", "again"], [], ["my", "sister"]], rows
    assert [len(row["labels"]) for row in rows] == [3, 0, 2]
    (folder / "lines").write_text("the sea\n" + "word " * 5000 + "\n")
    refused(3, "predict", run, "--input", folder / "lines", says=["lines:2", "4096"])
    (folder / "demo" / "bad.tsv").write_text("a\tx\n\nb\n")
    refused(3, "train", folder / "demo/config.toml", "--out", folder / "d", "--set", "data.path=bad.tsv",
            says=["bad.tsv", "line 3"])


def translating(folder):
    """predict writes targets, greedily or by beam; eval scores them; generate takes top-k and top-p"""
    run = folder / "run"
    ok("train", config(folder, "translate"), "--out", run, "--max-updates", 40, "--set", "model.hidden=16")
    (folder / "lines").write_text("365\n\n7\n")
    greedy = ok("predict", run, "--input", folder / "lines").out
    assert greedy == ok("predict", run, "--input", folder / "lines", "--beam", 1, "--length-penalty", 2).out
    assert greedy.count("\n") == 3 and greedy.split("\n")[1] == ""
    answers = ok("predict", run, "--input", folder / "lines", "--json", "--beam", 3).out.splitlines()
    rows = [json.loads(line) for line in answers]
    assert [row["source"] for row in rows] == ["365", "", "7"], rows
    report = ok("eval", run, "--json", "--split", "validation").json()
    wanted = {"token_accuracy", "perplexity", "exact_match", "bleu", "rouge1", "rouge2", "rougeL"}
    assert wanted == report["metrics"].keys(), report
    assert "source_as_it_is" in report["baselines"], report
    swap = {"a": "two", "b": "one", "c": "b"}
    lines = [" ".join("abc"[n // 3 ** k % 3] for k in range(1 + n % 4)) for n in range(80)]
    text = "".join(f"{line}\t{' '.join(swap[word] for word in line.split())}\n" for line in lines)
    (folder / "demo/words.tsv").write_text(text + "a\tnot as many words\n" * 3)
    words = ["--set", "data.path=words.tsv", "--set", "data.split_seed=4"]
    ok("train", folder / "demo/config.toml", "--out", folder / "words", "--max-updates", 2, *words, *SMALL)
    replaced = ok("eval", folder / "words", "--json").json()["baselines"]["word_by_word"]
    assert replaced["rougeL"] > 0.95 and replaced["exact_match"] > 0.8, replaced
    refused(2, "predict", run, "--beam", 0)
    ok("train", config(folder / "text", "language-model", "--set", "data.tokens=bpe", "--set", "data.vocabulary=300"),
       "--out", folder / "lm", "--max-updates", 5, *SMALL)
    one = ok("generate", folder / "lm", "--length", 20, "--top-k", 1, "--seed", 1).out
    assert one == ok("generate", folder / "lm", "--length", 20, "--temperature", 0, "--seed", 2).out
    assert ok("generate", folder / "lm", "--length", 20, "--top-p", 0.5).out
    refused(3, "train", config(folder / "l", "label"), "--out", folder / "d", "--set", "data.path=none", says=["none"])


def documents(folder):
    """a document task trains, beats the most frequent label, and predict gives each line its label"""
    run = folder / "run"
    ok("train", config(folder, "document"), "--out", run, "--max-updates", 150)
    result = ok("eval", run, "--json").json()
    assert result["metrics"]["accuracy"] > result["baselines"]["most_frequent"]["accuracy"] + 0.2, result
    (folder / "lines.txt").write_text("The wind sees a lamp today. My sister follows the sea.\n\n")
    labels = ok("predict", run, "--input", folder / "lines.txt").out.split("\n")
    assert labels[0].split("\t")[0] in ("farmer", "sailor", "king", "sister", "wind", "bird") and labels[1] == "", labels


def resume_equals(folder):
    """a run in two parts leaves the bytes of a run in one"""
    source = config(folder)
    ok("train", source, "--out", folder / "whole", "--max-updates", 60, *SMALL)
    ok("train", source, "--out", folder / "parts", "--max-updates", 23, *SMALL)
    ok("train", source, "--out", folder / "parts", "--max-updates", 60, "--resume", *SMALL)
    same_files(folder / "whole", folder / "parts")
    refused(2, "train", source, "--out", folder / "parts", "--resume", "--seed", 5, *SMALL, says=["seed"])


def resume_with_another_config(folder):
    """a resume names changed keys, follows or refuses them, and keeps the old config"""
    source, run = config(folder), folder / "run"
    small = [*SMALL, "--set", "train.max_updates=25"]
    ok("train", source, "--out", run, *small)
    before = (run / "config.toml").read_text()
    files = {p.name: p.read_bytes() for p in run.iterdir() if p.name != "log.txt"}
    refused(2, "train", source, "--out", run, "--resume", *small, "--set", "model.hidden=9", "--set", "train.batch=5",
            "--set", "train.lr=0.5", says=["model.hidden from 8 to 9", "train.batch from 4 to 5"])
    refused(2, "train", source, "--out", run, "--resume", *small, "--set", "train.max_updates=20", "--quiet",
            says=["already at update 25 of 20: nothing to do", "raise train.max_updates or --max-updates"])
    done = ok("train", "--resume", "--out", run)
    assert any("at update 25 of 25: nothing to do; raise train.max_updates or --max-updates" in m
               for m in done.messages()), done.err
    assert files == {p.name: p.read_bytes() for p in run.iterdir() if p.name != "log.txt"}
    changed = ok("train", "--resume", "--out", run, "--set", "train.lr=0.5", "--max-updates", 30)
    said = [line for line in changed.err.splitlines() if line.startswith("config change: ")]
    assert said == ["config change: train.lr = 0.5 (was 0.005)", "config change: train.max_updates = 30 (was 25)"], said
    assert (run / "config-before-25.toml").read_text() == before
    now = (run / "config.toml").read_text()
    assert "lr = 0.5 " in now and "max_updates = 30 " in now
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["update"] == 30
    data = folder / "demo" / "other.csv"
    rows = next(p for p in (folder / "demo").glob("*.csv") if p != data).read_text().splitlines()
    data.write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    refused(2, "train", "--resume", "--out", run, "--max-updates", 40, "--set", f"data.path={data}",
            "--quiet", says=["training data has changed"])
    data.write_text("\n".join(rows) + "\n")  # the same data in another place
    moved = ok("train", "--resume", "--out", run, "--max-updates", 40, "--set", f"data.path={data}")
    assert "config change: data.path = " in moved.err, moved.err
    refused(2, "train", "--resume", "--out", run, "--max-updates", 50, "--set", f"data.validation={data}",
            says=["cannot change data.validation from 0.1 to"])
    refused(2, "train", "--resume", "--out", folder / "none", says=["holds no run to resume"])
    refused(2, "train", "--out", folder / "none", says=["the config file is missing"])


def split_files_may_move(folder):
    """a resume follows the files of validation and test set to another folder, and refuses another validation set"""
    source, run = config(folder), folder / "run"
    rows = next((folder / "demo").glob("*.csv")).read_text().splitlines(keepends=True)
    for place, lines in (("here", rows[:41]), ("there", rows[:41]), ("wrong", rows[:1] + rows[41:81])):
        (folder / place).mkdir()
        for name in ("validation", "test"):
            (folder / place / f"{name}.csv").write_text("".join(lines))

    def files(place):
        return [a for name in ("validation", "test") for a in ("--set", f"data.{name}={folder / place / name}.csv")]

    ok("train", source, "--out", run, "--max-updates", 10, *files("here"), *SMALL)
    shutil.rmtree(folder / "here")
    refused(2, "train", "--resume", "--out", run, "--max-updates", 20, *files("wrong"),
            says=["the validation data has changed"])
    moved = ok("train", "--resume", "--out", run, "--max-updates", 20, *files("there"))
    assert [m.split(" = ")[0] for m in moved.messages() if m.startswith("config change: data.")] == [
        "config change: data.validation", "config change: data.test"], moved.err


def small_sets(folder):
    """train and eval note a validation or test set whose figures are noisy, and no other"""
    source, run = config(folder), folder / "run"
    trained = ok("train", source, "--out", run, "--max-updates", 5, "--set", "data.test=0.02", *SMALL)
    for done in (trained, ok("eval", run)):
        notes = [m for m in done.messages() if m.startswith("note: the ")]
        found = re.fullmatch(r"note: the test set has only (\d+) examples: its figures are noisy "
                             r"\(standard error of an accuracy: up to (\d+) points\)", "".join(notes))
        assert found and int(found[1]) < 50 and int(found[2]) == round(50 / math.sqrt(int(found[1]))), done.err
    assert "noisy" not in ok("eval", run, "--split", "validation").err
    series = ok("train", config(folder, "forecast"), "--out", folder / "series", "--max-updates", 5, "--set",
                "data.validation=0.01", *SMALL)
    assert re.search(r"the validation set has only \d+ windows: .* the mean absolute error: about \d+ %\)",
                     "\n".join(series.messages())), series.err


def a_failed_start_blocks_nothing(folder):
    """a start that fails leaves no folder, and what a killed one left does not block the next"""
    source, run = config(folder), folder / "run"
    text = source.read_text()
    source.write_text(text.replace('cell = "', 'cell = "mine" # "') +
                      '\n[cells.mine]\nstates = ["h"]\nstep = "h\' = tanh(linear(x) + linear(g))"\n')
    assert call("train", source, "--out", run, *SMALL).code == 3
    assert not run.exists()
    source.write_text(text)
    assert call("train", source, "--out", run, *SMALL, "--set", "model.hidden=1000000").code != 0  # no memory for it
    assert not run.exists()
    run.mkdir()
    for name in ("log.txt", "config.toml", "metrics.jsonl"):
        (run / name).write_text("" if name == "metrics.jsonl" else "# leftover\n")
    ok("train", source, "--out", run, "--max-updates", 5, *SMALL)
    assert "# leftover" not in (run / "log.txt").read_text() + (run / "config.toml").read_text()
    (folder / "mine").mkdir()
    (folder / "mine" / "config.toml").write_text(text)
    refused(2, "train", source, "--out", folder / "mine", *SMALL, says=["not empty"])
    assert (folder / "mine" / "config.toml").read_text() == text


def limits_and_checks(folder):
    """a run stops at its limit of time and goes on; --verify-resume compares; old checkpoints stay"""
    source = config(folder)
    run = folder / "run"
    forever = ["--set", "train.max_updates=100000000", *SMALL]
    limits = ["--set", "train.max_minutes=0.01", "--set", "train.keep=3"]
    done = ok("train", source, "--out", run, "--json", *limits, *forever)
    report = done.json()
    assert report["out_of_time"] and 0 < report["updates"] < 100000000 and "unroll train --resume --out" in done.err
    kept = sorted(int(p.name[11:-12]) for p in run.glob("checkpoint-*.safetensors"))
    assert kept[-1] == report["updates"] and len(kept) == min(3, -(-kept[-1] // 5)), (kept, report)
    ok("train", run / "config.toml", "--out", run, "--resume", "--max-updates", report["updates"] + 1, "--set",
       "train.max_minutes=0")
    check = ok("train", source, "--verify-resume", "--max-updates", 9, "--json", *SMALL).json()
    assert check == {"equal": True, "updates": 9, "stopped_after": 4, "differences": []}, check


def precision_check(folder):
    """--check-precision shows both curves; its exit code is 9 when they are further apart than the tolerance"""
    source = config(folder)
    bf16 = ["--set", "train.precision=bf16", *SMALL]
    near = ok("train", source, "--check-precision", 6, "--json", *bf16).json()
    assert near["agrees"] and len(near["smoothed_losses"]) == 6 and 0 < near["largest_difference"] < 0.01, near
    assert near["smoothed_losses"][-1].keys() == {"update", "f32", "bf16"}, near
    far = call("train", source, "--check-precision", 6, "--tolerance", near["largest_difference"] / 2, "--json", *bf16)
    assert far.code == 9 and not far.json()["agrees"], far.out
    assert "smoothed losses" in call("train", source, "--check-precision", 60, *bf16).out
    refused(2, "train", source, "--check-precision", 6, *SMALL, says=["f32"])


def levers(folder):
    """lever compares a config with each change and with all of them, in a table, as JSON and in lever.json"""
    source = config(folder)
    common = ["--minutes", 0.04, "--seeds", 2, "--set", "model.hidden=8", "--threads", 1]
    done = ok("lever", source, "batch=8", "hidden=16,train.lr=0.01", "--json", "--out", folder / "out", *common)
    report = done.json()
    rows = {row["name"]: row for row in report["levers"]}
    assert list(rows) == ["baseline", "batch=8", "hidden=16,train.lr=0.01", "all"], done.out
    assert rows["all"]["settings"] == ["train.batch=8", "model.hidden=16", "train.lr=0.01"], done.out
    for row in rows.values():
        assert len(row["runs"]) == 2 and all(run["points"] for run in row["runs"]), row
        for figure in ("items_per_second", "epoch_seconds", "loss_at_items", "loss_at_seconds"):
            assert 0 < row[figure]["low"] <= row[figure]["mean"] * (1 + 1e-12), row
        assert row["bytes"] > 1000
    assert rows["baseline"]["verdict"] == "baseline" and "at_seconds" not in rows["baseline"], rows["baseline"]
    assert all(row["at_seconds"] in ("within", "lower", "higher") for name, row in rows.items() if name != "baseline")
    least = min(run["points"][-1]["items"] for row in rows.values() for run in row["runs"])
    assert report["items"] == least and json.loads((folder / "out/lever.json").read_text()) == report
    assert done.err.count("lever=batch=8 seed=") == 2, done.err
    assert "hidden = 16" in (folder / "out/all/config.toml").read_text()
    assert (folder / "out/batch=8/seed-1/metrics.jsonl").exists()
    table = ok("lever", source, "batch=8", "batch=12", *common).out
    assert {"batch=8", "batch=12"} <= set(table.split()) and "loss at equal time" in table and "\n  all" not in table, table
    for lever, says in (("bach=8", "'batch'"), ("batch", "no ="), ("batch=none", "integer"), ("epochs=3", "--minutes"),
                        ("cell=abacus", "abacus"), ("batch=8 batch=8", "twice"), ("hidden=8", "says already"),
                        ("batch=8,model.hidden=8", "model.hidden=8 is what the config says already"),
                        ("projection=4 cell=rnn", "projection")):
        done = refused(2, "lever", source, *lever.split(), *common, says=[says])
        assert "lever=" not in done.err, "it was refused after a run"
    refused(2, "lever", source, "batch=8", "--out", folder / "out", *common, says=["not empty"])
    refused(5, "lever", source, "batch=8", "--backend", "abacus", *common, says=["abacus", "reference"])


def lever_file_refused(folder):
    """a lever.json that cannot be written is exit code 6, and the table and the runs are there all the same"""
    out = folder / "out"
    process = subprocess.Popen([UNROLL, "lever", config(folder), "hidden=8", "--out", out, "--minutes", "0.02", "--seeds", "1",
                                "--set", "model.hidden=16", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    while not out.exists():
        time.sleep(0.001)
    (out / "lever.json").mkdir()
    printed, told = process.communicate(timeout=60)
    assert process.returncode == 6 and "lever.json" in told.replace("\n  ", " ").splitlines()[-1], told
    assert [row["name"] for row in json.loads(printed)["levers"]] == ["baseline", "hidden=8"]
    assert (out / "baseline/config.toml").exists() and not list(out.glob("*.tmp"))


def several_series(folder):
    """several columns are forecast together: metrics of each, a stream of all; columns that do not fit are refused"""
    rows = "".join(f"{t},{t % 7},{100 + t % 5},w\n" for t in range(300))
    source = config(folder, "forecast", "--set", "data.columns=b,a", "--set", "data.horizon=3")
    assert 'columns = ["b", "a"]' in source.read_text()
    (folder / "demo/series.csv").write_text("day,a,b,word\n" + rows)
    run = folder / "run"
    ok("train", source, "--out", run, "--max-updates", 20, *SMALL)
    report = ok("eval", run, "--json").json()
    for metrics in (report["metrics"], report["baselines"]["linear_ar"]):
        assert {"mae", "mae.a", "mae.b", "rmse.a", "mase.b"} <= metrics.keys(), report
    (folder / "steps").write_text("101 1\n102,2\n")
    (folder / "few").write_text("101\n")
    lines = ok("stream", run, "--input", folder / "steps").out.splitlines()
    assert [len(line.split(",")) for line in lines] == [6, 6], lines
    assert 80 < float(lines[1].split(",")[0]) < 120 and -5 < float(lines[1].split(",")[1]) < 12, lines
    refused(3, "stream", run, "--input", folder / "few", says=["a step takes 2 numbers; the line has 1"])
    checked = ok("data", "check", source, "--json").json()["figures"]
    assert checked["highest of a"] == 6 and checked["highest of b"] == 104, checked
    assert "f32[9,32,2]" in ok("inspect", source, "--set", "data.window=9").out
    for columns, says in [("a,c", "Columns: day, a, b, word"), ("a,a", "'a' twice"), ("a,word", "line 2, column 4")]:
        bad = call("train", source, "--out", folder / "bad", "--set", f"data.columns={columns}")
        assert bad.code in (2, 3) and says in "\n".join(bad.messages()) and not (folder / "bad").exists(), (columns, bad.err)
    refused(3, "train", source, "--out", folder / "bad", "--set", "data.column=a",
            says=["data.column is set too. Keep one"])


def data_check(folder):
    """data check tells what is odd; its exit code is 3 for what training refuses, with --strict for warnings too"""
    for kind in KINDS:
        report = ok("data", "check", config(folder / kind, kind), "--json").json()
        assert report["kind"] == kind and report["errors"] == 0 and report["figures"]["batches in training"] > 0, report
    source = folder / "classify/demo/config.toml"
    assert ok("data", "check", source, "--strict").out.startswith("kind")
    rows = (folder / "classify/demo/patterns.csv").read_text().splitlines()
    (folder / "classify/demo/bad.csv").write_text("\n".join(rows[:50] + ["nan," + rows[3].split(",", 1)[1]]))
    bad = call("data", "check", source, "--json", "--set", "data.path=bad.csv")
    assert bad.code == 3 and bad.json()["findings"][0]["level"] == "error", bad.out
    assert "line 51" in bad.json()["findings"][0]["what"], bad.out
    (folder / "classify/demo/twice.csv").write_text("\n".join(rows + rows))
    assert ok("data", "check", source, "--set", "data.path=twice.csv").out.count("warning") == 3
    assert call("data", "check", source, "--strict", "--set", "data.path=twice.csv").code == 3
    refused(3, "data", "check", source, "--set", "data.path=none.csv", says=["none.csv"])
    few = call("data", "check", folder / "forecast/demo/config.toml", "--json", "--set", "data.window=100000")
    assert few.code == 3 and "too few for a training window" in few.json()["findings"][0]["what"], few.out
    assert call("data", "look", source).code == 2


def estimates(folder):
    """time and memory are told before the run, and afterwards how far that was off; what does not fit is refused"""
    source = config(folder)
    done = ok("train", source, "--out", folder / "run", "--json", "--max-updates", 200, *SMALL)
    lines = [line for line in done.err.splitlines() if line.startswith("estimate: ")]
    assert len(lines) == 2 and "200 updates of " in lines[0] and lines[1].startswith("estimate: memory "), lines
    assert max(map(len, lines)) <= 80, lines
    assert "estimate: memory of parameters" in (folder / "run/log.txt").read_text()
    report = done.json()
    long = ok("train", source, "--out", folder / "long", "--json", "--set", "train.max_minutes=0.03", "--set",
              "train.max_updates=100000000", *SMALL)
    assert long.json()["seconds"] >= 1 and long.err.count("measured: time ") == 1, long.err
    assert done.err.count("measured: time ") == (report["seconds"] >= 1), "a run below one second is not compared"
    assert report["estimated_bytes"] > 1000 and report["estimated_seconds"] > 0 and report["seconds"] > 0, report
    none = ok("train", source, "--out", folder / "none", "--max-updates", 20, "--set", "run.estimate_seconds=0", *SMALL)
    assert "estimate: " not in none.err
    ok("train", source, "--out", folder / "some", "--max-updates", 20, *SMALL)
    same_files(folder / "none", folder / "some")
    refused(7, "train", source, "--out", folder / "big", "--set", "model.hidden=900000", says=["parameters", "free"])


def events_of(path):
    """(step, {tag: value}) of each event of a TensorBoard file, with the sums checked"""
    def crc32c(data):
        crc = 0xffffffff
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        crc ^= 0xffffffff
        return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff

    def fields(data):
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        at = 0
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
                continue
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at:at + size]
            at += size

    data, at = path.read_bytes(), 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        message = data[at + 12:at + 12 + size]
        assert struct.unpack_from("<I", data, at + 8)[0] == crc32c(data[at:at + 8])
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == crc32c(message)
        at += 16 + size
        event = dict(fields(message))
        seconds, = struct.unpack("<d", event[1])
        assert abs(seconds - time.time()) < 3600
        scalars = {}
        for _, value in fields(event.get(5, b"")):
            parts = dict(fields(value))
            scalars[parts[1].decode()], = struct.unpack("<f", parts[2])
        yield event[2], scalars, event


def tensorboard(folder):
    """run.tensorboard writes the run's scalars as records with sums; a resumed run says from which step on it counts"""
    source, run = config(folder), folder / "run"
    settings = ["--set", "run.tensorboard=true", "--set", "train.watch_every=10", *SMALL]
    ok("train", source, "--out", run, "--max-updates", 25, *settings)
    ok("train", source, "--out", run, "--max-updates", 40, "--resume", *settings)
    first, second = [list(events_of(path)) for path in sorted(run.glob("events.out.tfevents.*"))]
    assert first[0][2][3] == b"brain.Event:2" and second[0][2][3] == b"brain.Event:2"
    assert [second[1][0], second[1][2][7]] == [30, b"\x08\x01"], second[1]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    train = {line["update"]: line["loss"] for line in lines if "loss" in line}
    seen = {step: scalars for step, scalars, _ in first[2:] + second[2:] if "train/loss" in scalars}
    assert sorted(train) == sorted(seen) == [10, 20, 30, 40], seen
    assert all(abs(seen[step]["train/loss"] - loss) < 1e-6 * abs(loss) for step, loss in train.items())
    assert "watch/saturated/recurrent.l0" in seen[30] and "train/accuracy" in seen[30], seen[30]
    tested = [scalars["validation/loss"] for _, scalars, _ in first[2:] if "validation/loss" in scalars]
    assert abs(tested[0] - next(line["validation_loss"] for line in lines if "validation_loss" in line)) < 1e-6


def stops_on_signals(folder):
    """a signal finishes the update, saves, says how to go on and exits with 128 + signal"""
    source = config(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        run = folder / f"run{int(number)}"
        process = subprocess.Popen([UNROLL, "train", source, "--out", run, "--max-updates", "100000000", *SMALL],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "update=" not in process.stderr.readline():
            pass
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, (process.returncode, err)
        assert f"unroll train --resume --out {run}\n" in err
        assert (run / "metrics.jsonl").read_text()
        refused(2, "train", "--resume", "--out", run, "--max-updates", 1, "--quiet",
                says=["already at update", " of 1: nothing to do"])


def second_signal_ends_at_once(folder):
    """a second signal does not wait for the update"""
    run = folder / "run"
    slow = ["--backend", "reference", "--set", "model.hidden=400", "--set", "train.batch=64"]
    process = subprocess.Popen([UNROLL, "train", config(folder, "language-model"), "--out", run, *slow],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (run / "log.txt").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None, "the update was not slow enough to test anything"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=2) == 130
    assert not (run / "last.safetensors").exists()


def displays(folder):
    """a terminal gets a bar, NO_COLOR takes its colour, TERM=dumb gets lines"""
    source = config(folder)
    if not os.path.exists("/dev/pts/ptmx"):
        print("     no pseudo-terminals here: not looked at")
        return
    bar = on_terminal("train", source, "--out", folder / "a", "--max-updates", 60, *SMALL)
    assert "\r" in bar and "eta" in bar and "best" in bar and "\033[32m" in bar, bar
    plain = on_terminal("train", source, "--out", folder / "b", "--max-updates", 60, *SMALL, NO_COLOR="1")
    assert "\r" in plain and "\033[32m" not in plain
    dumb = on_terminal("train", source, "--out", folder / "c", "--max-updates", 60, *SMALL, TERM="dumb")
    assert "update=10 " in dumb and "\033" not in dumb


def bad_data(folder):
    """bad data and keys that the task does not read are exit code 3, with the place"""
    source = config(folder, "forecast")
    refused(3, "train", source, "--out", folder / "a", "--set", "data.path=none.csv", says=["none.csv"])
    (folder / "demo" / "nan.csv").write_text("week,value\n1,2\n2,abc\n")
    refused(3, "train", source, "--out", folder / "a", "--set", "data.path=nan.csv", says=["nan.csv"])
    (folder / "demo" / "empty.csv").write_text("")
    refused(3, "train", source, "--out", folder / "a", "--set", "data.path=empty.csv", says=["empty.csv"])
    refused(2, "train", source, "--out", folder / "a", "--set", "data.divide=3",
            says=["forecast does not read this key"])
    assert not os.path.exists(folder / "a"), "a refused run leaves no folder"


def advice(folder):
    """a symptom is a line for people and a list in JSON, never both"""
    source = config(folder)
    rests = ["--max-updates", 12, "--set", "train.lr=1e-9", "--set", "train.batch=10000", "--set", "model.dropout=0",
             "--set", "train.validate_every=1", "--set", "train.log_every=1", "--set", "train.watch_every=4"]
    plain = ok("train", source, "--out", folder / "a", *rests)
    assert plain.err.count("advice: underfitting: ") == 1 and "underfitting" not in plain.out, plain.err
    assert "highest_update_ratio=" in (folder / "a/log.txt").read_text()
    told = ok("train", source, "--out", folder / "b", "--json", *rests)
    assert "underfitting" not in told.err, told.err
    assert "underfitting" in [row["symptom"] for row in told.json()["advice"]], told.out
    assert (folder / "b/log.txt").read_text().count("advice: underfitting: ") == 1


def judgement(folder):
    """a finished run is compared with baselines, a run cut short is not, and a diverged one says so"""
    source = config(folder, "language-model")
    few = ["--set", "train.max_updates=4", "--set", "train.lr=1e-9", *SMALL]
    finished = ok("train", source, "--out", folder / "a", *few)
    assert finished.err.count("advice: no learning: perplexity is ") == 1, finished.err
    assert "the baseline frequency has " in " ".join(finished.err.split()), finished.err
    rows = ok("train", source, "--out", folder / "b", "--json", *few).json()
    assert [row["symptom"] for row in rows["advice"]] == ["no learning"] and not rows["diverged"], rows
    short = ok("train", source, "--out", folder / "c", "--max-updates", 2, *few)
    assert "advice" not in short.err and "yes, by --max-updates" in short.out, short.err + short.out
    diverged = ok("train", source, "--out", folder / "d", "--set", "train.max_updates=40", "--set", "train.lr=50",
                  "--set", "train.clip_norm=0", "--set", "train.log_every=1", *SMALL)
    assert "advice: divergence: " in diverged.err and "no learning" not in diverged.err, diverged.err
    assert "\ndiverged" in diverged.out and "--find-lr" in diverged.out, diverged.out


with tempfile.TemporaryDirectory() as work:
    run_checks([whole_flow, sampling, labelling, translating, documents, resume_equals,
                resume_with_another_config, split_files_may_move, small_sets,
                a_failed_start_blocks_nothing, limits_and_checks, precision_check, levers, lever_file_refused, several_series, data_check, estimates, tensorboard,
                stops_on_signals, second_signal_ends_at_once, displays, bad_data, advice, judgement],
               work)
