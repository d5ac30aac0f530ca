# SPDX-License-Identifier: Apache-2.0
"""What bench/run.py times: shapes that both sides take, and what each side adds. T time, B batch, I input, H hidden."""
import dataclasses
import json
import pathlib
import shlex

FOLDER = pathlib.Path(__file__).resolve().parent
CELLS = FOLDER.parent / "docs/examples/cells"


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    shape: str                    # options of every side
    ours: str = ""                # of ours alone; without --config or --cell that is the cell of `shape`
    peers: tuple = ()             # (peer, its cell or other options); empty: all, with the cell of `shape`
    modes: tuple = ("infer", "train")
    difference: float = 1e-4      # most relative L2 between the sides: see below
    goals: dict = dataclasses.field(default_factory=dict)  # mode: least ratio of the best peer's time to ours


# Rounding of f32 in sums of some hundred products over some hundred steps stays near 1e-6, of gradients near 1e-5; a
# wrong weight, gate or mask gives 1e-1 and more. A random layer-norm LSTM is chaotic: over 100 steps PyTorch's
# gradients in f32 are 1.2e-3 from its own in f64 (ours 0.9e-3).
CHAOTIC = 1e-2


def sizes(cell, inputs, hidden, batch, steps, layers=1):
    return (f"--cell {cell} --input {inputs} --hidden {hidden} --batch {batch} --steps {steps}"
            + (f" --layers {layers}" if layers > 1 else ""))


def own(shape):
    """The shape without its cell."""
    return " ".join(shape.split()[2:])


def layer(name, shape, infer=None, train=None, **more):
    goals = {mode: goal for mode, goal in (("infer", infer), ("train", train)) if goal}
    return Workload(name, shape, goals=goals, **more)


def crnn(name, front, shape, infer=None, train=None):
    """Recurrent layers behind convolutions over time, model.front: beside PyTorch."""
    cell, texts = " ".join(shape.split()[:2]), json.dumps(front.split(";"))
    ours = f"--config {FOLDER / 'crnn.toml'} {cell} --set {shlex.quote('model.front=' + texts)}"
    return layer(name, own(shape), infer, train, ours=ours,
                 peers=(("torch", f"{cell} --front {shlex.quote(texts)}"),))


def by_text(name, config, peers, shape, infer=None, train=None, modes=("infer", "train")):
    """A cell of docs/examples/cells against the same cell written by hand elsewhere."""
    difference = CHAOTIC if config == "layer-norm.toml" else Workload.difference
    return layer(name, own(shape), infer, train, ours=f"--config {CELLS / config}", peers=peers, modes=modes,
                 difference=difference)


def stream(name, shape, formats):
    """One workload for each format of the weights: (format, goal); ONNX Runtime stays at f32."""
    return [Workload(f"{name} {dtype}", shape, ours=f"--weights-dtype {dtype}", peers=(("onnxruntime", ""),),
                     modes=("stream",), goals={"stream": goal} if goal else {}) for dtype, goal in formats]


HAND = (("torch", "--cell lstm_cell"), ("torch", "--cell lstm_ops"))
NORM = (("torch", "--cell lnlstm"), ("jax", "--cell lnlstm"))
COMPILED = (("torch", "--cell lnlstm --compile"),)
MIDDLE = sizes("lstm", 128, 256, 32, 100)
LARGE, SMALL = sizes("lstm", 256, 512, 64, 200), sizes("lstm", 32, 64, 16, 50)

WORKLOADS = [
    layer("lstm B1", sizes("lstm", 128, 256, 1, 100), 1.5, 3),
    layer("lstm B8", sizes("lstm", 128, 256, 8, 100), 1.3, 1.6),
    layer("lstm B32", MIDDLE, 1.1, 2.2),
    layer("lstm B128", sizes("lstm", 128, 256, 128, 100), 1.15, 2.2),
    layer("lstm B32 bidirectional", MIDDLE + " --bidirectional"),
    layer("lstm H512 B64", LARGE, 1.05, 2),
    layer("lstm L2 H512", sizes("lstm", 256, 512, 32, 100, 2), 1.05, 1.4),
    layer("gru L2 H512", sizes("gru", 256, 512, 32, 100, 2), 1.4, 3),
    layer("rnn L2 H512", sizes("rnn", 256, 512, 32, 100, 2), 1.3, 2.2),
    layer("lstm L2 650", sizes("lstm", 650, 650, 20, 35, 2), 1.5, 1.7),
    layer("gru B32", sizes("gru", 128, 256, 32, 100)),
    layer("rnn B32", sizes("rnn", 128, 256, 32, 100)),
    layer("lstm small", SMALL, 2, 4),
    layer("gru small", sizes("gru", 32, 64, 16, 50), 8, 25),
    crnn("crnn B32", "conv(128, kernel=5);relu;conv(128, kernel=5);relu", sizes("gru", 64, 128, 32, 200), 1.1, 1.2),
    crnn("crnn B8, strides", "conv(64, kernel=5, stride=2, padding=same);relu;conv(96, kernel=3, padding=same);relu;"
         "max_pool(2)", sizes("lstm", 80, 128, 8, 400) + " --bidirectional", 1.1, 1.2),
    crnn("crnn B1, depthwise", "conv(64, kernel=1);conv(64, kernel=7, groups=64);gelu", sizes("gru", 40, 64, 1, 500)),
    by_text("lstm as text, H512 B64", "lstm.toml", HAND, LARGE, train=3),
    by_text("lstm as text, small", "lstm.toml", HAND, SMALL, train=30),
    by_text("lnlstm as text, B32", "layer-norm.toml", NORM, MIDDLE, 4.5, 8),
    by_text("lnlstm as text, small", "layer-norm.toml", NORM, SMALL, 5, 35),
    by_text("lnlstm as text, small, beside torch.compile", "layer-norm.toml", COMPILED, SMALL, train=8,
            modes=("train",)),
    layer("bi-lstm I24 H32 B1 T63", sizes("lstm", 24, 32, 1, 63) + " --bidirectional", infer=4, modes=("infer",),
          peers=(("onednn-api", ""), ("torch", ""), ("onnxruntime", ""))),
    layer("lstm lengths 5:200:60", sizes("lstm", 128, 256, 32, 200) + " --lengths 5:200:60", train=4,
          peers=(("torch", ""), ("onnxruntime", ""))),
    *stream("stream lstm I40 H64", sizes("lstm", 40, 64, 1, 1), [("f32", 8)]),
    *stream("stream lstm L2 I128 H256", sizes("lstm", 128, 256, 1, 1, 2), [("f32", 1.5), ("bf16", None), ("int8", 3)]),
    *stream("stream lstm L2 I256 H512", sizes("lstm", 256, 512, 1, 1, 2), [("f32", 1.2), ("bf16", None),
                                                                          ("int8", 2.4)]),
]
