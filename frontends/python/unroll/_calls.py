# SPDX-License-Identifier: Apache-2.0
"""Why a call fits no function of the extension module, in words."""
import ast
import os
import re
from collections.abc import Sequence

import numpy as np

# Functions that the package wraps.
_PUBLIC = {"_load": "unroll.load", "_train": "unroll.train", "_build": "unroll.build", "_network": "layers.model",
           "_train_network": "layers.train", "_recurrent": "layers", "_Trainer.__init__": "layers.Trainer"}
_INT64 = np.iinfo(np.int64)
# By annotation: words, and whether a value is accepted.
_KINDS = {
    "int": ("an integer", lambda v: isinstance(v, (int, np.integer)) and _INT64.min <= v <= _INT64.max),
    "float": ("a number", lambda v: isinstance(v, (int, float, np.number))),
    "bool": ("True or False", lambda v: isinstance(v, bool)),
    "str": ("a str", lambda v: isinstance(v, str)),
    "dict": ("a dict", lambda v: isinstance(v, dict)),
    "object": ("an object", lambda v: True),
    "None": ("None", lambda v: v is None),
    "os.PathLike": ("a path", lambda v: isinstance(v, os.PathLike)),
}


def mismatch(function, name, given, named):
    """What to say of a call with these positional and keyword arguments. `function` is one of nanobind, `name` its own
    behind that of its class."""
    forms = [_arguments_of(signature) for signature, *_ in function.__nb_signature__]
    problems = [_problem(arguments, given, named) for arguments in forms]
    argument, got = problems[0][0], problems[0][2]
    wanted = " or ".join(dict.fromkeys(wanted for _, wanted, _ in problems if wanted))
    public = _PUBLIC.get(name) or (name if "." in name else f"layers.{name}")
    if not wanted:
        return f"[{public}] {argument}. The arguments are {', '.join(_names(forms[0]))}"
    advice = ". Arrays enter a network as its inputs" if "Value" in wanted and "array" in got else ""
    return f"[{public}] {argument} must be {wanted}; got {got}{advice}"


def _arguments_of(signature):
    return ast.parse(re.sub(r"\\\d+", "...", signature) + ": ...").body[0].args


def _names(arguments):
    return [a.arg for a in arguments.posonlyargs + arguments.args if a.arg != "self"]


def _problem(arguments, given, named):
    """The argument, what it must be ("" where it may not be at all), and what it is."""
    known = arguments.posonlyargs + arguments.args
    if len(given) > len(known):
        own = len(known) - len([a for a in known if a.arg == "self"])
        return f"takes {own} argument{'s' * (own != 1)}, got {len(given) - len(known) + own}", "", ""
    values = {a.arg: v for a, v in zip(known, given)}
    for key, value in named.items():
        if key not in {a.arg for a in arguments.args}:
            return f"there is no argument '{key}'", "", ""
        if key in values:
            return f"the argument '{key}' is given twice", "", ""
        values[key] = value
    for a in known[:len(known) - len(arguments.defaults)]:
        if a.arg not in values:
            return f"the argument '{a.arg}' is missing", "", ""
    for a in known:
        if a.arg in values and a.annotation and not _accepts(a.annotation, values[a.arg]):
            return f"'{a.arg}'", _words(a.annotation), text_of(values[a.arg])
    return "the arguments", "in the range of their types", ", ".join(map(text_of, values.values()))


def _split(annotation):
    """The alternatives of a | b, and those of each its name and what is in brackets."""
    if isinstance(annotation, ast.BinOp):
        return _split(annotation.left) + _split(annotation.right)
    if isinstance(annotation, ast.Subscript):
        inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return [(ast.unparse(annotation.value), inside)]
    return [(ast.unparse(annotation), [])]


def _accepts(annotation, value):
    return any(_accepts_one(name, inside, value) for name, inside in _split(annotation))


def _accepts_one(name, inside, value):
    if name in _KINDS:
        return _KINDS[name][1](value)
    if name.endswith("Sequence"):
        return (isinstance(value, Sequence) and not isinstance(value, (str, bytes))
                and all(_accepts(inside[0], v) for v in value))
    if name == "tuple":
        return isinstance(value, (tuple, list)) and len(value) == len(inside) and all(map(_accepts, inside, value))
    return name.rpartition(".")[2] == type(value).__name__


def _words(annotation):
    words = []
    for name, inside in _split(annotation):
        if name.endswith("Sequence"):
            words.append(f"a list with {_words(inside[0])} at each place" if inside else "a list")
        elif name == "tuple":
            words.append("a tuple of " + ", ".join(map(_words, inside)))
        else:
            words.append(_KINDS[name][0] if name in _KINDS else f"a {name.rpartition('.')[2]}")
    return " or ".join(words)


def text_of(value):
    """A value in an error."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{value!r:.60}"
    if isinstance(value, (list, tuple)) and len(value) <= 4:
        return f"a {type(value).__name__} of {', '.join(map(text_of, value)) or 'nothing'}"
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)}"
    return f"a {type(value).__name__}"
