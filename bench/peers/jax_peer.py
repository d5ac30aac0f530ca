#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX's side of `unroll bench`: one layer, one direction, jit over lax.scan on the CPU.

Needs jax and numpy. compile_ms is the first call.
"""
import os
import time

import numpy as np

import protocol


def cells(jax):
    """Per cell: what it makes of x [T,B,I] before the loop, and its step (p, state, that's slice) -> next state."""
    jnp, sigmoid = jax.numpy, jax.nn.sigmoid

    def product(p, x):
        return x @ p["weight_ih_l0"].T + p["bias_ih_l0"]

    def recurrent(p, h):
        return h @ p["weight_hh_l0"].T + p["bias_hh_l0"]

    def norm(p, name, x):
        return jax.nn.standardize(x, epsilon=1e-5) * p[f"{name}.weight_l0"] + p[f"{name}.bias_l0"]

    def rnn(p, state, x):
        return (jnp.tanh(x + recurrent(p, state[0])),)

    def gru(p, state, x):
        (rx, zx, nx), (rh, zh, nh) = jnp.split(x, 3, 1), jnp.split(recurrent(p, state[0]), 3, 1)
        z = sigmoid(zx + zh)
        return ((1 - z) * jnp.tanh(nx + sigmoid(rx + rh) * nh) + z * state[0],)

    def gated(p, c, gates, out):
        i, f, g, o = jnp.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        return sigmoid(o) * jnp.tanh(out(c)), c

    def lstm(p, state, x):
        return gated(p, state[1], x + recurrent(p, state[0]), lambda c: c)

    def lnlstm(p, state, x):
        gates = x + norm(p, "norm_hh", state[0] @ p["weight_hh_l0"].T)
        return gated(p, state[1], gates, lambda c: norm(p, "norm_c", c))

    return {"rnn": (product, rnn), "gru": (product, gru), "lstm": (product, lstm),
            "lnlstm": (lambda p, x: norm(p, "norm_ih", x @ p["weight_ih_l0"].T), lnlstm)}


def parameters_of(o, saved):
    rng, rows = np.random.default_rng(o.seed), protocol.GATES.get(o.cell, 4) * o.hidden
    shapes = {"weight_ih_l0": (rows, o.input), "weight_hh_l0": (rows, o.hidden)}
    if o.cell == "lnlstm":
        for name, width in (("norm_ih", rows), ("norm_hh", rows), ("norm_c", o.hidden)):
            shapes.update({f"{name}.weight_l0": (width,), f"{name}.bias_l0": (width,)})
    else:
        shapes.update(bias_ih_l0=(rows,), bias_hh_l0=(rows,))
    return {name: saved.get(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))
            for name, shape in shapes.items()}


def main():
    o = protocol.parse(["rnn", "gru", "lstm", "lnlstm"], ["train", "infer"])
    if o.layers != 1 or o.bidirectional:
        raise SystemExit("one layer, one direction")
    # XLA sizes its pool by the processors it may use.
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:o.threads]))
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    before, step = cells(jax)[o.cell]
    states = 1 if o.cell in ("rnn", "gru") else 2

    def forward(p, x):
        zeros = jax.numpy.zeros((x.shape[1], o.hidden))

        def body(state, slice_of_x):
            state = step(p, state, slice_of_x)
            return state, state[0]
        return jax.lax.scan(body, (zeros,) * states, before(p, x))[1]

    saved = protocol.load(o.check) if o.check else {}
    p = parameters_of(o, saved)
    x = saved.get("x", np.random.default_rng(1).uniform(-1, 1, (o.steps, o.batch, o.input)).astype(np.float32))
    run = jax.jit(forward if o.mode == "infer" else jax.grad(lambda p, x: (forward(p, x) ** 2).mean()))

    def once():
        return jax.block_until_ready(run(p, x))

    p, x = jax.device_put((p, x))
    begin = time.perf_counter()
    result = once()
    compile_ms = (time.perf_counter() - begin) * 1e3
    computed = {"y": np.asarray(result)} if o.mode == "infer" else {"d_" + n: np.asarray(v) for n, v in result.items()}
    flop = protocol.forward_flop(o) * (3 if o.mode == "train" else 1)
    protocol.report(f"JAX {jax.__version__}", protocol.repeat(once, o.seconds), flop, compile_ms=compile_ms,
                    relative_l2=protocol.relative_l2(saved, computed) if saved else None)


main()
