#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what write_random_models wrote in ONNX Runtime. usage: export_with_onnxruntime.py FOLDER

Prints the largest relative L2 difference of each model, and of all. Ends with status 1 when one exceeds 1e-5 plus twice
the model's own rounding error (f32 against f64 in the library), or when a model cannot be loaded. Needs numpy, onnx and
onnxruntime.
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import protocol  # noqa: E402

TOLERANCE = 1e-5


def difference(got, want):
    assert got.shape == want.shape, f"{got.shape} instead of {want.shape}"
    return float(np.linalg.norm(got.astype(np.float64) - want) / max(np.linalg.norm(want.astype(np.float64)), 1e-30))


def check(path):
    """The largest difference over all sizes and outputs, and its share of the tolerance."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest, share, names = 0.0, 0.0, [o.name for o in session.get_outputs()]
    for case in sorted(path.parent.glob(path.stem + "-*.safetensors")):
        tensors = protocol.load(case, torch_names=False)
        feed = {name[3:]: t for name, t in tensors.items() if name.startswith("in.")}
        tolerance = TOLERANCE + 2 * float(tensors["rounding_error"])
        for name, got in zip(names, session.run(names, feed)):
            found = difference(got, tensors["out." + name])
            largest, share = max(largest, found), max(share, found / tolerance)
    return largest, share, sorted({node.op_type for node in model.graph.node} & {"RNN", "GRU", "LSTM", "Scan"})


def main(folder):
    ort.set_default_logger_severity(3)
    results, failed = [], 0
    for path in sorted(pathlib.Path(folder).glob("*.onnx"), key=lambda p: int(p.stem)):
        try:
            largest, share, layers = check(path)
        except Exception as e:  # the model is at fault, whatever went wrong
            failed += 1
            print(f"{path.stem} FAILED: {str(e)[:400]}")
            continue
        results.append(largest)
        failed += share > 1
        print(f"{path.stem} {largest:.2e} {'+'.join(layers)}{'' if share <= 1 else ' FAILED'}")
    above = sum(largest > TOLERANCE for largest in results)
    print(f"ONNX Runtime {ort.__version__}: models={len(results)} failed={failed} largest={max(results, default=0):.2e}"
          f" above_{TOLERANCE:.0e}={above}")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
