#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenBLAS's side of `unroll bench --mode gemm`: cblas_sgemm, through ctypes.

Needs numpy and libopenblas (Debian: libopenblas0). Old versions do not know new processors: OPENBLAS_CORETYPE=SkylakeX
in the environment makes them use AVX-512. --constant-b changes nothing: there is no call that takes packed operands.
"""
import argparse
import ctypes
import ctypes.util

import numpy as np

import protocol

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
FLOATS = ctypes.POINTER(ctypes.c_float)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="gemm", choices=["gemm"])
    parser.add_argument("--shape", default="1024x1024x1024")
    for flag in ("--transpose-a", "--transpose-b", "--constant-b", "--json"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    o = parser.parse_args()
    name = ctypes.util.find_library("openblas")
    if not name:
        raise SystemExit("libopenblas is not found")
    library = ctypes.CDLL(name)
    library.openblas_set_num_threads(o.threads)
    library.openblas_get_corename.restype = ctypes.c_char_p
    m, k, n = map(int, o.shape.split("x"))
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (k, m) if o.transpose_a else (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (n, k) if o.transpose_b else (k, n)).astype(np.float32)
    c = np.empty((m, n), np.float32)
    call = library.cblas_sgemm
    call.argtypes = [ctypes.c_int] * 6 + [ctypes.c_float, FLOATS, ctypes.c_int, FLOATS, ctypes.c_int, ctypes.c_float,
                                          FLOATS, ctypes.c_int]
    operands = [x.ctypes.data_as(FLOATS) for x in (a, b, c)]
    how = [TRANSPOSED if t else PLAIN for t in (o.transpose_a, o.transpose_b)]

    def once():
        call(ROW_MAJOR, *how, m, n, k, 1, operands[0], a.shape[1], operands[1], b.shape[1], 0, operands[2], n)

    times = protocol.repeat(once, o.seconds)
    wanted = (a.T if o.transpose_a else a) @ (b.T if o.transpose_b else b)
    protocol.report(f"OpenBLAS {library.openblas_get_corename().decode()}", times, 2 * m * k * n,
                    relative_l2=protocol.relative_l2({"c": wanted}, {"c": c}))


main()
