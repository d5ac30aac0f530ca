#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX project's own node tests to a safetensors file: NAME/model, NAME/input/TENSOR, NAME/output/TENSOR.

node_cases.safetensors: onnx 1.17, the cases whose operators the importer lists. Newer versions test newer opsets.
recurrent_cases.safetensors: --recurrent with onnx 1.23, the single nodes RNN, GRU, LSTM, Scan and Loop.
With --all every case. What cannot be stored is listed in the metadata with its reason, so that the test counts it.
"""
import argparse
import json
import pathlib
import re
import struct
import warnings

import numpy
import onnx
from onnx.backend.test.case.node import collect_testcases

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "frontends" / "onnx"
RECURRENT = {"RNN", "GRU", "LSTM", "Scan", "Loop"}
UNKNOWN = {"STRING", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"}
DTYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "bool": "BOOL"}


def operators():
    rows = "".join(path.read_text() for path in SOURCES.glob("ops/*.cc"))
    return set(re.findall(r'^    \{"(\w+)", \d+,', rows, re.M))


def operators_of(graph):
    for node in graph.node:
        yield (node.domain + "." if node.domain else "") + node.op_type
        for attribute in node.attribute:
            yield from operators_of(attribute.g)


def stored(value, element_type):
    """The array as the importer sees it: integers in 32 bits, 16-bit floats in 32."""
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if not isinstance(value, numpy.ndarray) and not numpy.isscalar(value):
        raise TypeError("a sequence or an optional value")
    array = numpy.asarray(value)
    if element_type == onnx.TensorProto.BFLOAT16:  # NumPy has none: its bits, or a type of another package
        bits = array if array.dtype == numpy.uint16 else array.view(numpy.uint16)
        array = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    if array.dtype.kind in "iu" and array.dtype != numpy.int32:
        narrow = array.astype(numpy.int32)
        if not (narrow.astype(object) == array.astype(object)).all():
            raise TypeError(f"{array.dtype} values beyond 32 bits")
        array = narrow
    if array.dtype == numpy.float16:
        array = array.astype(numpy.float32)
    if array.ndim > 6:
        raise TypeError("more than 6 dimensions")
    if array.dtype.name not in DTYPES:
        raise TypeError(f"elements of {array.dtype}")
    return numpy.ascontiguousarray(array).reshape(array.shape)


def tensors_of(case):
    yield "model", numpy.frombuffer(case.model.SerializeToString(), numpy.uint8)
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    for info in (*graph.input, *graph.output):
        if (name := onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type)) in UNKNOWN:
            raise TypeError(f"elements of {name}")
    for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for info, value in zip(infos, values, strict=True):
            yield f"{kind}/{info.name}", stored(value, info.type.tensor_type.elem_type)


def write(path, tensors, metadata):
    header, data, position = {"__metadata__": metadata}, [], 0
    for name, array in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        kind = "U8" if array.dtype == numpy.uint8 else DTYPES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [position, position + array.nbytes]}
        data.append(array.tobytes())
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--recurrent", action="store_true")
    parser.add_argument("--most-bytes", type=int, default=16384, help="of one case; larger ones are listed instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known, tensors, left_out = operators(), {}, {}
    numpy.random.seed(0)
    for case in collect_testcases(None):
        used = set(operators_of(case.model.graph))
        single = [node.op_type for node in case.model.graph.node]
        wanted = len(single) == 1 and single[0] in RECURRENT if options.recurrent else used <= known
        if not (options.all or wanted):
            continue
        try:
            mine = {f"{case.name}/{name}": array for name, array in tensors_of(case)}
        except TypeError as reason:
            left_out[case.name] = str(reason)
            continue
        if not options.all and sum(array.nbytes for array in mine.values()) > options.most_bytes:
            left_out[case.name] = f"more than {options.most_bytes} bytes"
            continue
        tensors |= mine
    write(options.out, tensors, {"onnx": onnx.__version__, "left_out": json.dumps(left_out, sort_keys=True)})
    print(f"{sum(name.endswith('/model') for name in tensors)} cases, {len(left_out)} left out")


if __name__ == "__main__":
    main()
