# SPDX-License-Identifier: Apache-2.0
"""What all peers share: the options of `unroll bench`, its way of timing, and the comparison with its saved results.

Needs numpy. Shapes: T time, B batch, I input, H hidden.
"""
import argparse
import json
import pathlib
import statistics
import struct
import time

import numpy as np

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
SIZES = {"input": 128, "hidden": 256, "layers": 1, "batch": 32, "steps": 100, "threads": 2, "seed": 0}
DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32}


def parse(cells, modes, **more):
    """The options of a peer; `more` are its own, as add_argument takes them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cell", default="lstm", choices=cells)
    parser.add_argument("--mode", default=modes[0], choices=modes)
    for name, value in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bidirectional", action="store_true")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--check", help="what `unroll bench --save` wrote: its weights are used, its results compared")
    parser.add_argument("--save", help="safetensors file that gets what was computed")
    for name, how in more.items():
        parser.add_argument("--" + name, **how)
    return parser.parse_args()


def forward_flop(o):
    """2 T B D G H (I + H) for the first layer, D H in the place of I for the others; of MIN:MAX:MEAN lengths the mean
    counts."""
    directions = 2 if o.bidirectional else 1
    widths = o.input + o.hidden + (o.layers - 1) * (directions + 1) * o.hidden
    share = int(o.lengths.split(":")[2]) / o.steps if getattr(o, "lengths", None) else 1
    return share * 2 * o.steps * o.batch * directions * GATES.get(o.cell, 4) * o.hidden * widths


def load(path, torch_names=True):
    """The tensors of a safetensors file; with torch_names also those of text cells that torch has as a layer."""
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        tensors[name] = np.frombuffer(raw[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    return with_torch_names(tensors) if torch_names else tensors


def save(path, tensors):
    """A safetensors file of f32 arrays."""
    header, data = {}, b""
    for name, array in tensors.items():
        part = np.ascontiguousarray(array, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def with_torch_names(tensors):
    """Parameters of cells written as text (docs/examples/cells) and their gradients, by the names of built-in cells."""
    joined = {}
    for d in ("", "d_"):
        def stack(parts, d=d):
            return np.concatenate([tensors[d + part] for part in parts])
        if d + "i.weight_0_l0" in tensors:  # lstm.toml
            joined[d + "weight_ih_l0"] = stack(f"{gate}.weight_0_l0" for gate in "ifgo")
            joined[d + "weight_hh_l0"] = stack(f"{gate}.weight_1_l0" for gate in "ifgo")
            joined[d + "bias_ih_l0"] = stack(f"{gate}.bias_l0" for gate in "ifgo")
            if not d:
                joined["bias_hh_l0"] = np.zeros_like(joined["bias_ih_l0"])
        if d + "from_x2.weight_0_l0" in tensors:  # layer-norm.toml
            joined[d + "weight_ih_l0"] = stack(f"from_x{k}.weight_0_l0" for k in (2, 3, 4, 5))
            joined[d + "weight_hh_l0"] = stack(f"from_h{k}.weight_0_l0" for k in (2, 3, 4, 5))
            for theirs, ours in (("norm_ih", "from_x"), ("norm_hh", "from_h"), ("norm_c", "h")):
                for part in ("weight", "bias"):
                    joined[f"{d}{theirs}.{part}_l0"] = tensors[f"{d}{ours}.{part}_l0"]
    return {**tensors, **joined}


def relative_l2(saved, computed):
    """The largest of all tensors' |computed - saved| / |saved|, among the names that both have."""
    names = saved.keys() & computed.keys()
    if not names:
        raise SystemExit(f"nothing to compare: saved {sorted(saved)}, computed {sorted(computed)}")
    return max(float(np.linalg.norm(computed[n].astype(np.float64) - saved[n]) /
                     max(np.linalg.norm(saved[n].astype(np.float64)), 1e-30)) for n in names)


def repeat(once, seconds, fewest=3):
    """Milliseconds of each call in rising order, after one call that is not counted."""
    once()
    times, end = [], time.perf_counter() + seconds
    while len(times) < fewest or time.perf_counter() < end:
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)


def report(name, times, flop, **more):
    """Prints the one JSON object; more than None goes in."""
    n, median = len(times), statistics.median(times)
    print(json.dumps({"backend": name, "repeats": n, "min_ms": times[0], "median_ms": median,
                      "spread": (times[n - 1 - n // 4] - times[n // 4]) / median, "gflops": flop / times[0] / 1e6,
                      **{key: value for key, value in more.items() if value is not None}}))
