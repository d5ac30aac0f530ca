#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping and resuming a run. usage: check_resume.py UNROLL"""
import json
import shutil
import signal
import subprocess
import tempfile
import time

from command import UNROLL, call, ok, refused, run_checks
from small_runs import SMALL, config, same_files


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
    refused(2, "train", folder / "demo" / "config.toml", "--resume", "--out", run, "--seed", 7,
            says=["train.seed from 0 to 7", "unroll train --resume --out"])
    refused(2, "train", "--resume", run, says=["Name the run to resume: unroll train --resume --out"])
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


def one_process_trains_in_a_folder(folder):
    """a second process is refused, with --resume too, until the first one has ended"""
    source, run = config(folder), folder / "run"
    process = subprocess.Popen([UNROLL, "train", source, "--out", run, "--max-updates", "100000000", *SMALL,
                                "--set", "train.checkpoint_every=1"], stderr=subprocess.DEVNULL)
    while not (run / "last.safetensors").exists():
        time.sleep(0.01)
    for resume in ([], ["--resume"]):
        refused(2, "train", source, "--out", run, "--max-updates", "100000000", *resume, *SMALL,
                says=[f"another process is training in {run}"])
    process.kill()
    process.wait()
    ok("train", "--resume", "--out", run, "--max-updates", 100000, "--set", "train.max_minutes=0.001")


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


with tempfile.TemporaryDirectory() as work:
    run_checks([resume_equals, resume_with_another_config, split_files_may_move, a_failed_start_blocks_nothing,
                limits_and_checks, stops_on_signals, one_process_trains_in_a_folder, second_signal_ends_at_once], work)
