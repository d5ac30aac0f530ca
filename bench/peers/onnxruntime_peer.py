#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streaming steps in ONNX Runtime: one call per step, states in and out, same protocol as `unroll bench --mode stream`.

Needs onnx and onnxruntime. A call through Python costs some microseconds, which are counted: --empty times a model that
does nothing, to tell how many.
"""
import argparse
import json
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def tensor(name, shape, rng):
    values = (rng.standard_normal(shape) * 0.05).astype(np.float32)
    return helper.make_tensor(name, TensorProto.FLOAT, shape, values.ravel())


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def recurrent_model(o):
    """x [1,B,I] and a state per layer in, y [1,B,H] and the next states out."""
    rng, gates = np.random.default_rng(0), GATES[o.cell]
    state_names = ["h", "c"] if o.cell == "lstm" else ["h"]
    inputs, outputs, weights, nodes = [value("x", [1, o.lanes, o.input])], [], [], []
    x = "x"
    for layer in range(o.layers):
        width = o.input if layer == 0 else o.hidden
        weights += [tensor(f"w{layer}", [1, gates * o.hidden, width], rng),
                    tensor(f"r{layer}", [1, gates * o.hidden, o.hidden], rng),
                    tensor(f"b{layer}", [1, 2 * gates * o.hidden], rng)]
        shape = [1, o.lanes, o.hidden]
        inputs += [value(f"{s}{layer}", shape) for s in state_names]
        outputs += [value(f"{s}{layer}_next", shape) for s in state_names]
        options = {"linear_before_reset": 1} if o.cell == "gru" else {}
        nodes += [helper.make_node(o.cell.upper(), [x, f"w{layer}", f"r{layer}", f"b{layer}", "",
                                                    *[f"{s}{layer}" for s in state_names]],
                                   [f"y{layer}", *[f"{s}{layer}_next" for s in state_names]],
                                   hidden_size=o.hidden, **options),
                  helper.make_node("Squeeze", [f"y{layer}", "direction"], [f"z{layer}"])]
        x = f"z{layer}"
    weights.append(helper.make_tensor("direction", TensorProto.INT64, [1], [1]))
    outputs.insert(0, value(x, [1, o.lanes, o.hidden]))
    return helper.make_graph(nodes, "stream", inputs, outputs, weights)


def empty_model(o):
    shape = [1, o.lanes, o.input]
    return helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty", [value("x", shape)],
                             [value("y", shape)])


def session_of(o):
    graph = empty_model(o) if o.empty else recurrent_model(o)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = o.threads
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cell", choices=GATES, default="lstm")
    for name, default in (("input", 128), ("hidden", 256), ("layers", 1), ("lanes", 1), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--empty", action="store_true")
    o = parser.parse_args()
    session = session_of(o)
    feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    feed["x"] = np.random.default_rng(1).uniform(-1, 1, feed["x"].shape).astype(np.float32)
    for _ in range(100):
        session.run(None, feed)
    times, end = [], time.perf_counter() + o.seconds
    while len(times) < 1000 or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    print(json.dumps({"calls": len(times), "min_us": times[0], "median_us": times[len(times) // 2],
                      "p99_us": times[len(times) * 99 // 100], "version": ort.__version__}))


main()
