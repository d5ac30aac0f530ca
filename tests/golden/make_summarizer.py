#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes summarizer.safetensors beside itself: loss, metrics and gradients of the pointer-generator network in PyTorch,
for test_golden_summarizer.cc.

    python tests/golden/make_summarizer.py        (needs torch, numpy, safetensors)

The network is that of See, Liu, Manning 2017 as its authors published it: the copy distribution is scattered into the
extended vocabulary, and the loss is the logarithm of the sum. Weights are float32 numbers; everything is computed in
float64 from them and rounded once. Weights are drawn again until PyTorch's own float32 results are within 2.5e-6 of
these: where terms cancel (the softmax of the attention does not see a common shift), any float32 result is far off.
Tensors are named <case>/<tensor>: the inputs of a batch, "p.<parameter>", "d.<parameter>", "loss", "perplexity",
"p_gen", "coverage_loss". The metadata entry "cases" has the settings.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

FOLDER = pathlib.Path(__file__).parent
V, E, H, A = 11, 4, 5, 5  # tokens with the end; widths of embedding, state and attention
END, UNKNOWN = V - 1, V - 2
AGREE = 2.5e-6

BASE = dict(cell="lstm", layers=1, bidirectional=True, pointer=True, coverage=False, tied=False, shared=True, chunk=0,
            smoothing=0.0, weight=1.0, sources=[[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]], targets=[[4, 1], [5, 0, 7]])
# Words from V on are unknown to the vocabulary: word V + k is the k-th one of its source.
CASES = {
    "no unknown words": {},
    "unknown words": dict(sources=[[3, V, 4, V, V + 1, 2, 1], [V, V + 1, V + 2], [1, 2, 3, 4, 5]],
                          targets=[[V, 4, V + 1], [V + 2, V, UNKNOWN, 1], [2, 2]]),
    "a whole source of unknown words": dict(sources=[[V, V + 1, V, V + 2]], targets=[[V + 1, V]]),
    "an empty row": dict(sources=[[3, V, 4], []], targets=[[V, 4], None]),
    "coverage": dict(coverage=True, weight=0.7, layers=2, smoothing=0.1,
                     sources=[[3, V, 4, V, V + 1, 2, 1], [V, V + 1, V + 2], [1, 2, 3, 4, 5]],
                     targets=[[V, 4, V + 1], [V + 2, V, UNKNOWN, 1], [2, 2]]),
    "chunks": dict(cell="gru", chunk=3, shared=False, sources=[[3, V, 4, V, V + 1, 2, 1, 5], [V, 2, 1], [1, 2, 3, 4]],
                   targets=[[V, 4, 2], [V, 1], [4]]),
    "no pointer, tied": dict(pointer=False, tied=True, bidirectional=False, targets=[[4, 1], [5, UNKNOWN, 7]]),
}


def parameters(s, rng):
    D, G = 2 if s["bidirectional"] else 1, {"lstm": 4, "gru": 3}[s["cell"]]
    M, width = D * H, E if s["tied"] else H
    shapes = {}
    for name in ["embedding"] if s["shared"] else ["source", "target"]:
        shapes[name + ".weight"] = (V, E)
    for layer in range(s["layers"]):
        for suffix in ["", "_reverse"][:D]:
            shapes[f"encoder.weight_ih_l{layer}{suffix}"] = (G * H, M if layer else E)
            shapes[f"encoder.weight_hh_l{layer}{suffix}"] = (G * H, H)
            for bias in ("ih", "hh"):
                shapes[f"encoder.bias_{bias}_l{layer}{suffix}"] = (G * H,)
    for k in range(2 if s["cell"] == "lstm" else 1):
        shapes[f"bridge.{k}.weight"], shapes[f"bridge.{k}.bias"] = (H, D * H), (H,)
    shapes["attention.memory.weight"] = (A, M)
    shapes["attention.query.weight"], shapes["attention.query.bias"], shapes["attention.v"] = (A, H), (A,), (A,)
    if s["coverage"]:
        shapes["attention.coverage"] = (A,)
    shapes["decoder.weight_ih_l0"], shapes["decoder.weight_hh_l0"] = (G * H, E + M), (G * H, H)
    shapes["decoder.bias_ih_l0"] = shapes["decoder.bias_hh_l0"] = (G * H,)
    shapes["combine.weight"], shapes["combine.bias"] = (width, H + M), (width,)
    if s["pointer"]:
        shapes["switch.weight"], shapes["switch.bias"] = (1, M + H + E), (1,)
    if not s["tied"]:
        shapes["output.weight"] = (V, width)
    shapes["output.bias"] = (V,)
    return {name: (0.6 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def batch_of(s):
    B, S, T = len(s["sources"]), max(map(len, s["sources"])), max(len(t or []) for t in s["targets"]) + 1
    b = dict(source=np.zeros((S, B), np.int32), lengths=np.zeros(B, np.int32), copies=np.full((B, S), -2, np.int32),
             before=np.full((T, B), END, np.int32), labels=np.full((T, B), -1, np.int32))
    known = lambda word: UNKNOWN if word >= V else word
    for i, (source, target) in enumerate(zip(s["sources"], s["targets"])):
        b["lengths"][i] = len(source)
        b["source"][:len(source), i] = [known(w) for w in source]
        b["copies"][i, :len(source)] = source
        if target is None:
            continue
        b["before"][1:len(target) + 1, i] = [known(w) for w in target]
        b["labels"][:len(target) + 1, i] = target + [END]
    if not s["pointer"]:
        del b["copies"]
    return b


def recurrent(s, p, x, lengths):
    """Outputs [S,N,M] and the last states of the top layer, each [N,D*H]; rows of length 0 give zeros."""
    D = 2 if s["bidirectional"] else 1
    make = torch.nn.LSTM if s["cell"] == "lstm" else torch.nn.GRU
    layer = make(E, H, num_layers=s["layers"], bidirectional=D == 2).to(x.dtype)
    live = [i for i, n in enumerate(lengths) if n > 0]
    weights = {n: p["encoder." + n] for n, _ in layer.named_parameters()}
    packed = pack_padded_sequence(x[:, live], torch.tensor([int(lengths[i]) for i in live]), enforce_sorted=False)
    y, state = torch.func.functional_call(layer, weights, (packed,))
    y, _ = pad_packed_sequence(y, total_length=x.shape[0])
    full = x.new_zeros(x.shape[0], x.shape[1], D * H)
    full = full.index_copy(1, torch.tensor(live), y)
    ends = []
    for last in state if s["cell"] == "lstm" else [state]:
        top = x.new_zeros(D, x.shape[1], H).index_copy(1, torch.tensor(live), last[-D:])
        ends.append(top)
    return full, ends


def encode(s, p, x, lengths):
    S, B, C = x.shape[0], x.shape[1], s["chunk"] or x.shape[0]
    outputs, ends = [], []
    for first in range(0, S, C):
        part = x[first:first + C]
        y, e = recurrent(s, p, part, np.clip(lengths - first, 0, part.shape[0]))
        outputs.append(y)
        ends.append(e)
    states = []
    for k in range(len(ends[0])):
        rows = []
        for b in range(B):
            last = max(int(lengths[b]) - 1, 0) // C
            parts = [ends[last][k][0, b]] + ([ends[0][k][1, b]] if s["bidirectional"] else [])
            rows.append(torch.cat(parts))
        states.append(torch.stack(rows))
    return torch.cat(outputs), states


def compute(s, given, batch, dtype=torch.float64):
    p = {n: torch.tensor(v, dtype=dtype, requires_grad=True) for n, v in given.items()}
    t = {n: torch.tensor(v.astype(np.int64)) for n, v in batch.items()}
    B, S, T = t["source"].shape[1], t["source"].shape[0], t["before"].shape[0]
    emb = lambda side: p["embedding.weight" if s["shared"] else side + ".weight"]
    memory, ends = encode(s, p, emb("source")[t["source"]], batch["lengths"])
    memory = memory.transpose(0, 1)  # [B,S,M]
    keys = memory @ p["attention.memory.weight"].t()
    states = [torch.relu(F.linear(e, p[f"bridge.{k}.weight"], p[f"bridge.{k}.bias"])) for k, e in enumerate(ends)]
    live = torch.arange(S)[None] < t["lengths"][:, None]
    context, covered = memory.new_zeros(B, memory.shape[2]), memory.new_zeros(B, S)
    cell = (torch.nn.LSTMCell if s["cell"] == "lstm" else torch.nn.GRUCell)(E + memory.shape[2], H).to(memory.dtype)
    weights = {n: p[f"decoder.{n}_l0"] for n, _ in cell.named_parameters()}
    words = V + max([0] + [w + 1 - V for source in s["sources"] for w in source])
    nats = even = p_gen = coverage = torch.zeros((), dtype=dtype)
    for i in range(T):
        x = emb("target")[t["before"][i]]
        state = tuple(states) if s["cell"] == "lstm" else states[0]
        new = torch.func.functional_call(cell, weights, (torch.cat([x, context], 1), state))
        states = list(new) if s["cell"] == "lstm" else [new]
        h = states[0]
        features = keys + F.linear(h, p["attention.query.weight"], p["attention.query.bias"])[:, None]
        if s["coverage"]:
            features = features + covered[:, :, None] * p["attention.coverage"]
        score = (torch.tanh(features) @ p["attention.v"]).masked_fill(~live, -1e30)
        a = torch.softmax(score, 1)
        context = (a[:, None] @ memory)[:, 0]
        combined = F.linear(torch.cat([h, context], 1), p["combine.weight"], p["combine.bias"])
        out = emb("target") if s["tied"] else p["output.weight"]
        vocabulary = torch.softmax(F.linear(combined, out, p["output.bias"]), 1)
        final = F.pad(vocabulary, (0, words - V))
        if s["pointer"]:
            gate = torch.sigmoid(F.linear(torch.cat([context, h, x], 1), p["switch.weight"], p["switch.bias"]))
            final = (gate * final).scatter_add(1, t["copies"].clamp(min=0),
                                               torch.where(live, (1 - gate) * a, torch.zeros_like(a)))
        for b in range(B):
            label = int(t["labels"][i, b])
            if label < 0:
                continue
            nats = nats - torch.log(final[b, label])
            even = even - torch.log(vocabulary[b]).mean()
            if s["pointer"]:
                p_gen = p_gen + gate[b, 0]
            coverage = coverage + torch.minimum(a[b], covered[b]).sum()
        covered = covered + a
    count = int((t["labels"] >= 0).sum())
    loss = (nats * (1 - s["smoothing"]) + even * s["smoothing"]) / count
    result = {"perplexity": torch.exp(nats / count)}
    if s["pointer"]:
        result["p_gen"] = p_gen / count
    if s["coverage"]:
        result["coverage_loss"] = coverage / count
        loss = loss + coverage / count * s["weight"]
    loss.backward()
    result["loss"] = loss
    return {**result, **{"d." + n: v.grad for n, v in p.items()}}


def main():
    tensors, settings = {}, {}
    for number, (name, changes) in enumerate(CASES.items()):
        s, batch = {**BASE, **changes}, batch_of({**BASE, **changes})
        for seed in range(100 * number, 100 * number + 100):
            given = parameters(s, np.random.default_rng(seed))
            result = {k: v.detach().numpy() for k, v in compute(s, given, batch).items()}
            single = {k: v.detach().numpy() for k, v in compute(s, given, batch, torch.float32).items()}
            if all(np.linalg.norm(single[k] - v) <= AGREE * np.linalg.norm(v) for k, v in result.items()):
                break
        else:
            raise SystemExit(f"{name}: no weights for which PyTorch's float32 agrees with its float64")
        result = {k: v.astype(np.float32) for k, v in result.items()}
        for key, value in {**batch, **{"p." + k: v for k, v in given.items()}, **result}.items():
            tensors[f"{name}/{key}"] = np.array(value, order="C")
        settings[name] = {k: v for k, v in s.items() if k not in ("sources", "targets")}
        settings[name].update(tokens=V, embedding=E, hidden=H)
    save_file(tensors, FOLDER / "summarizer.safetensors", metadata={"cases": json.dumps(settings)})
    print(f"{len(CASES)} cases, {(FOLDER / 'summarizer.safetensors').stat().st_size} bytes, "
          f"torch {torch.__version__}")


main()
