#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Runs `unroll train` by mpirun: the files of a run have the same bytes for any number of processes, a dead or stopped
# process ends the others with exit code 8, and the run goes on with another number of them.
# usage: check_mpi.py UNROLL [--all] [--kills N] [--updates N] [--seed S] [--launcher NAME]
# --all: every case of mpi_cases.py with 1, 2, 3, 4 and 8 ranks; else a few of them.
# The survivors' exit codes hold for Open MPI, and for MPICH with -disable-auto-cleanup.
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mpi_cases as cases

CONFIG = """
[task]
kind = "language-model"
[data]
path = "{text}"
steps = 8
shards = 8
[model]
hidden = 12
embedding = 6
dropout = 0.2
[train]
batch = 2
accumulate = 8
lr = 0.01
max_updates = {updates}
validate_every = 35
checkpoint_every = 10
log_every = 7
[run]
threads = 1
rank_timeout = {timeout}
"""
FILES = ("last.safetensors", "best.safetensors", "metrics.jsonl")
PEER = 8  # exit code
RANK_TIMEOUT = 20
STOPPED_SECONDS = 30  # for the others to notice, with a rank_timeout of 2
# Launchers and their options. Open MPI refuses more processes than cores unless it is told, and asks all others to end
# where one has died; MPICH kills them at once then unless it is told.
LAUNCHERS = {
    "Open MPI": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    "MPICH": ["mpirun.mpich", "-disable-auto-cleanup"],
}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Where a build with AddressSanitizer looks for leaks, if all ranks end by themselves. Open MPI leaks memory of plug-ins
# that it has unloaded by then, so no suppression can name them. Beside a dead rank a process ends without MPI_Finalize.
LOOKS_FOR_LEAKS = {"Open MPI": False, "MPICH": True}
WRAPPER = pathlib.Path(__file__).with_name("note_exit_code.py")
failures = 0


def check(condition, text):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", text)


class Job:
    """One launch of an `unroll` command."""

    def __init__(self, a, launcher, ranks, *command, all_end=False):
        self.notes = pathlib.Path(tempfile.mkdtemp(dir=a.work))
        line = [*LAUNCHERS[launcher], "-n", str(ranks), sys.executable, str(WRAPPER), str(self.notes), a.unroll,
                *map(str, command)]
        self.ranks = ranks
        leaks = f"detect_leaks={int(all_end and LOOKS_FOR_LEAKS[launcher])}"
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), leaks]))
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**ENVIRONMENT, "ASAN_OPTIONS": options})

    def end(self, seconds=100):
        """The exit codes of the ranks; None: still running."""
        try:
            said, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            said, _ = self.process.communicate()
            check(False, f"mpirun did not end within {seconds} s")
        until = time.monotonic() + RANK_TIMEOUT + 5  # ranks may outlive their launcher
        while None in (codes := [self.note("code", r) for r in range(self.ranks)]) and time.monotonic() < until:
            time.sleep(0.02)
            if all(self.note("pid", r) is None for r in range(self.ranks)):
                break
        self.text = said + "".join(f"-- rank {r}, exit code {codes[r]}\n{self.said(r)}" for r in range(self.ranks))
        for r, code in enumerate(codes):
            if code is None and self.note("pid", r) is not None:
                os.kill(self.note("pid", r), signal.SIGKILL)
        return codes

    def note(self, kind, rank):
        path = self.notes / f"{kind}.{rank}"
        return int(path.read_text()) if path.exists() else None

    def said(self, rank):
        path = self.notes / f"out.{rank}"
        return " ".join(path.read_text().split()) + "\n" if path.exists() else ""

    def trains(self):
        """Rank 0 has printed an update, so every rank has taken part in one."""
        return "update=" in self.said(0)

    def wait_until_it_trains(self):
        while not self.trains() and self.process.poll() is None:
            time.sleep(0.002)

    def signal_rank(self, rank, what):
        while self.note("pid", rank) is None and self.process.poll() is None:
            time.sleep(0.01)
        try:
            os.kill(self.note("pid", rank), what)
            return True
        except (ProcessLookupError, TypeError):
            return False


def write_config(a, timeout=RANK_TIMEOUT):
    """Of the runs whose ranks are stopped and killed."""
    text = a.work / "text.txt"
    text.write_text(cases.lines())
    a.config = a.work / "config.toml"
    a.config.write_text(CONFIG.format(text=text, updates=a.updates, timeout=timeout))


def alone(a, config):
    """The files of one process."""
    folder = a.work / f"{config.stem} alone"
    subprocess.run([a.unroll, "train", str(config), "--out", str(folder)], check=True, capture_output=True)
    return contents(folder)


def contents(folder):
    return [(folder / name).read_bytes() if (folder / name).exists() else b"" for name in FILES]


def check_numbers_of_ranks(a, launchers):
    for task, precision in cases.CASES if a.all else cases.FEW_CASES:
        start = time.monotonic()
        config = cases.write_case(a.work, task, precision, RANK_TIMEOUT)
        expected = alone(a, config)
        check(all(expected), f"{task}, {precision}: one process has not written {FILES}")
        if precision == "f16":
            scale = cases.scalar(a.work / f"{config.stem} alone/last.safetensors", "trainer.loss_scale")
            check(1 < scale < cases.LOSS_SCALE, f"{task}: no update overflowed; the loss scale is {scale}")
        for launcher in launchers:
            for ranks in (1, 2, 3, 4, 8) if a.all else (cases.FEW_CASES[task, precision],):
                what = f"{task}, {precision}, {ranks} ranks, {launcher}"
                job = Job(a, launcher, ranks, "train", config, "--out", a.work / what, all_end=True)
                check(job.end() == [0] * ranks, f"{what}:\n{job.text}")
                check(contents(a.work / what) == expected, f"{what}: the files differ from those of one process")
        print(f"{task}, {precision}: {time.monotonic() - start:.0f} s", flush=True)


def check_profile(a, launcher):
    """Every rank profiles, rank 0 prints: phases that add up to an update, and what was exchanged in it."""
    config = a.work / "profile.toml"
    config.write_text("[model]\nhidden = 16\n[data]\nsteps = 5\n[train]\naccumulate = 3\n[run]\nthreads = 1\n")
    job = Job(a, launcher, 2, "profile", config, "--updates", 5, "--json", all_end=True)
    check(job.end() == [0, 0] and job.said(1).strip() == "", f"{launcher}: profile:\n{job.text}")
    found = json.loads("{" + job.said(0).partition("{")[2])
    phases = {row["phase"]: row["milliseconds"] for row in found["phases"]}
    check(0 < found["communication_ms"] and phases["communication"] > 0.5 * found["communication_ms"] and
          abs(sum(phases.values()) / found["update_ms"] - 1) < 0.02, f"{launcher}: phases of a profile: {found}")
    gradient = 4 * (4 * 16 * (1 + 16 + 2))
    check(found["ranks"] == 2 and gradient < found["communication_bytes"] < 3 * gradient,
          f"{launcher}: an update with {gradient} bytes of gradients: {found}")


def check_stopped_rank(a, launcher):
    folder = a.work / f"{launcher} stopped"
    job = Job(a, launcher, 3, "train", a.config, "--out", folder, "--set", "run.rank_timeout=2",
              "--set", "train.max_updates=100000")
    while not (folder / "last.safetensors").exists() and job.process.poll() is None:
        time.sleep(0.05)
    job.signal_rank(1, signal.SIGSTOP)
    until = time.monotonic() + STOPPED_SECONDS
    while None in (job.note("code", 0), job.note("code", 2)) and time.monotonic() < until:
        time.sleep(0.05)
    job.signal_rank(1, signal.SIGKILL)
    codes = job.end()
    for rank in (0, 2):
        check(codes[rank] == PEER and "no answer from rank 1 " in job.said(rank),
              f"{launcher}: beside a stopped rank, rank {rank} ended with {codes[rank]}:\n{job.text}")


def verify(launcher, job, victim, codes, trained):
    """How the survivors ended: their exit codes, and whether they name the killed rank. Before the first update the
    kill may hit MPI's own start, which ends the others as it likes; they must end, and with an error."""
    kinds = []
    for rank, code in enumerate(codes):
        said = job.said(rank)
        if rank == victim:
            continue
        elif code == PEER and re.search(rf"ranks?( \d+,)* {victim}\b", said):
            kinds.append("8, named")
        elif code == PEER and "the run is complete" in said:
            kinds.append("8 after the run")
        elif not trained and code != 0 and (code is not None or job.note("pid", rank) is None):
            kinds.append(f"{code} before the first update")
        elif code == 0:
            kinds.append("0, done before the kill")
        else:
            kinds.append(f"{code}, unexpected")
            check(False, f"{launcher}: rank {rank} after a kill of rank {victim}:\n{job.text}")
    return kinds


def check_kills(a, launcher, alone):
    """Kills a random rank at a random moment, then goes on with another number of ranks, until N ranks were killed.
    Of five kills one hits the start of the run, the others the updates."""
    kinds, kills, runs, ranks, slowest = [], 0, 0, 2, 0
    folder = a.work / f"{launcher} killed"
    start = time.monotonic()
    job = Job(a, launcher, 3, "train", a.config, "--out", a.work / f"{launcher} timed")
    job.wait_until_it_trains()
    to_first_update = time.monotonic() - start
    job.end()
    updates = time.monotonic() - start - to_first_update
    while kills < a.kills or folder.exists():
        ranks = a.random.choice([n for n in (2, 3, 4) if n != ranks])
        goes_on = (folder / "last.safetensors").exists()
        if not goes_on:  # killed before its first checkpoint
            shutil.rmtree(folder, ignore_errors=True)
        job = Job(a, launcher, ranks, "train", a.config, "--out", folder, *(["--resume"] if goes_on else []))
        victim = a.random.randrange(ranks)
        if a.random.random() < 0.2:
            time.sleep(a.random.uniform(0, to_first_update))
        else:
            job.wait_until_it_trains()
            time.sleep(a.random.uniform(0, 0.5) * updates)
        trained = job.trains()
        killed = kills < a.kills and job.signal_rank(victim, signal.SIGKILL)
        moment = time.monotonic()
        codes = job.end()
        if killed and codes[victim] == -signal.SIGKILL:
            kills += 1
            slowest = max(slowest, time.monotonic() - moment)
            kinds += verify(launcher, job, victim, codes, trained)
            if kills % 10 == 0:
                print(f"{launcher}: {kills} kills in {time.monotonic() - start:.0f} s", flush=True)
        elif codes == [0] * ranks:
            runs += 1
            check(contents(folder) == alone, f"{launcher}: after kills the files differ from an undisturbed run's")
            shutil.rmtree(folder)
        else:
            check(False, f"{launcher}: nothing was killed:\n{job.text}")
            break
    print(f"{launcher}: {kills} kills in {runs} runs, slowest end {slowest:.1f} s; the others: " +
          ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds))), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("unroll")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--launcher", choices=list(LAUNCHERS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    a = parser.parse_args()
    launchers = [name for name, line in LAUNCHERS.items()
                 if shutil.which(line[0]) and a.launcher in (None, name)]
    if not launchers:
        print("skipped: neither mpirun.openmpi nor mpirun.mpich is installed")
        sys.exit(77)
    print("seed", a.seed)
    a.random = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as work:
        a.work = pathlib.Path(work)
        write_config(a)
        check_numbers_of_ranks(a, launchers)
        undisturbed = alone(a, a.config)
        for launcher in launchers:
            check_profile(a, launcher)
            check_stopped_rank(a, launcher)
            check_kills(a, launcher, undisturbed)
    print("failed" if failures else "passed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
