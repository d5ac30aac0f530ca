#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what write_random_models wrote in ONNX Runtime. usage: export_with_onnxruntime.py FOLDER

Prints for each model the largest relative L2 differences: of ONNX Runtime from the library, of each from f64
arithmetic, and of ONNX Runtime from itself when each input moves to a neighboring f32 number: no f32 program can be
expected to be much nearer to f64. Ends with status 1 when the first exceeds 1e-5 plus twice the library's difference
from f64, or when a model cannot be loaded. Needs numpy, onnx and onnxruntime.
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


def moved(x):
    if x.dtype != np.float32:
        return x
    ends = np.random.default_rng(0).choice(np.array([-np.inf, np.inf], np.float32), x.shape)
    return np.nextafter(x, ends)


def check(path):
    """The largest differences over all sizes and outputs: from the library, its share of the tolerance, the library's
    own from f64, that of ONNX Runtime from f64, and that of moved inputs."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest, names = np.zeros(5), [o.name for o in session.get_outputs()]
    for case in sorted(path.parent.glob(path.stem + "-*.safetensors")):
        tensors = protocol.load(case, torch_names=False)
        feed = {name[3:]: t for name, t in tensors.items() if name.startswith("in.")}
        ours = {name: difference(tensors["out." + name], tensors["exact." + name]) for name in names}
        tolerance = TOLERANCE + 2 * max(ours.values())
        results = session.run(names, feed), session.run(names, {name: moved(x) for name, x in feed.items()})
        for name, got, after in zip(names, *results):
            found = difference(got, tensors["out." + name])
            theirs = difference(got, tensors["exact." + name])
            largest = np.maximum(largest, [found, found / tolerance, ours[name], theirs, difference(after, got)])
    return largest, sorted({node.op_type for node in model.graph.node} & {"RNN", "GRU", "LSTM", "Scan"})


def main(folder):
    ort.set_default_logger_severity(3)
    results, failed = [], 0
    for path in sorted(pathlib.Path(folder).glob("*.onnx"), key=lambda p: int(p.stem)):
        try:
            largest, layers = check(path)
        except Exception as e:  # the model is at fault, whatever went wrong
            failed += 1
            print(f"{path.stem} FAILED: {str(e)[:400]}")
            continue
        results.append(largest)
        apart, share, ours, theirs, by_inputs = largest
        failed += share > 1
        print(f"{path.stem} {apart:.2e} from f64: unroll {ours:.2e}, ONNX Runtime {theirs:.2e}; moved inputs "
              f"{by_inputs:.2e} {'+'.join(layers)}{'' if share <= 1 else ' FAILED'}")
    apart, _, ours, theirs, _ = np.max(results, axis=0) if results else np.zeros(5)
    above = sum(each[0] > TOLERANCE for each in results)
    print(f"ONNX Runtime {ort.__version__}: models={len(results)} failed={failed} largest={apart:.2e}"
          f" above_{TOLERANCE:.0e}={above} from_f64: unroll={ours:.2e} onnxruntime={theirs:.2e}")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
