# SPDX-License-Identifier: Apache-2.0
"""Arguments of Python functions in the forms that the extension module takes."""
import inspect
import json
import os
import re
from collections.abc import Mapping

import numpy as np

from ._calls import text_of as _text
from ._core import DTypeError, ShapeError, UsageError

_DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "bool": "b8"}


def require(ok, what, expected, value):
    if not ok:
        raise DTypeError(f"[{what}] must be {expected}; got {_text(value)}")


def path(what, value):
    require(isinstance(value, (str, os.PathLike)), what, "a path", value)
    return os.fspath(value)


def mapping(what, expected, value):
    require(isinstance(value, Mapping), what, f"a dict of {expected}", value)
    return value


def function(what, value):
    require(callable(value), what, "a function", value)
    return value


def settings(given):
    given = {} if given is None else mapping("settings", "values by key, such as {'train.lr': 0.01}", given)
    return [f"{key}={value_text(key, value)}" for key, value in given.items()]


def value_text(name, value):
    # TOML and JSON have the same syntax for numbers, texts, booleans and lists of them.
    try:
        return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"[config] '{name}' must be a number, text, boolean or a list of them; "
                         f"got {value!r:.40}") from error


def input_spec(name, axes):
    """The name, the dtype and the axes of an input of layers.model: "T", "B", 40; a dtype may come first."""
    what = f"layers.model: input '{name}'"
    require(isinstance(axes, (list, tuple)), what, "a tuple of axes", axes)
    dtype, axes = "float32", list(axes)
    first = axes[0] if axes else None
    if isinstance(first, (type, np.dtype)):
        axes[0] = first = np.dtype(first).name
    if isinstance(first, str) and re.fullmatch("(float|int|uint|bfloat|complex)[0-9]+|bool", first):
        dtype = axes.pop(0)
        require(dtype in _DTYPES, what, f"of dtype {', '.join(_DTYPES)}", dtype)
    for axis in axes:
        is_size = isinstance(axis, (int, np.integer)) and not isinstance(axis, bool) and axis >= 0
        is_letter = isinstance(axis, str) and axis.isidentifier()
        require(is_size or is_letter, f"{what}: an axis", "a size or a letter", axis)
    return name, _DTYPES[dtype], [str(axis) for axis in axes]


def batch(inputs, targets, names=None):
    """Arrays by name, which must be `names`. Numbers become float32, int32 or bool."""
    given = _merged(inputs, targets)
    if names is not None and given.keys() != names:
        raise UsageError(f"[layers.Trainer] expected the arrays {', '.join(sorted(names))}; "
                         f"got {', '.join(sorted(given)) or 'none'}")
    return {name: _array(name, value) for name, value in given.items()}


def batches(inputs, targets, accumulate):
    """Pairs of inputs and targets of an update: dicts or, with train.accumulate, lists of dicts."""
    if not isinstance(inputs, Mapping):
        if isinstance(targets, Mapping) or len(inputs) != len(targets):
            raise UsageError("[layers.Trainer] update takes as many targets as inputs, in two lists")
        return list(zip(inputs, targets))
    if accumulate > 1:
        raise UsageError(f"[layers.Trainer] train.accumulate is {accumulate}, and update got one batch. Write "
                         f"update([inputs, ...], [targets, ...]) with 1 to {accumulate} batches, or remove the setting")
    return [(inputs, targets)]


def fields(inputs, targets):
    """The same for all examples; lists of arrays stay lists."""
    given = _merged(inputs, targets)
    for name, value in given.items():
        require(np.ndim(value) > 0 if hasattr(value, "ndim") else isinstance(value, (list, tuple)), name,
                "an array or a list with an element for each example", value)
        if len(value) == 0:
            raise UsageError(f"[{name}] there are no examples")
        if f"{name}_lengths" in given and _are_sequences(value):
            raise UsageError(f"[{name}_lengths] is the input of the lengths of {name}. Give it another name")
    return {name: [_array(f"{name}[{k}]", part) for k, part in enumerate(value)] if _are_sequences(value)
            else _array(name, value) for name, value in given.items()}


def by_name(function, known):
    """`function` as a function of its first argument and a dict, from which it takes the arguments that it names."""
    require(callable(function), "loss", "a function", function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return lambda result, values: function(result, **values)
    known = known | {f"{name}_lengths" for name in known}
    for p in parameters:
        if p.name not in known and p.default is p.empty and p.kind is not p.VAR_POSITIONAL:
            raise UsageError(f"[layers.train] loss takes '{p.name}', which is no input, target or length. "
                             f"There are {', '.join(sorted(known))}")
    names = [p.name for p in parameters if p.name in known]
    return lambda result, values: function(result, **{name: values[name] for name in names if name in values})


def _merged(inputs, targets):
    for what, arrays in {"inputs": inputs, "targets": targets}.items():
        for name in mapping(what, "arrays by name", arrays):
            require(isinstance(name, str), f"a name of {what}", "a str", name)
    both = sorted(set(inputs) & set(targets))
    if both:
        raise UsageError(f"[layers] inputs and targets have the same name: {', '.join(both)}")
    return {**inputs, **targets}


def _are_sequences(value):
    return isinstance(value, (list, tuple)) and all(np.ndim(part) > 0 for part in value)


def _array(name, value):
    array = _numbers(value, name)
    return converted(array, {"f": "float32", "b": "bool"}.get(array.dtype.kind, "int32"), name)


def converted(value, dtype, what):
    """`value` as a contiguous array of the dtype, or of its own one. No number of it may become another one, apart from
    rounding."""
    array = _numbers(value, what)
    if dtype is None:
        return np.asarray(array, array.dtype.newbyteorder("="), order="C")
    if dtype == "int32" and array.dtype.kind not in "iu":
        raise DTypeError(f"[{what}] expected integers, got {array.dtype}{_example(array)}. Convert it: "
                         "array.astype(numpy.int32)")
    if dtype == "int32" and array.size:
        limits = np.iinfo(np.int32)
        if array.min() < limits.min or array.max() > limits.max:
            raise DTypeError(f"[{what}] integers must fit int32; got {array.min()} to {array.max()}")
    with np.errstate(over="ignore"):
        result = np.asarray(array, dtype, order="C")
    if result.dtype.kind == "f" and array.dtype.kind == "f" and array.dtype.itemsize > result.dtype.itemsize:
        overflows = np.isinf(result) & np.isfinite(array)
        if overflows.any():
            raise DTypeError(f"[{what}] {array[overflows].flat[0]} does not fit {dtype}, whose largest number is "
                             f"{np.finfo(dtype).max:.3g}. Scale the values")
    return result


def _numbers(value, what):
    """`value` as an array of numbers, in place where it is one."""
    if is_negated(value):
        value = value.resolve_neg()
    try:
        array = np.asarray(value)
    except Exception as error:
        raise DTypeError(f"[{what}] expected an array of numbers, got {type(value).__name__}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"[{what}] expected numbers, got dtype {array.dtype}{_example(array)}" if np.ndim(array) else
                         f"[{what}] expected an array of numbers, got {type(value).__name__}")
    return array


def is_negated(value):
    """Whether it is a tensor of PyTorch whose memory has the numbers with the other sign."""
    return bool(getattr(value, "is_neg", bool)())


def _example(array):
    return f" such as {array.reshape(-1)[:1].tolist()[0]!r:.40}" if array.size else ""


def copy_out(out, result):
    """Writes the array `result` into `out`, which may be strided or of another float dtype."""
    np.copyto(out, result.reshape(out.shape), casting="same_kind")


def check_out(out, shape):
    """`out` can take a result of this shape, which is float32."""
    if not isinstance(out, np.ndarray) or out.dtype.kind != "f":
        got = f"{type(out).__name__} of {out.dtype}" if hasattr(out, "dtype") else type(out).__name__
        raise DTypeError(f"[Stream.step] out must be a NumPy array of floats or a contiguous float32 tensor; got {got}")
    if not out.flags.writeable:
        raise UsageError("[Stream.step] out is read-only. Pass a writable array, or a copy")
    if out.size != np.prod(shape, dtype=np.int64):
        raise ShapeError(f"[Stream.step] out must have the {np.prod(shape, dtype=np.int64)} elements of the result "
                         f"{list(shape)}; got {list(out.shape)}")
