#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/safetensors beside itself: small files, some valid, some hostile. Same bytes on every run."""
import json
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "corpus" / "safetensors"


def framed(header, data=b""):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def tensors(data, **entries):
    return framed(json.dumps(entries, separators=(",", ":")), data)


def numbers(form, *values):
    return struct.pack("<" + form * len(values), *values)


def nested(depth):
    return framed('{"t":{"x":' + "[" * depth + "]" * depth + "}}")


FILES = {
    # valid
    "ok_empty": framed("{}"),
    "ok_padded": framed("{}      "),
    "ok_f32": tensors(numbers("f", 1, -2, 3.5), w=entry("F32", [3], 0, 12)),
    "ok_f64_scalar": tensors(numbers("d", 0.1), s=entry("F64", [], 0, 8)),
    "ok_i64": tensors(numbers("q", -5, 7), n=entry("I64", [2, 1], 0, 16)),
    "ok_i32": tensors(numbers("i", -5, 7), n=entry("I32", [1, 2], 0, 8)),
    "ok_small": tensors(b"\x00\x01\xff", b=entry("BOOL", [2], 0, 2), u=entry("U8", [1], 2, 3)),
    "ok_halves": tensors(numbers("H", 0x3C00, 0x0001, 0x7E00, 0x3F80), h=entry("F16", [3], 0, 6),
                         b=entry("BF16", [], 6, 8)),
    "ok_no_elements": tensors(b"", z=entry("F32", [0, 5], 0, 0), y=entry("F64", [3, 0], 0, 0)),
    "ok_metadata": framed('{"__metadata__":{"a":"b","\\u20ac":"\\"x\\"\\n"},"t":' +
                          json.dumps(entry("U8", [2], 0, 2)) + "}", b"ab"),
    "ok_unknown_key": framed('{"t":{"x":{"y":[1,{}]},"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"a"),
    "ok_names": framed('{"":' + json.dumps(entry("U8", [0], 0, 0)) + ',"\\u0007 \u00e9":' +
                       json.dumps(entry("U8", [0], 0, 0)) + "}"),
    # hostile
    "bad_nothing": b"",
    "bad_seven_bytes": b"\x02\x00\x00\x00\x00\x00\x00",
    "bad_length_100mb": struct.pack("<Q", 100_000_000) + b"{}",
    "bad_length_wraps": struct.pack("<Q", 2**64 - 1) + b"{}",
    "bad_length_past_end": struct.pack("<Q", 64) + b"{}",
    "bad_space_first": framed(" {}"),
    "bad_bom": framed(b"\xef\xbb\xbf{}"),
    "bad_zero_byte": framed(b'{}\x00{"t":1}'),
    "bad_two_values": framed("{}{}"),
    "bad_utf8": framed(b'{"\xc3\x28":{}}'),
    "bad_surrogate": framed('{"\\ud800":{}}'),
    "bad_unclosed": framed('{"t":{"dtype":"F32"'),
    "bad_depth": nested(70),
    "bad_depth_large": nested(4000),
    "bad_duplicate": framed('{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
                            '"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "bad_duplicate_field": framed('{"t":{"dtype":"U8","dtype":"F32","shape":[0],"data_offsets":[0,0]}}'),
    "bad_metadata": framed('{"__metadata__":{"a":1}}'),
    "bad_overlap": tensors(bytes(6), a=entry("F32", [1], 0, 4), b=entry("F32", [1], 2, 6)),
    "bad_hole": tensors(bytes(6), a=entry("F32", [1], 0, 4), b=entry("U8", [1], 5, 6)),
    "bad_tail": tensors(bytes(5), a=entry("F32", [1], 0, 4)),
    "bad_past_data": tensors(bytes(4), a=entry("F32", [2], 0, 8)),
    "bad_falling": tensors(bytes(4), a=entry("F32", [1], 4, 0)),
    "bad_wrap_product": tensors(bytes(4), a=entry("F32", [2**32, 2**32, 1], 0, 4)),
    "bad_wrap_bytes": tensors(b"", a=entry("F32", [2**62], 0, 0)),
    "bad_wrap_zero": tensors(b"", a=entry("F32", [2**32, 2**32, 0], 0, 0)),
    "bad_offset_max": tensors(bytes(4), a=entry("U8", [2**64 - 1], 0, 2**64 - 1)),
    "bad_number": framed('{"t":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}', bytes(4)),
    "bad_negative": framed('{"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}', bytes(4)),
    "bad_fraction": framed('{"t":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}', bytes(6)),
    "bad_rank": tensors(bytes(1), a=entry("U8", [1] * 7, 0, 1)),
    "bad_dtype": tensors(bytes(1), a=entry("F4", [2], 0, 1)),
    "bad_boolean": tensors(b"\x02", a=entry("BOOL", [1], 0, 1)),
    "bad_i64": tensors(numbers("q", 2**40), a=entry("I64", [1], 0, 8)),
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (FOLDER / name).write_bytes(content)
    print(f"wrote {len(FILES)} files to {FOLDER}")
