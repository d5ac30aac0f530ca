#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Expressions with values of a network equal NumPy's with arrays. PYTHONPATH has the package.

a [3,4,5], b [4,5], c [5,6], v [5], n int32 [4,5], p [3,4,5] above 0, t bool [4,5]; w is a NumPy array [4,5].
"""
import itertools

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

RNG = np.random.default_rng(3)
ARRAYS = {"a": RNG.standard_normal((3, 4, 5)), "b": RNG.standard_normal((4, 5)), "c": RNG.standard_normal((5, 6)),
          "v": RNG.standard_normal(5), "n": RNG.integers(-3, 4, (4, 5)), "p": RNG.random((3, 4, 5)) + 0.1,
          "t": RNG.random((4, 5)) < 0.5}
ARRAYS = {k: x.astype(np.int32 if k == "n" else bool if k == "t" else np.float32) for k, x in ARRAYS.items()}
W = RNG.standard_normal((4, 5))

OPERATORS = ["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="]
PAIRS = [("a", "b"), ("b", "a"), ("a", "v"), ("a", "2"), ("2", "a"), ("a", "0.5"), ("-1.5", "b"), ("n", "2"),
         ("3", "n"), ("n", "0.5"), ("n", "n"), ("b", "n"), ("n", "b"), ("b", "w"), ("w", "b"), ("n", "w"), ("t", "1"),
         ("b", "t")]
INDICES = ["a[0]", "a[-1]", "a[1:]", "a[:2]", "a[:-1]", "a[::2]", "a[::-1]", "a[2:0:-1]", "a[0, 1]", "a[:, 1]",
           "a[..., 1]", "a[..., -1]", "a[:, ::2]", "a[1, ..., 2]", "a[None]", "a[:, None]", "a[..., None]",
           "a[None, 0, ..., None]", "a[1:3, 2:, ::-2]", "a[[0, 2]]", "a[[-1, 0, 0]]", "a[:, [3, 1]]",
           "a[..., [0, 4, 2]]", "a[0][1][2]", "b[-2:]", "b[:, 1:2]", "v[3]", "v[::-1]", "v[-3:-1]", "n[1:, ::2]",
           "n[[1, 0]]", "a[np.array([1, 0])]", "a[np.int64(1)]", "a[1:1]", "a[:, 4:9]", "a.T", "b.T",
           "a[:, :, None, :] - a[:, None]", "b[..., None] * b[:, None]"]
OTHERS = ["-a", "abs(a)", "+b + -b", "a ** 2", "a ** 3", "p ** 0.5", "p ** -1", "2 ** b", "p ** b", "b @ c", "a @ c",
          "v @ c", "b @ v", "w.T @ b", "b @ w.T", "a * 2 + 1", "1 / p", "1 - b", "(b > 0) & (b < 1)", "(b > 0) | t",
          "~t", "~(a > 0)", "b == b", "t == t", "n / 2", "n / n[0]", "n - 1.5", "2 * n", "n * t", "L.sum(a)",
          "L.sum(a, axis=0)", "L.sum(a, axis=-1)", "L.sum(a, axis=(0, 2))", "L.sum(a, axis=1, keepdims=True)",
          "L.mean(a)", "L.mean(a, axis=(1, 2))", "L.mean(n, axis=0)", "L.mean(t)", "L.mean(a, axis=-1, keepdims=True)",
          "L.max(a)", "L.max(a, axis=1)", "L.max(n, axis=0)", "L.min(a)", "L.min(a, axis=(0, 1))", "L.sum(t, axis=0)",
          "L.min(n, axis=1, keepdims=True)", "L.argmax(a, axis=1)", "L.cumsum(a, axis=1)", "L.exp(b)", "L.log(p)",
          "L.sqrt(p)", "L.tanh(b)", "L.square(b)", "L.sign(b)", "L.log1p(p)", "L.expm1(b)", "L.abs(b)",
          "L.maximum(b, b[::-1])", "L.minimum(a, b)", "L.where(b > 0, b, -b)", "L.stack([b, b + 1])",
          "L.stack([b, b + 1], axis=1)", "L.stack([b, 2 * b], axis=-1)", "L.clip(b, -0.5, 0.5)",
          "L.reshape(a, [12, 5])", "L.transpose(a, [2, 0, 1])", "L.matmul(a, c)", "L.equal(n, n)", "L.less(b, v)"]


class NumPy:
    """The functions of layers, by NumPy."""
    def __getattr__(self, name):
        return getattr(np, name)

    concat = staticmethod(lambda parts, axis=-1: np.concatenate(parts, axis))


def expressions():
    for (x, y), op in itertools.product(PAIRS, OPERATORS):
        is_truth = {x, y} & {"t"} and op == "-"
        if not is_truth:  # NumPy has no difference of truths
            yield f"{x} {op} {y}"
    yield from INDICES + OTHERS


def close(found, wanted):
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind != found.dtype.kind:
        return f"dtype {found.dtype}, not {wanted.dtype}"
    with np.errstate(invalid="ignore"):
        is_near = np.isclose(found.astype(float), wanted.astype(float), rtol=2e-5, atol=2e-6, equal_nan=True)
    return "" if is_near.all() else f"{found.ravel()[:4]}, not {wanted.ravel()[:4]}"


def value_of(expression, names):
    return eval(expression, {"np": np, "w": W, **names})


def equal_to_numpy():
    kinds = {"n": "int32", "t": "bool"}
    specs = {k: (kinds.get(k, "float32"), *x.shape) for k, x in ARRAYS.items()}
    n_equal = 0
    for expression in expressions():
        with np.errstate(all="ignore"):
            wanted = value_of(expression, {"L": NumPy(), **ARRAYS})
        try:
            model = layers.model(lambda a, b, c, v, n, p, t: value_of(expression, {
                "L": layers, "a": a, "b": b, "c": c, "v": v, "n": n, "p": p, "t": t}), specs)
            why = close(model.run(ARRAYS)["y"], wanted)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        n_equal += not why
        if why:
            check(False, f"{expression}: {why}")
    check(n_equal >= 200, f"{n_equal} expressions equal NumPy's")


def wrong_uses():
    def build(expression):
        layers.model(lambda a, b: value_of(expression, {"L": layers, "a": a, "b": b}),
                     {"a": (3, 4, 5), "b": (4, 6)}).run({"a": ARRAYS["a"], "b": np.zeros((4, 6), np.float32)})

    for expression, kind, text in [
            ("a + b", unroll.ShapeError, "[3,4,5]"), ("a @ b", unroll.ShapeError, "matmul"),
            ("a[0, 0, 0, 0]", unroll.ShapeError, "an index of 4 axes does not fit f32[3,4,5]"),
            ("a['x']", unroll.ShapeError, "an index of str does not fit"), ("a & b", unroll.DTypeError, "are for bool"),
            ("a[5]", IndexError, "out of range"), ("a[[0, 7]]", IndexError, "out of range"),
            ("a + 'x'", unroll.DTypeError, "an operand"), ("a + None", unroll.DTypeError, "an operand"),
            ("L.sum(a, axis=3)", unroll.ShapeError, "axis"), ("L.sum(a, axis=(0, 0))", unroll.ShapeError, "axis"),
            ("L.stack([])", unroll.UsageError, "no parts"), ("L.astype(a, 'text')", unroll.DTypeError, "is none of"),
            ("L.reshape(a, [7, 9])", unroll.ShapeError, "reshape"), ("len(L.sum(a))", TypeError, "no length")]:
        refused(kind, text, build, expression)


if __name__ == "__main__":
    equal_to_numpy()
    wrong_uses()
    finish()
