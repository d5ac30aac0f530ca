#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What train and eval say beside their results. usage: check_train_messages.py UNROLL"""
import json
import math
import os
import re
import struct
import tempfile
import time

from command import ok, on_terminal, refused, run_checks
from small_runs import SMALL, config, same_files


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
    series = ok("train", config(folder / "other", "forecast"), "--out", folder / "series", "--max-updates", 5, "--set",
                "data.validation=0.01", *SMALL)
    assert re.search(r"the validation set has only \d+ windows: .* the mean absolute error: about \d+ %\)",
                     "\n".join(series.messages())), series.err


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


def displays(folder):
    """a terminal gets a bar, NO_COLOR takes its color, TERM=dumb gets lines"""
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


def verdict(folder):
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
    run_checks([small_sets, estimates, tensorboard, displays, bad_data, advice, verdict], work)
