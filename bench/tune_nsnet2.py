#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tune the published noise suppressor NSNet2 on speech of espeak-ng with noise, and export the result.

usage: PYTHONPATH=build/frontends/python peers/bin/python bench/tune_nsnet2.py FOLDER \\
           --unroll build/frontends/cli/unroll

FOLDER has the packages that bench/strangers.py fetches. Sentences are spoken by two voices; noise is colored by a
random filter. The network maps the log power of 161 frequencies to a gain for each. The loss is the squared error of
the suppressed amplitudes, compressed by the power 0.3. Validation sentences and their noise are not in the training
set. The export runs in ONNX Runtime on the validation set. Exit code 9: its output differs by more than 1e-5, or the
loss on unseen noise has not fallen.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import wave

import numpy
import onnxruntime
import unroll
from unroll import layers

FRAME, STEP, SECONDS = 320, 160, 2
WORDS = ("the a one every small large old young quiet loud river house train garden captain teacher window letter "
         "opens closes finds carries follows remembers slowly often never again today in the morning").split()


def spoken(text, voice, folder):
    path = folder / "speech.wav"
    subprocess.run(["espeak-ng", "-v", voice, "-w", path, text], check=True)
    with wave.open(str(path)) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16) / 32768
        at = numpy.arange(16000 * SECONDS) * file.getframerate() / 16000
    return numpy.interp(at, numpy.arange(len(samples)), samples, right=0.0)


def colored_noise(random, size):
    spectrum = numpy.fft.rfft(random.standard_normal(size))
    knots = random.uniform(-2, 0, 8)
    curve = numpy.interp(numpy.linspace(0, 7, len(spectrum)), numpy.arange(8), knots)
    noise = numpy.fft.irfft(spectrum * 10 ** curve, size)
    return noise / numpy.std(noise)


def spectrum(samples):
    frames = numpy.lib.stride_tricks.sliding_window_view(samples, FRAME)[::STEP]
    return numpy.fft.rfft(frames * numpy.sqrt(numpy.hanning(FRAME)))


def examples(n, random, folder):
    """Log power of the noisy speech, amplitudes of the noisy and of the clean speech: [T, 161] each."""
    rows = []
    for k in range(n):
        clean = spoken(" ".join(random.choice(WORDS, 8)), ["en-us", "en-gb+f3"][k % 2], folder)
        level = numpy.std(clean) * 10 ** (-random.uniform(-5, 10) / 20)
        noisy = spectrum(clean + level * colored_noise(random, len(clean)))
        power = numpy.log10(numpy.maximum(numpy.abs(noisy) ** 2, 1e-12))
        rows.append([a.astype(numpy.float32) for a in (power, numpy.abs(noisy), numpy.abs(spectrum(clean)))])
    return [list(column) for column in zip(*rows)]


def loss(gain, noisy, clean):
    def compressed(x):
        return layers.exp(0.3 * layers.log(x + 1e-5))
    return layers.mean(layers.square(compressed(gain * noisy) - compressed(clean)))


def loss_of(gains, noisy, clean):
    return float(numpy.mean([numpy.mean(((g * n + 1e-5) ** 0.3 - (c + 1e-5) ** 0.3) ** 2)
                             for g, n, c in zip(gains, noisy, clean)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unroll", default="unroll", help="the command")
    parser.add_argument("--updates", type=int, default=300)
    o = parser.parse_args()
    [path] = o.folder.rglob("nsnet2-20ms-baseline.onnx")
    random = numpy.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        subprocess.run([o.unroll, "import", path, "--out", work / "base"], check=True, stdout=subprocess.DEVNULL)
        power, noisy, clean = examples(80, random, work)
        unseen = examples(20, random, work)
        layers.train(lambda power, power_lengths: layers.imported(power, str(work / "base")), {"power": power},
                     {"noisy": noisy, "clean": clean}, loss, batch=8, validation=0, out=work / "tuned",
                     settings={"train.max_updates": o.updates, "train.lr": 1e-4})
        subprocess.run([o.unroll, "export", work / "base", "--weights", work / "tuned" / "last.safetensors", "--out",
                        work / "tuned.onnx"], check=True, stdout=subprocess.DEVNULL)
        base = unroll.load(work / "base")
        tuned = layers.model(lambda power: layers.imported(power, str(work / "base")), {"power": ("T", "B", 161)},
                             parameters=work / "tuned" / "last.safetensors")
        session = onnxruntime.InferenceSession(str(work / "tuned.onnx"), providers=["CPUExecutionProvider"])
        ours = [tuned.run({"power": x[:, None]})["y"][:, 0] for x in unseen[0]]
        before = [base.run({"x": x[:, None]})["y"][:, 0] for x in unseen[0]]
        exported = [session.run(None, {session.get_inputs()[0].name: x[:, None]})[0][:, 0] for x in unseen[0]]
    apart = max(numpy.linalg.norm(a - b) / numpy.linalg.norm(b) for a, b in zip(exported, ours))
    losses = [loss_of(gains, *unseen[1:]) for gains in (numpy.ones(1) * numpy.ones(len(before)), before, ours)]
    print(f"loss on unseen noise: noisy {losses[0]:.5f}, published {losses[1]:.5f}, tuned {losses[2]:.5f}")
    print(f"export in ONNX Runtime: relative L2 difference {apart:.1e}")
    return 0 if apart <= 1e-5 and losses[2] < losses[1] else 9


if __name__ == "__main__":
    sys.exit(main())
