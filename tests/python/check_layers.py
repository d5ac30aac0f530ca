#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of layer functions in Python: equal to NumPy, and to PyTorch where it is installed. PYTHONPATH has the
package."""
import gc
import math
import pathlib
import tempfile
import weakref

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

try:
    import torch
except ImportError:
    torch = None

# Relative L2 difference: 84 roundings of f32, for sums in another order.
TOLERANCE = 1e-5
RNG = np.random.default_rng(0)


def close(found, wanted):
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return found.shape == wanted.shape and np.linalg.norm(found - wanted) <= TOLERANCE * np.linalg.norm(wanted)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_lstm(p, x, layer):
    """y of one layer and direction; p has PyTorch's names behind the prefix."""
    w, r, b, c = (p[f"{name}_{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h, cell, rows = np.zeros((x.shape[1], r.shape[1])), np.zeros((x.shape[1], r.shape[1])), []
    for step in x.astype(np.float64):
        i, f, g, o = np.split(step @ w.T + h @ r.T + b + c, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        rows.append(h)
    return np.stack(rows)


def part(parameters, prefix):
    return {name[len(prefix):]: value for name, value in parameters.items() if name.startswith(prefix)}


def equal_to_numpy():
    def network(x):
        y, (h, c) = layers.lstm(x, 5, layers=2, name="rnn")
        return {"y": layers.linear(y, 2, name="head"), "last": h[-1], "c": c}

    model = layers.model(network, {"x": ("T", "B", 3)}, seed=3)
    check([repr(s) for s in model.outputs] == ["y f32[T,B,2]", "last f32[B,5]", "c f32[2,B,5]"],
          f"outputs have letters where they follow the inputs: {model.outputs}")
    p = model.state_dict()
    for steps, batch in ((1, 1), (7, 4)):
        x = floats(steps, batch, 3)
        result = model.run({"x": x})
        y = numpy_lstm(part(p, "rnn."), numpy_lstm(part(p, "rnn."), x, "l0"), "l1")
        check(close(result["y"], y @ p["head.weight"].T + p["head.bias"]) and close(result["last"], y[-1]),
              f"two LSTM layers and a linear layer at T={steps} B={batch} compute what NumPy computes")

    def arithmetic(a, b):
        z = layers.concat([layers.tanh(a) * 2 - b / 3, 1 - layers.sigmoid(b), -a])
        return {"y": layers.mean(layers.max(a, axis=0) / layers.sum(layers.exp(b), -3), 1),
                "z": layers.transpose(layers.reshape(layers.slice(z, 2, 1, 4), [z.shape[0] * z.shape[1], 4]), [1, 0]),
                "w": layers.relu(a) + layers.maximum(a, b) - layers.minimum(a, b) + layers.softmax(a)
                + layers.log_softmax(b)}

    model = layers.model(arithmetic, {"a": ("T", "B", 2), "b": ("T", "B", 2)})
    a, b = floats(3, 4, 2), floats(3, 4, 2)
    found = model.run({"a": a, "b": b})
    z = np.concatenate([np.tanh(a) * 2 - b / 3, 1 - sigmoid(b), -a], -1)
    soft = lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True)  # noqa: E731
    check(close(found["y"], (a.max(0) / np.exp(b).sum(0)).mean(1)), "reductions are those of NumPy")
    check(close(found["z"], z[:, :, 1:5].reshape(12, 4).T), "slices, shapes and arithmetic are those of NumPy")
    check(close(found["w"], np.maximum(a, 0) + np.maximum(a, b) - np.minimum(a, b) + soft(a) + np.log(soft(b))),
          "functions are those of NumPy")


def cells_and_lengths():
    def mgu(x, lengths):
        y, (h,) = layers.cell(x, 6, """
            f  = sigmoid(affine(x, h))
            n  = tanh(affine(x, f * h))
            h' = (1 - f) * h + f * n""", lengths=lengths, name="own")
        built_in, _ = layers.cell(x, 6, "mgu", lengths=lengths, name="built_in")
        return {"own": y, "h": h, "built_in": built_in}

    model = layers.model(mgu, {"x": ("T", "B", 3), "lengths": ("int32", "B")}, seed=1)
    names = sorted(model.state_dict())
    own = [n for n in names if n.startswith("own.")]
    model.load_state_dict({n: v for n, v in model.state_dict().items()})
    x, lengths = floats(5, 3, 3), np.array([5, 2, 4], np.int32)
    found = model.run({"x": x, "lengths": lengths})
    alone = [model.run({"x": x[:n, k:k + 1].copy(), "lengths": lengths[k:k + 1]}) for k, n in enumerate(lengths)]
    check(len(own) > 2 and all(close(found["own"][:n, k], alone[k]["own"][:, 0]) for k, n in enumerate(lengths)),
          f"a cell in text runs rows of their own lengths: {own}")
    check(not found["own"][2:, 1].any() and close(found["h"][0, 1], found["own"][1, 1]),
          "outputs behind a length are zero, the state stays")
    for length in (-1, 0, 5, 6):
        def run_with(length=length):
            return model.run({"x": x, "lengths": np.array([5, length, 1], np.int32)})

        if 0 <= length <= 5:
            check(np.isfinite(run_with()["own"]).all(), f"a length of {length} of 5")
        else:
            refused(unroll.UsageError, f"'lengths' has {length} as element 1; it must be between 0 and 5", run_with)

    def in_parts(x, h):
        y, after = layers.gru(x, 4, states=[h])
        return {"y": y, "h": after[0]}

    model = layers.model(in_parts, {"x": ("T", "B", 3), "h": (1, "B", 4)})
    x = floats(6, 2, 3)
    zeros = np.zeros((1, 2, 4), np.float32)
    whole = model.run({"x": x, "h": zeros})["y"]
    first = model.run({"x": x[:2].copy(), "h": zeros})
    second = model.run({"x": x[2:].copy(), "h": first["h"]})
    check(close(np.concatenate([first["y"], second["y"]]), whole), "states are inputs and outputs: parts are the whole")


def numpy_conv(x, weight, bias, stride=1, dilation=1, low=0, high=0, groups=1):
    """x [T, B, C], weight [O, C / groups, K]."""
    x = np.pad(x.astype(np.float64), ((low, high), (0, 0), (0, 0)))
    n_out, per_group, size = weight.shape
    steps = (len(x) - (size - 1) * dilation - 1) // stride + 1
    y = np.zeros((steps, x.shape[1], n_out))
    for o in range(n_out):
        first = o // (n_out // groups) * per_group
        for k in range(size):
            taps = x[k * dilation:k * dilation + (steps - 1) * stride + 1:stride, :, first:first + per_group]
            y[..., o] += taps @ weight[o, :, k]
    return y + bias


def convolutions():
    x = floats(13, 3, 4)
    for padding, options in (("causal", {}), ("same", {"dilation": 2}), ("valid", {"stride": 2}),
                             ("causal", {"groups": 2, "stride": 3})):
        model = layers.model(lambda x: layers.conv(x, 6, 3, padding=padding, name="c", **options), {"x": ("T", "B", 4)})
        p, all_taps = model.state_dict(), 2 * options.get("dilation", 1)
        low = {"causal": all_taps, "same": all_taps // 2, "valid": 0}[padding]
        high = {"causal": 0, "same": all_taps - all_taps // 2, "valid": 0}[padding]
        wanted = numpy_conv(x, p["c.weight"], p["c.bias"], low=low, high=high, **options)
        check(close(model.run({"x": x})["y"], wanted), f"a convolution with padding {padding}, {options}")
    image = floats(2, 8, 6, 3)

    def pooled(image):
        return {"max": layers.max_pool(image, (2, 3)), "average": layers.average_pool(image, 2, stride=(2)),
                "seen": layers.conv(image, 5, (3, 3), padding="same", bias=False, name="c")}

    model = layers.model(pooled, {"image": ("B", 8, 6, 3)})
    found = model.run({"image": image})
    check(close(found["max"], image.reshape(2, 4, 2, 2, 3, 3).max((2, 4))), "the maximum of windows of an image")
    padded, weight = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0))), model.state_dict()["c.weight"]
    wanted = sum(padded[:, i:i + 8, k:k + 6] @ weight[:, :, i, k].T for i in range(3) for k in range(3))
    check(close(found["seen"], wanted), "a convolution of an image")
    halves = floats(4, 6)
    found = layers.model(lambda x: {"glu": layers.glu(x), "gelu": layers.gelu(x)}, {"x": (4, 6)}).run({"x": halves})
    check(close(found["glu"], halves[:, :3] * sigmoid(halves[:, 3:])), "glu")
    check(close(found["gelu"], [[x * (1 + math.erf(x / 2 ** 0.5)) / 2 for x in row] for row in halves]), "gelu")
    refused(unroll.UsageError, "padding is 'full'. Use causal, same or valid", lambda: layers.model(
        lambda x: layers.conv(x, 6, 3, padding="full"), {"x": ("T", "B", 4)}).run({"x": x}))
    refused(unroll.UsageError, "stride must be a number, or have one for each of the 1 axes", lambda: layers.model(
        lambda x: layers.conv(x, 6, 3, stride=(1, 2)), {"x": ("T", "B", 4)}).run({"x": x}))


def windows():
    model = layers.model(lambda x: layers.cell(x, 4, "h' = tanh(linear(window(x, 3)) + h)", name="w")[0],
                         {"x": ("T", "B", 2)})
    x, h, p = floats(9, 3, 2), np.zeros((3, 4)), model.state_dict()
    padded, rows = np.pad(x, ((2, 0), (0, 0), (0, 0))), []
    for t in range(9):
        h = np.tanh(np.concatenate(list(padded[t:t + 3]), 1) @ p["w.h.weight_0_l0"].T + h)
        rows.append(h)
    check(close(model.run({"x": x})["y"], rows), "a cell with a window of inputs")


def files_of_arrays():
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"a": floats(2, 3), "b": np.arange(4, dtype=np.int64), "c": np.float64(0.5)}
        np.savez(pathlib.Path(folder) / "a.npz", **arrays)
        found = unroll.load_arrays(pathlib.Path(folder) / "a.npz")
        check(list(found) == ["a", "b", "c"], "the names of an npz file")
        check(all(np.array_equal(found[k], arrays[k]) for k in arrays), "the values of an npz file")
        check(found["b"].dtype == np.int32 and found["c"].dtype == np.float64, "the types of an npz file")
        model = layers.model(lambda x: layers.linear(x, 3, name="head"), {"x": ("T", 2)})
        np.savez(pathlib.Path(folder) / "p.npz", **model.state_dict())
        again = layers.model(lambda x: layers.linear(x, 3, name="head"), {"x": ("T", 2)}, seed=9,
                             parameters=pathlib.Path(folder) / "p.npz")
        check(np.array_equal(again.state_dict()["head.weight"], model.state_dict()["head.weight"]), "parameters of npz")
        np.savez(pathlib.Path(folder) / "t.npz", names=np.array(["a"]))
        refused(unroll.InputFileError, "array 'names' has the type", unroll.load_arrays,
                pathlib.Path(folder) / "t.npz")


def attention():
    def network(q, k, mask):
        y, weights = layers.dot_attention(q, k, k, mask)
        scale = layers.parameter("scale", [3], 2.0)
        z, _ = layers.additive_attention(q, k, k, 5, name="additive")
        return {"y": y * scale, "weights": weights, "z": z}

    model = layers.model(network, {"q": ("B", "Q", 3), "k": ("B", "S", 3), "mask": ("bool", "B", 1, "S")}, seed=1)
    q, k = floats(2, 4, 3), floats(2, 5, 3)
    mask = np.arange(5)[None, None] < np.array([5, 2])[:, None, None]
    found, p = model.run({"q": q, "k": k, "mask": mask}), model.state_dict()

    def weights_of(scores):
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return scores / scores.sum(-1, keepdims=True)

    wanted = weights_of(np.where(mask, q @ k.transpose(0, 2, 1) / np.sqrt(3), -np.inf))
    check(close(found["weights"], wanted) and close(found["y"], 2 * wanted @ k), "dot-product attention is NumPy's")
    sums = (q @ p["additive.w_q"].T)[:, :, None] + (k @ p["additive.w_k"].T)[:, None]
    check(close(found["z"], weights_of(np.tanh(sums) @ p["additive.v_a"]) @ k), "additive attention is NumPy's")
    check((p["scale"] == 2).all(), "a parameter starts at a number")
    refused(unroll.UsageError, "no network is being built", layers.parameter, "w", [2])


def state_dicts():
    def network(x):
        return layers.linear(layers.dropout(layers.layer_norm(x, name="norm"), 0.5), 2, bias=False, name="head")

    model = layers.model(network, {"x": ("N", 3)}, seed=1)
    x = floats(4, 3)
    before = model.run({"x": x})["y"]
    same = layers.model(network, {"x": ("N", 3)}, seed=1).run({"x": x})["y"]
    other = layers.model(network, {"x": ("N", 3)}, seed=2)
    check((before == same).all() and (other.run({"x": x})["y"] != before).any(), "parameters are drawn from the seed")
    other.load_state_dict(model.state_dict())
    check((other.run({"x": x})["y"] == before).all(), "a state dict carries a model over, bit for bit")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        model.save(path)
        loaded = layers.model(network, {"x": ("N", 3)}, parameters=path)
        check((loaded.run({"x": x})["y"] == before).all(), "so does a file")
    check(model.state_dict().keys() == {"norm.weight", "norm.bias", "head.weight"}, "names are prefixed by the layer's")
    refused(unroll.UsageError, "'head.weight' f32[2,3] is missing", model.load_state_dict,
            {k: v for k, v in model.state_dict().items() if k != "head.weight"})


def mistakes():
    kept = []

    def leaks(x):
        kept.append(x)
        return x + 1

    layers.model(leaks, {"x": ("T",)})
    refused(unroll.UsageError, "after the function that builds", lambda: kept[0] + 1)
    refused(unroll.UsageError, "mixed", layers.model, lambda x: x + kept[0], {"x": ("T",)})
    refused(unroll.DTypeError, "output 'y'", layers.model, lambda x: 3, {"x": ("T",)})
    refused(unroll.UsageError, "no output", layers.model, lambda x: {}, {"x": ("T",)})
    refused(unroll.ShapeError, "", layers.model, lambda x, y: x + y, {"x": ("T", 2), "y": ("T", 3)})
    refused(unroll.ShapeError, "[head] weight", layers.model, lambda x: layers.linear(
        layers.linear(x, 4, name="head"), 4, name="head"), {"x": ("T", 2)})
    refused(unroll.UsageError, "another network", layers.model,
            lambda x: layers.linear(x, 1, name="a") if x.shape[0] > 3 else x, {"x": ("T", 2)})
    refused(unroll.UsageError, "layer functions", layers.model(lambda x: x, {"x": ("T", 2)}).generate)
    refused(unroll.UsageError, "own", layers.model, lambda x: layers.cell(x, 3, "h' = x +")[0], {"x": ("T", "B", 2)})
    functions = {ZeroDivisionError: lambda x: 1 // 0, TypeError: lambda: 0, IndexError: lambda x: x[9]}
    for error, function in functions.items():
        try:
            layers.model(function, {"x": ("T", 2)})
            check(False, f"{error.__name__} is raised")
        except error as e:
            check(True, f"an exception of the function arrives as it is: {error.__name__}: {e}")


def lifetimes():
    def cycle():
        holder = []

        def network(x):
            return x + len(holder)

        holder.append(layers.model(network, {"x": ("T",)}))
        return weakref.ref(network)

    network = cycle()
    gc.collect()
    check(network() is None, "a model and the function that refers to it are collected")


def equal_to_torch():
    """Each module of PyTorch and its layer function have equal parameters, by name, and equal outputs."""
    nn = torch.nn

    def stack(cell, **options):
        def network(x):
            return getattr(layers, cell)(x, 5, name="rnn", **options)[0]
        return network

    cases = {}
    for cell, module in (("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)):
        for count in (1, 2):
            for both in (False, True):
                for bias in (False, True):
                    cases[f"{cell} {count} {both} {bias}"] = (
                        nn.ModuleDict({"rnn": module(3, 5, count, bidirectional=both, bias=bias)}),
                        stack(cell, layers=count, bidirectional=both, bias=bias))
    cases["rnn relu"] = (nn.ModuleDict({"rnn": nn.RNN(3, 5, nonlinearity="relu")}), stack("rnn", nonlinearity="relu"))
    cases["lstm projection"] = (nn.ModuleDict({"rnn": nn.LSTM(3, 5, 2, proj_size=2)}),
                                stack("lstm", layers=2, projection=2))
    x = torch.randn(6, 2, 3, generator=torch.manual_seed(1))
    wrong = []
    for name, (module, network) in cases.items():
        model = layers.model(network, {"x": ("T", "B", 3)}, parameters=module.state_dict())
        with torch.no_grad():
            wanted = module["rnn"](x)[0]
        if not close(model.run({"x": x})["y"], wanted.numpy()):
            wrong.append(name)
        back = {k: torch.from_numpy(v) for k, v in model.state_dict().items()}
        if not all(torch.equal(v, back[k]) for k, v in module.state_dict().items()):
            wrong.append(name + " state_dict")
        module.load_state_dict(back)
    check(not wrong, f"{len(cases)} recurrent modules of PyTorch and their layer functions agree {wrong}")

    module = nn.ModuleDict({"attention": nn.MultiheadAttention(8, 2, batch_first=True)})
    model = layers.model(lambda q, k: dict(zip("yw", layers.multi_head_attention(q, k, k, 2, name="attention"))),
                         {"q": ("B", "Q", 8), "k": ("B", "S", 8)}, parameters=module.state_dict())
    q, k = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    with torch.no_grad():
        wanted = module["attention"](q, k, k)
    found = model.run({"q": q, "k": k})
    check(close(found["y"], wanted[0].numpy()) and close(found["w"], wanted[1].numpy()), "so does its attention")

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn = nn.Embedding(11, 4), nn.GRU(4, 5, bidirectional=True)
            self.norm, self.head = nn.LayerNorm(10), nn.Linear(10, 3)

        def forward(self, ids):
            return self.head(self.norm(self.rnn(self.embedding(ids))[0])).log_softmax(-1)

    def tagger(ids):
        y, _ = layers.gru(layers.embedding(ids, 11, 4, name="embedding"), 5, bidirectional=True, name="rnn")
        return layers.log_softmax(layers.linear(layers.layer_norm(y, name="norm"), 3, name="head"))

    torch.manual_seed(2)
    module, ids = Tagger().eval(), torch.randint(0, 11, (7, 3))
    model = layers.model(tagger, {"ids": ("int32", "T", "B")}, parameters=module.state_dict())
    with torch.no_grad():
        check(close(model.run({"ids": ids.int()})["y"], module(ids).numpy()), "a tagger of PyTorch and ours agree")


if __name__ == "__main__":
    equal_to_numpy()
    cells_and_lengths()
    convolutions()
    windows()
    files_of_arrays()
    attention()
    state_dicts()
    mistakes()
    lifetimes()
    if torch:
        equal_to_torch()
    else:
        print("skipped: PyTorch is not installed")
    finish()
