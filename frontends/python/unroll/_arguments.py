# SPDX-License-Identifier: Apache-2.0
"""Arguments of Python functions in the forms that the extension module takes."""
import inspect
import json
import os
from collections.abc import Mapping

import numpy as np

from ._core import DTypeError, UsageError


def settings(given):
    return [f"{key}={value_text(key, value)}" for key, value in (given or {}).items()]


def value_text(name, value):
    # Numbers, texts, booleans and lists of them are written alike in TOML and JSON.
    try:
        return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"[config] '{name}' must be a number, text, boolean or a list of them; "
                         f"got {value!r:.40}") from error


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
        if len(value) == 0:
            raise UsageError(f"[{name}] there are no examples")
        if f"{name}_lengths" in given and _are_sequences(value):
            raise UsageError(f"[{name}_lengths] is the input of the lengths of {name}. Give it another name")
    return {name: [_array(f"{name}[{k}]", part) for k, part in enumerate(value)] if _are_sequences(value)
            else _array(name, value) for name, value in given.items()}


def by_name(function, known):
    """`function` as a function of its first argument and a dict, from which it takes the arguments that it names."""
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
    both = sorted(set(inputs) & set(targets))
    if both:
        raise UsageError(f"[layers] inputs and targets have the same name: {', '.join(both)}")
    return {**inputs, **targets}


def _are_sequences(value):
    return isinstance(value, (list, tuple)) and all(np.ndim(part) > 0 for part in value)


def _array(name, value):
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, np.float32)
    if array.dtype.kind in "iu":
        limits = np.iinfo(np.int32)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise DTypeError(f"[{name}] integers must fit int32; got {array.min()} to {array.max()}")
        return np.ascontiguousarray(array, np.int32)
    if array.dtype.kind == "b":
        return np.ascontiguousarray(array)
    raise DTypeError(f"[{name}] expected numbers, got dtype {array.dtype}")
