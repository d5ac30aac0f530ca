#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX model in ONNX Runtime: usage run_onnx_model.py MODEL [INPUT.safetensors OUTPUT.safetensors]...

The tensors of both files have the names of the model's inputs and outputs; outputs are written as f32. Prints the
version of ONNX Runtime. Needs numpy and onnxruntime. unroll export --check uses it.
"""
import sys

import numpy as np
import onnxruntime as ort

import protocol


def main(model, *files):
    ort.set_default_logger_severity(3)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for inputs, outputs in zip(files[::2], files[1::2]):
        results = session.run(names, protocol.load(inputs, torch_names=False))
        protocol.save(outputs, {name: np.asarray(r, np.float32) for name, r in zip(names, results)})
    print(ort.__version__)


main(*sys.argv[1:])
