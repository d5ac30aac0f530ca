#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's side of `unroll bench`, for --mode infer (its LSTM, GRU and RNN ops on whole sequences) and stream
(one call per step, states in and out).

Needs onnx and onnxruntime. A call through Python costs some microseconds, which are counted: --empty times a model that
does nothing, to tell how many.
"""
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import protocol

# ONNX's gates in order, as places in PyTorch's: i o f g of i f g o, z r n of r z n.
ORDER = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "rnn": [0]}


def reordered(o, rows):
    """[G*H, ...] from PyTorch's order of gates to ONNX's."""
    parts = np.split(rows, protocol.GATES[o.cell])
    return np.concatenate([parts[k] for k in ORDER[o.cell]])


def weights_of(o, saved):
    """W [D,G*H,I], R [D,G*H,H] and B [D,2*G*H] of each layer."""
    rng, rows, directions = np.random.default_rng(o.seed), protocol.GATES[o.cell] * o.hidden, 1 + o.bidirectional
    weights = []
    for layer in range(o.layers):
        width = o.input if layer == 0 else directions * o.hidden
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, o.hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
        found = {name: [] for name in shapes}
        for suffix in ["", "_reverse"][:directions]:
            for name, shape in shapes.items():
                drawn = (rng.standard_normal(shape) * 0.05).astype(np.float32)
                found[name].append(reordered(o, saved.get(f"{name}_l{layer}{suffix}", drawn)))
        biases = [np.concatenate(pair) for pair in zip(found["bias_ih"], found["bias_hh"])]
        weights += [numpy_helper.from_array(np.stack(parts), f"{name}{layer}")
                    for name, parts in (("w", found["weight_ih"]), ("r", found["weight_hh"]), ("b", biases))]
    return weights


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def recurrent_model(o, saved):
    """x [T,B,I] in, y [T,B,D*H] out; in mode stream also a state per layer in and the next states out."""
    steps, batch = (1, o.lanes) if o.mode == "stream" else (o.steps, o.batch)
    directions, options = 1 + o.bidirectional, {"linear_before_reset": 1} if o.cell == "gru" else {}
    if o.bidirectional:
        options["direction"] = "bidirectional"
    state_names = (["h", "c"] if o.cell == "lstm" else ["h"]) if o.mode == "stream" else []
    inputs, outputs, nodes, weights = [value("x", [steps, batch, o.input])], [], [], weights_of(o, saved)
    if o.lengths:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch]))
    x = "x"
    for layer in range(o.layers):
        shape = [directions, batch, o.hidden]
        inputs += [value(f"{s}{layer}", shape) for s in state_names]
        outputs += [value(f"{s}{layer}_next", shape) for s in state_names]
        operands = [x, f"w{layer}", f"r{layer}", f"b{layer}", "lengths" if o.lengths else "",
                    *[f"{s}{layer}" for s in state_names]]
        nodes += [helper.make_node(o.cell.upper(), operands, [f"y{layer}", *[f"{s}{layer}_next" for s in state_names]],
                                   hidden_size=o.hidden, **options),
                  helper.make_node("Transpose", [f"y{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
                  helper.make_node("Reshape", [f"t{layer}", "shape"], [f"z{layer}"])]
        x = f"z{layer}"
    width = directions * o.hidden
    weights.append(numpy_helper.from_array(np.array([steps, batch, width], np.int64), "shape"))
    outputs.insert(0, value(x, [steps, batch, width]))
    return helper.make_graph(nodes, "peer", inputs, outputs, weights)


def empty_model(o):
    shape = [1, o.lanes, o.input]
    return helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty", [value("x", shape)],
                             [value("y", shape)])


def session_of(o, saved):
    graph = empty_model(o) if o.empty else recurrent_model(o, saved)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = o.threads
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main():
    o = protocol.parse(list(ORDER), ["infer", "stream"], lanes={"type": int, "default": 1},
                       lengths={"help": "used as --check has them"}, empty={"action": "store_true"})
    saved = protocol.load(o.check) if o.check else {}
    session = session_of(o, saved)
    feed = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    feed["x"] = np.random.default_rng(1).uniform(-1, 1, feed["x"].shape).astype(np.float32)
    feed.update({name: saved[name] for name in feed.keys() & saved.keys()})
    flop = protocol.forward_flop(o)
    if o.mode == "stream":
        flop = flop / o.steps / o.batch * o.lanes
        protocol.repeat(lambda: session.run(None, feed), 0, fewest=100)
    times = protocol.repeat(lambda: session.run(None, feed), o.seconds, fewest=1000 if o.mode == "stream" else 3)
    computed = {"y": session.run(None, feed)[0]}
    if o.save:
        protocol.save(o.save, computed)
    difference = protocol.relative_l2(saved, computed) if saved and saved.keys() & computed.keys() else None
    protocol.report(f"ONNX Runtime {ort.__version__}", times, flop, relative_l2=difference)


main()
