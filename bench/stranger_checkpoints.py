#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare published checkpoints of recurrent networks in unroll and in the programs that they were made for.

usage: python3 -m venv peers && peers/bin/pip install numpy torch
       PYTHONPATH=build/frontends/python peers/bin/python bench/stranger_checkpoints.py FOLDER \\
           --unroll build/frontends/cli/unroll

FOLDER receives the packages of PyPI that contain the files: a .pt from before PyTorch 1.6 (Resemblyzer), an .npz
(g2p-en), safetensors in f16 (e2k). Chains of layers are imported as folders; encoders with decoders are built of layer
functions, and decode as the program does. Exit code 9: something differs.
"""
import argparse
import pathlib
import shutil
import string
import subprocess
import sys
import unittest.mock
import zipfile

import numpy

import unroll
from unroll import layers

PACKAGES = ["Resemblyzer==0.1.4", "g2p-en==2.1.0", "e2k==0.8.1"]
TOLERANCE = 1e-5  # relative L2 difference
FAILED = []


def fetched(folder):
    if not list(folder.glob("*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *PACKAGES],
                       check=True)
    for path in folder.glob("*.whl"):
        zipfile.ZipFile(path).extractall(folder / path.stem.split("-")[0])


def report(what, difference):
    verdict = "equal" if difference <= TOLERANCE else "DIFFERS"
    if verdict != "equal":
        FAILED.append(what)
    print(f"{what:45} {difference:.2e}  {verdict}", flush=True)


def difference(found, wanted):
    return numpy.linalg.norm(numpy.float64(found) - wanted) / numpy.linalg.norm(wanted)


def imported(command, folder, path, *options):
    """The model of a folder that `unroll import` writes."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([command, "import", path, "--out", folder, "--ignore-unused", *options], check=True,
                   stdout=subprocess.DEVNULL)
    return unroll.load(folder)


def resemblyzer(root, command, random):
    import torch
    path = next(root.rglob("pretrained.pt"))
    model = imported(command, root / "speaker", path, "--layers", "lstm,last,linear,relu")
    lstm, linear = torch.nn.LSTM(40, 256, 3), torch.nn.Linear(256, 256)
    state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
    for module, prefix in ((lstm, "lstm."), (linear, "linear.")):
        module.load_state_dict({k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix)})
    for steps in (40, 160):
        x = random.random((steps, 3, 40), numpy.float32)
        with torch.no_grad():
            wanted = torch.relu(linear(lstm(torch.from_numpy(x))[1][0][-1])).numpy()
        report(f"Resemblyzer, speakers, {steps} frames", difference(model.run({"x": x})["y"], wanted))


def words(random, n):
    letters = list(string.ascii_lowercase)
    return ["".join(random.choice(letters, random.integers(2, 13))) for _ in range(n)]


def grapheme_to_phoneme(root, command, random):
    folder = next(root.rglob("checkpoint20.npz")).parent
    sys.path.insert(0, str(folder.parent))
    with unittest.mock.patch.dict(sys.modules, {name: unittest.mock.MagicMock() for name in (
            "nltk", "nltk.corpus", "nltk.tokenize", "inflect", "g2p_en.expand")}):
        from g2p_en.g2p import G2p
    theirs = G2p()
    arrays = unroll.load_arrays(folder / "checkpoint20.npz")
    encoder = imported(command, root / "graphemes", folder / "checkpoint20.npz", "--prefix", "encoder.", "--rename",
                       "enc_emb=encoder.emb.weight,enc_w_=encoder.rnn.weight_,enc_b_=encoder.rnn.bias_")

    def step(ids, h):
        x = layers.embedding(ids, *arrays["dec_emb"].shape, name="emb")
        y, (h,) = layers.gru(x, arrays["dec_w_hh"].shape[1], states=[h], name="rnn")
        return {"logits": layers.linear(y, len(arrays["fc_b"]), name="fc"), "h": h}

    names = {"emb.weight": "dec_emb", "fc.weight": "fc_w", "fc.bias": "fc_b"}
    names |= {f"rnn.{k}_{side}_l0": f"dec_{k[0]}_{side}" for k in ("weight", "bias") for side in ("ih", "hh")}
    decoder = layers.model(step, {"ids": ("int32", 1, 1), "h": (1, 1, arrays["dec_w_hh"].shape[1])},
                           parameters={name: arrays[of] for name, of in names.items()})
    n_equal, all_words = 0, words(random, 300)
    for word in all_words:
        ids = numpy.array([[theirs.g2idx[c]] for c in word] + [[theirs.g2idx["</s>"]]], numpy.int32)
        h = encoder.run({"ids": ids})["state.0"]
        token, found = 2, []
        while len(found) < 20:
            r = decoder.run({"ids": numpy.array([[token]], numpy.int32), "h": h})
            h, token = r["h"], int(r["logits"].argmax())
            if token == 3:
                break
            found.append(theirs.idx2p[token])
        n_equal += found == theirs.predict(word)
    states = theirs.gru(theirs.encode(word), len(word) + 1, theirs.enc_w_ih, theirs.enc_w_hh, theirs.enc_b_ih,
                        theirs.enc_b_hh)
    report("g2p-en, states of the encoder", difference(encoder.run({"ids": ids})["y"][:, 0], states[0]))
    report(f"g2p-en, phonemes of {n_equal}/{len(all_words)} words", 1 - n_equal / len(all_words))


def katakana(root, command, random):
    folder = next(root.rglob("model-c2k.safetensors")).parent
    sys.path.insert(0, str(folder.parent.parent))
    from e2k import inference
    for name in ("model-c2k", "model-c2k-turbo", "model-p2k", "model-p2k-turbo"):
        path = folder / f"{name}.safetensors"
        theirs = inference.BaseE2K(path.name, path=str(path)).s2s
        arrays = unroll.load_arrays(path)
        width = arrays["encoder.weight_hh_l0"].shape[1]

        def encode(ids):
            y, _ = layers.gru(layers.embedding(ids, *arrays["e_emb.weight"].shape, name="e_emb"), width,
                              bidirectional=True, name="encoder")
            return layers.tanh(layers.linear(y, len(arrays["encoder_fc.0.bias"]), name="encoder_fc.0"))

        def decode(ids, memory, h1, h2):
            x = layers.embedding(ids, *arrays["k_emb.weight"].shape, name="k_emb")
            y, (h1,) = layers.gru(x, arrays["pre_decoder.weight_hh_l0"].shape[1], states=[h1], name="pre_decoder")
            keys = layers.transpose(memory, [1, 0, 2])
            seen, _ = layers.multi_head_attention(layers.transpose(y, [1, 0, 2]), keys, keys, 4, name="attn")
            y = layers.concat([y, layers.transpose(seen, [1, 0, 2])])
            y, (h2,) = layers.gru(y, arrays["post_decoder.weight_hh_l0"].shape[1], states=[h2], name="post_decoder")
            return {"logits": layers.linear(y, len(arrays["fc.bias"]), name="fc"), "h1": h1, "h2": h2}

        def of(part):
            return {k: v for k, v in arrays.items() if k.split(".")[0] in part}

        encoder = layers.model(encode, {"ids": ("int32", "T", 1)}, parameters=of(("e_emb", "encoder", "encoder_fc")))
        pre, post = (arrays[f"{k}_decoder.weight_hh_l0"].shape[1] for k in ("pre", "post"))
        decoder = layers.model(
            decode, {"ids": ("int32", 1, 1), "memory": ("T", 1, width), "h1": (1, 1, pre), "h2": (1, 1, post)},
            parameters=of(("k_emb", "pre_decoder", "attn", "post_decoder", "fc")))
        n_equal, n, worst = 0, 100, 0
        for _ in range(n):
            source = random.integers(3, len(theirs.in_table), random.integers(3, 12)).astype(numpy.int32)
            memory = encoder.run({"ids": source[:, None]})["y"]
            h1, h2 = numpy.zeros((1, 1, pre), numpy.float32), numpy.zeros((1, 1, post), numpy.float32)
            scores, found = [], [theirs.sos_idx]
            wanted = theirs.forward(source, lambda step: (scores.append(step), int(step.argmax()))[1])
            while len(found) <= theirs.max_len and (len(found) == 1 or found[-1] != theirs.eos_idx):
                r = decoder.run({"ids": numpy.array([[found[-1]]], numpy.int32), "memory": memory, "h1": h1, "h2": h2})
                h1, h2 = r["h1"], r["h2"]
                worst = max(worst, difference(r["logits"][0, 0], scores[min(len(found), len(scores)) - 1]))
                found.append(int(r["logits"].argmax()))
            n_equal += found == [int(k) for k in wanted]
        report(f"e2k, {name}, scores of each step", worst)
        report(f"e2k, {name}, {n_equal}/{n} words", 1 - n_equal / n)
    theirs = inference.AccentPredictor(str(folder / "accent.safetensors"))
    model = imported(command, root / "accent", folder / "accent.safetensors", "--layers",
                     "emb=embedding,rnn,final,head")
    kinds = [c for c in theirs.symbols if len(c) == 1 and c == c.lower()]
    n_equal, n = 0, 200
    for _ in range(n):
        word = random.choice(kinds, random.integers(2, 12))
        ids = numpy.array([[theirs.in_table[c]] for c in word], numpy.int32)
        n_equal += int(float(model.run({"ids": ids})["y"][0, 0]) * len(word) + 0.5) == theirs("".join(word))
    report(f"e2k, accents of {n_equal}/{n} words", 1 - n_equal / n)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unroll", required=True)
    arguments = parser.parse_args()
    fetched(arguments.folder)
    for part in (resemblyzer, grapheme_to_phoneme, katakana):
        part(arguments.folder, arguments.unroll, numpy.random.default_rng(1))
    sys.exit(9 if FAILED else 0)


if __name__ == "__main__":
    main()
