#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes recurrent.safetensors and ops.safetensors beside itself: what PyTorch computes, for test_golden.cc.

    python tests/golden/make_goldens.py        (needs torch, numpy, safetensors)

Inputs are float32 numbers. Expected values are computed by PyTorch in float64 from those same numbers and then
rounded to float32, so our float32 results are compared with the exact ones. The script also computes everything in
float32 and refuses to write when PyTorch's own float32 result is further than 1e-5 (relative L2) from the exact one:
agreement with float32 PyTorch is implied.

Tensors are named <case>/<tensor>; the metadata entry "cases" is a JSON object from case name to its settings.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent
T, B, I, H, P = 6, 3, 5, 7, 3
AGREE = 1e-5
UPDATES = 10
worst = 0.0


def relative_l2(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    norm = np.linalg.norm(want)
    return np.linalg.norm(got - want) / norm if norm > 0 else np.linalg.norm(got)


def exact(case, given, compute):
    """compute(inputs as tensors of one dtype) -> dict; run in float64 and float32 and compared."""
    global worst

    def run(dtype):
        inputs = {k: torch.tensor(v).to(dtype) if v.dtype == np.float32 else torch.tensor(v) for k, v in given.items()}
        return {k: v.detach().numpy() for k, v in compute(inputs).items()}

    want, single = run(torch.float64), run(torch.float32)
    for name, value in want.items():
        error = relative_l2(single[name], value)
        worst = max(worst, error)
        if not error <= AGREE:
            raise SystemExit(f"{case}/{name}: PyTorch's float32 is {error:.2g} from its float64")
    return {k: v.astype(np.float32) for k, v in want.items()}


def store(tensors, case, given, expected):
    for name, value in {**given, **expected}.items():
        tensors[f"{case}/{name}"] = np.ascontiguousarray(value)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


# --- recurrent layers -------------------------------------------------------------------------------------------


def make_layer(s):
    options = dict(num_layers=s["layers"], bidirectional=s["bidirectional"])
    if s["cell"] == "rnn":
        return torch.nn.RNN(s["input"], s["hidden"], nonlinearity=s["nonlinearity"], **options)
    if s["cell"] == "gru":
        return torch.nn.GRU(s["input"], s["hidden"], **options)
    return torch.nn.LSTM(s["input"], s["hidden"], proj_size=s["projection"], **options)


def forward(layer, s, v):
    state = (v["h0"], v["c0"]) if s["cell"] == "lstm" else v["h0"]
    if "lengths" not in v:
        y, last = layer(v["x"], state)
    else:
        packed = torch.nn.utils.rnn.pack_padded_sequence(v["x"], v["lengths"], enforce_sorted=False)
        y, last = layer(packed, state)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=v["x"].shape[0])
    return dict(zip(("y", "hn", "cn"), (y, *last) if s["cell"] == "lstm" else (y, last)))


def layer_results(s, v):
    layer = make_layer(s).to(v["x"].dtype)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            p.copy_(v["param." + name])
    sources = {k: v[k].requires_grad_() for k in ("x", "h0", "c0") if k in v}
    out = forward(layer, s, v)
    sum((value * v["d_" + k]).sum() for k, value in out.items()).backward()
    result = dict(out)
    result.update({"d_" + k: value.grad.clone() for k, value in sources.items()})
    result.update({"d_param." + k: p.grad.clone() for k, p in layer.named_parameters()})

    adam = torch.optim.Adam(layer.parameters(), lr=1e-2)
    losses = []
    for _ in range(UPDATES):
        adam.zero_grad()
        loss = (forward(layer, s, v)["y"] * v["d_y"]).sum()
        loss.backward()
        adam.step()
        losses.append(loss.detach())
    result["loss"] = torch.stack(losses)
    result.update({"adam." + k: p for k, p in layer.named_parameters()})
    return result


def recurrent_case(s, steps, batch, lengths, seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    layer = make_layer(s)
    slabs = s["layers"] * (2 if s["bidirectional"] else 1)
    width = s["projection"] or s["hidden"]
    given = {"x": normal(rng, steps, batch, s["input"]), "h0": normal(rng, slabs, batch, width)}
    given["d_y"] = normal(rng, steps, batch, width * slabs // s["layers"])
    given["d_hn"] = normal(rng, slabs, batch, width)
    if s["cell"] == "lstm":
        given["c0"], given["d_cn"] = normal(rng, slabs, batch, s["hidden"]), normal(rng, slabs, batch, s["hidden"])
    if lengths:
        given["lengths"] = np.array(lengths, np.int32)
    given.update({"param." + k: p.detach().numpy() for k, p in layer.named_parameters()})
    return given, exact("recurrent", given, lambda v: layer_results(s, v))


def recurrent_goldens():
    kinds = {"rnn_tanh": ("rnn", 0, "tanh"), "rnn_relu": ("rnn", 0, "relu"), "gru": ("gru", 0, "tanh"),
             "lstm": ("lstm", 0, "tanh"), "lstm_proj": ("lstm", P, "tanh")}
    forms = [(layers, both, T, B, lengths) for layers in (1, 2, 3) for both in (False, True)
             for lengths in (None, [4, 6, 1])]
    forms += [(1, False, T, 1, None), (2, True, T, 1, [4]), (1, False, 1, B, None), (2, True, 1, B, None),
              (1, True, 1, 1, None)]
    tensors, cases = {}, {}
    for kind, (cell, projection, nonlinearity) in kinds.items():
        for layers, both, steps, batch, lengths in forms:
            case = f"{kind}_l{layers}" + ("_bi" if both else "") + ("_len" if lengths else "")
            case += (f"_b{batch}" if batch != B else "") + (f"_t{steps}" if steps != T else "")
            cases[case] = dict(cell=cell, input=I, hidden=H, layers=layers, bidirectional=both, projection=projection,
                               nonlinearity=nonlinearity)
            store(tensors, case, *recurrent_case(cases[case], steps, batch, lengths, 1000 + len(cases)))
    return tensors, cases


# --- losses, layers, optimizers ---------------------------------------------------------------------------------


def with_gradients(wrt, compute):
    """Adds d_<name> for every name in wrt to compute's outputs, given cotangents d_<output> among the inputs."""

    def run(v):
        for name in wrt:
            v[name].requires_grad_()
        out = compute(v)
        sum((value * v["d_" + k]).sum() for k, value in out.items()).backward()
        return {**out, **{"d_" + k: v[k].grad for k in wrt}}

    return run


def loss_cases(rng):
    shape = (4, 3)
    pairs = {
        "mse": (lambda p, t: F.mse_loss(p, t, reduction="none"), {}),
        "mae": (lambda p, t: F.l1_loss(p, t, reduction="none"), {}),
        "huber": (lambda p, t: F.huber_loss(p, t, reduction="none", delta=0.7), {"delta": 0.7}),
        "bce": (lambda p, t: F.binary_cross_entropy_with_logits(p, t, reduction="none"), {}),
    }
    for op, (loss, settings) in pairs.items():
        given = {"prediction": 3 * normal(rng, *shape), "target": normal(rng, *shape), "d_y": normal(rng, *shape)}
        if op == "bce":
            given["target"] = rng.random(shape, dtype=np.float32)
        yield op, {"op": op, **settings}, given, with_gradients(
            ["prediction", "target"], lambda v, loss=loss: {"y": loss(v["prediction"], v["target"])})
    given = {"logits": 3 * normal(rng, 2, 3, 5), "labels": rng.integers(0, 5, (2, 3)).astype(np.int32),
             "d_y": normal(rng, 2, 3)}
    yield "cross_entropy", {"op": "softmax_cross_entropy"}, given, with_gradients(["logits"], lambda v: {
        "y": F.cross_entropy(v["logits"].reshape(-1, 5), v["labels"].reshape(-1).long(),
                             reduction="none").reshape(2, 3)})


def attention(v, heads):
    layer = torch.nn.MultiheadAttention(v["q"].shape[-1], heads, batch_first=True, dtype=v["q"].dtype)
    parameters = {"in_proj_weight": v["in_weight"], "in_proj_bias": v["in_bias"],
                  "out_proj.weight": v["out_weight"], "out_proj.bias": v["out_bias"]}
    forbidden = None if "mask" not in v else ~v["mask"].repeat_interleave(heads, dim=0)
    y, weights = torch.func.functional_call(layer, parameters, (v["q"], v["k"], v["v"]),
                                            dict(attn_mask=forbidden, average_attn_weights=True))
    return {"y": y, "weights": weights}


def layer_cases(rng):
    given = {"x": normal(rng, 2, 3, 7), "weight": normal(rng, 7), "bias": normal(rng, 7), "d_y": normal(rng, 2, 3, 7)}
    yield "layer_norm", {"op": "layer_norm", "epsilon": 1e-5}, given, with_gradients(
        ["x", "weight", "bias"], lambda v: {"y": F.layer_norm(v["x"], (7,), v["weight"], v["bias"], 1e-5)})
    given = {"table": normal(rng, 11, 4), "ids": rng.integers(0, 11, (3, 5)).astype(np.int32),
             "d_y": normal(rng, 3, 5, 4)}
    yield "embedding", {"op": "embedding"}, given, with_gradients(
        ["table"], lambda v: {"y": F.embedding(v["ids"], v["table"])})
    for name in ("attention", "attention_masked"):
        n, q, s, e, heads = 2, 4, 5, 8, 2
        given = {"q": normal(rng, n, q, e), "k": normal(rng, n, s, e), "v": normal(rng, n, s, e),
                 "in_weight": normal(rng, 3 * e, e) / 3, "in_bias": normal(rng, 3 * e),
                 "out_weight": normal(rng, e, e) / 3, "out_bias": normal(rng, e), "d_y": normal(rng, n, q, e),
                 "d_weights": normal(rng, n, q, s)}
        if name == "attention_masked":
            given["mask"] = rng.random((n, q, s)) < 0.6
            given["mask"][:, :, 0] = True  # PyTorch gives NaN for a row without any key
        yield name, {"op": "multi_head_attention", "heads": heads}, given, with_gradients(
            ["q", "k", "v", "in_weight", "in_bias", "out_weight", "out_bias"], lambda v: attention(v, heads))


OPTIMISERS = {
    "sgd": ("sgd", torch.optim.SGD, {}),
    "sgd_momentum": ("sgd", torch.optim.SGD, {"momentum": 0.9}),
    "sgd_nesterov": ("sgd", torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    "sgd_decay": ("sgd", torch.optim.SGD, {"weight_decay": 0.1}),
    "adam": ("adam", torch.optim.Adam, {}),
    "adam_decay": ("adam", torch.optim.Adam, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    "adamw": ("adam", torch.optim.AdamW, {"weight_decay": 0.1}),
    "rmsprop": ("rmsprop", torch.optim.RMSprop, {}),
    "rmsprop_momentum": ("rmsprop", torch.optim.RMSprop, {"alpha": 0.9, "momentum": 0.8, "weight_decay": 0.05}),
    "adagrad": ("adagrad", torch.optim.Adagrad, {"weight_decay": 0.05}),
}


def optimizer_cases(rng):
    """`gradients` [10, 9] are given, `parameters` [10, 9] is the parameter after each update."""
    for name, (op, make, settings) in OPTIMISERS.items():
        given = {"parameter": normal(rng, 9), "gradients": normal(rng, UPDATES, 9)}

        def run(v, make=make, settings=settings):
            p = torch.nn.Parameter(v["parameter"].clone())
            optimizer = make([p], lr=0.02, **settings)
            trail = []
            for g in v["gradients"]:
                p.grad = g.clone()
                optimizer.step()
                trail.append(p.detach().clone())
            return {"parameters": torch.stack(trail)}

        defaults = make([torch.nn.Parameter(torch.zeros(1))], lr=0.02, **settings).defaults
        beta1, beta2 = defaults.get("betas", (0, 0))
        yield "optimizer_" + name, {
            "op": op, "lr": 0.02, "momentum": defaults.get("momentum", 0), "nesterov": defaults.get("nesterov", False),
            "weight_decay": defaults["weight_decay"], "decoupled": make is torch.optim.AdamW, "beta1": beta1,
            "beta2": beta2, "epsilon": defaults.get("eps", 0), "alpha": defaults.get("alpha", 0)}, given, run


def op_goldens():
    rng = np.random.default_rng(7)
    tensors, cases = {}, {}
    for family in (loss_cases, layer_cases, optimizer_cases):
        for case, settings, given, compute in family(rng):
            cases[case] = settings
            store(tensors, case, given, exact(case, given, compute))
    return tensors, cases


if __name__ == "__main__":
    torch.set_num_threads(1)
    files = {"recurrent.safetensors": recurrent_goldens(), "ops.safetensors": op_goldens()}
    for file, (tensors, cases) in files.items():
        save_file(tensors, FOLDER / file, {"cases": json.dumps(cases), "torch": torch.__version__})
        print(f"{file}: {len(cases)} cases, {len(tensors)} tensors, {(FOLDER / file).stat().st_size} bytes")
    print(f"PyTorch float32 against float64, worst relative L2: {worst:.2g}")
