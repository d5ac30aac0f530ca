#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the time of published recurrent networks in unroll and in ONNX Runtime: of one step, and of sequences.

usage: PYTHONPATH=build/frontends/python peers/bin/python bench/stranger_times.py FOLDER \\
           --unroll build/frontends/cli/unroll [--threads 2]

FOLDER has the packages that bench/strangers.py fetches. A step is one chunk of 32 ms (silero-vad), or one frame
(nsnet2, and all eight networks of a madmom ensemble). unroll: `unroll stream --bench`, its call from C++. ONNX Runtime:
its call from Python, with the states of the last call as inputs, on one thread. Whole sequences are called from Python
on both sides, and their outputs compared. Rounds in turns; minimum and median of all rounds.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime

import unroll

# Name, files, width of a step, options of unroll.
SILERO = ["--size", "sequence=576", "--value", "sr=16000"]
ROWS = [("silero_vad_16k_op15, chunk", "silero_vad_16k_op15.onnx", 576, SILERO),
        ("silero_vad_16k_sequence, chunk", "silero_vad_16k_sequence.onnx", 576, []),
        ("madmom beats 2016, frame of 8 networks", "beats_lstm_[1-8].onnx", 162, []),
        ("madmom onsets 2013, frame of 8 networks", "onsets_rnn_[1-8].onnx", None, []),
        ("nsnet2-20ms-baseline, frame", "nsnet2-20ms-baseline.onnx", 161, [])]


# Name, file, shape of the input of ours and of the file.
WHOLE = [("silero_vad_16k_sequence, 200 chunks of 32 ms", "silero_vad_16k_sequence.onnx", (200, 576), (200, 576)),
         ("nsnet2-20ms-baseline, 300 frames", "nsnet2-20ms-baseline.onnx", (300, 1, 161), (1, 300, 161)),
         ("ddddocr common, 64 x 160 pixels", "common.onnx", (1, 1, 64, 160), (1, 1, 64, 160))]


def unroll_times(command, paths, options):
    """Minimum and median of a step, in microseconds, summed over the networks; the width of a step."""
    reports = [json.loads(subprocess.run([command, "stream", path, "--bench", "--seconds", "0.3", "--json", *options],
                                         capture_output=True, text=True, check=True).stdout) for path in paths]
    return (sum(r["min_us"] for r in reports), sum(r["median_us"] for r in reports)), reports[0]["inputs"]


class Peer:
    def __init__(self, path, width, threads=1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        inputs = self.session.get_inputs()
        self.values = {}
        for info in inputs:
            shape = [size if isinstance(size, int) else 1 for size in info.shape]
            is_number = info.type == "tensor(int64)"
            self.values[info.name] = numpy.full(shape, 16000, numpy.int64) if is_number else numpy.zeros(shape, "f")
        first = inputs[0]
        rank = len(first.shape)
        self.values[first.name] = numpy.random.default_rng(0).uniform(-1, 1, [1] * (rank - 1) + [width]).astype("f")
        # States in the order of the outputs after the first one.
        self.states = [info.name for info in inputs[1:] if info.type == "tensor(float)"]

    def step(self):
        results = self.session.run(None, self.values)
        for name, value in zip(self.states, results[1:]):
            self.values[name] = value.reshape(self.values[name].shape)


def peer_times(peers, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for peer in peers:
            peer.step()
        times.append(1e6 * (time.perf_counter() - start))
    return min(times), statistics.median(times)


def timed(call, seconds=1.0):
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times), statistics.median(times)


def whole(path, ours_shape, theirs_shape, o):
    """Both sides in turns: (minimum, median) in ms of each, and the relative L2 difference of their outputs."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.rmtree(folder)
        subprocess.run([o.unroll, "import", path, "--out", folder], check=True, capture_output=True)
        model = unroll.load(folder, threads=o.threads)
    peer = Peer(path, theirs_shape[-1], o.threads)
    x = numpy.random.default_rng(1).uniform(-1, 1, theirs_shape).astype("f")
    peer.values[next(iter(peer.values))] = x
    name, y = model.inputs[0].name, model.outputs[0].name
    ours_x = numpy.ascontiguousarray(x.reshape(ours_shape[1], ours_shape[0], -1).swapaxes(0, 1)) \
        if len(ours_shape) == 3 else x
    sides = (lambda: model.run({name: ours_x}), lambda: peer.session.run(None, peer.values))
    found, wanted = sides[0]()[y].ravel(), sides[1]()[0].ravel()
    rounds = [[timed(side) for side in sides] for _ in range(o.rounds)]
    times = [(min(r[k][0] for r in rounds), statistics.median(r[k][1] for r in rounds)) for k in range(2)]
    return *times, numpy.linalg.norm(found - wanted) / numpy.linalg.norm(wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unroll", default="unroll", help="the command")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of whole sequences, on both sides")
    o = parser.parse_args()
    print("| step | unroll: minimum, median (us) | ONNX Runtime | ratio of minima |\n|---|---|---|---|")
    for name, pattern, width, options in ROWS:
        paths = sorted(o.folder.rglob(pattern))
        ours, theirs, peers = [], [], None
        for _ in range(o.rounds):
            times, inputs = unroll_times(o.unroll, paths, options)
            ours.append(times)
            peers = peers or [Peer(path, width or inputs) for path in paths]
            theirs.append(peer_times(peers, 0.3 * len(paths)))
        a, b = [(min(t[0] for t in times), statistics.median(t[1] for t in times)) for times in (ours, theirs)]
        print(f"| {name} | {a[0]:.1f}, {a[1]:.1f} | {b[0]:.1f}, {b[1]:.1f} | {b[0] / a[0]:.1f} |", flush=True)
    print(f"\n| sequence, {o.threads} thread(s) | unroll: minimum, median (ms) | ONNX Runtime | ratio of minima | "
          "relative L2 difference |\n|---|---|---|---|---|")
    for name, pattern, ours_shape, theirs_shape in WHOLE:
        a, b, difference = whole(next(o.folder.rglob(pattern)), ours_shape, theirs_shape, o)
        print(f"| {name} | {a[0]:.2f}, {a[1]:.2f} | {b[0]:.2f}, {b[1]:.2f} | {b[0] / a[0]:.2f} | {difference:.1e} |",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
