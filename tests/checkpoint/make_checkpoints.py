#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/ beside itself and tests/fuzz/corpus/checkpoint with PyTorch: checkpoints, what they contain, and
models with an input and its output. Needs torch and safetensors; the tests need neither. Usage: make_checkpoints.py"""
import collections
import io
import os
import pathlib
import pickle
import zipfile

import torch
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
CORPUS = HERE.parent / "fuzz/corpus/checkpoint"
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool)


def as_read(tensor):
    """In the dtype that the reader makes of it."""
    kept = (torch.float32, torch.float64, torch.bool)
    if tensor.dtype in kept:
        return tensor.detach().clone().contiguous()
    return tensor.detach().to(torch.float32 if tensor.dtype.is_floating_point else torch.int32).contiguous()


def write_tensors(name, stored, tensors=None):
    """`stored` with torch.save, and the tensors that a reader must find, by name."""
    torch.save(stored, GOLDEN / f"{name}.pt")
    save_file({k: as_read(v) for k, v in (tensors or stored).items()}, GOLDEN / f"{name}.safetensors")


def write_reader_files():
    values = torch.tensor([[0.0, 1.0, -2.0], [3.0, 4.0, 100.0]])
    dtypes = {str(d).split(".")[1]: (values.abs() if d == torch.uint8 else values).to(d) for d in DTYPES}
    write_tensors("dtypes", dtypes | {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3)})

    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    views = {"whole": base, "transposed": base.t(), "rows": base[1:3], "columns": base[:, 1:6:2],
             "permuted": base.reshape(2, 3, 4).permute(2, 0, 1), "last": base[3, 5]}
    write_tensors("views", views)

    model = nn.LSTM(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 1, 2))[0].sum().backward()
    optimizer.step()
    nested = {"epoch": 3, "loss": 0.25, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
              "parameters": dict(model.named_parameters()), "list": [torch.ones(2), None, {"x": torch.zeros(1)}]}
    tensors = {f"{part}.{k}": v for part in ("model", "parameters") for k, v in nested[part].items()}
    for key, state in nested["optimizer"]["state"].items():
        tensors |= {f"optimizer.state.{key}.{k}": v for k, v in state.items() if torch.is_tensor(v)}
    write_tensors("nested", nested, tensors | {"list.0": torch.ones(2), "list.2.x": torch.zeros(1)})

    with zipfile.ZipFile(GOLDEN / "views.pt") as stored, \
            zipfile.ZipFile(GOLDEN / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for info in stored.infolist():
            packed.writestr(zipfile.ZipInfo(info.filename), stored.read(info), zipfile.ZIP_DEFLATED)


class Tagger(nn.Module):
    """Embedding, recurrent layers, and a linear layer at each step."""

    def __init__(self, cell, tokens, outputs, **options):
        super().__init__()
        self.encoder = nn.Embedding(tokens, 4)
        self.rnn = cell(4, 5, **options)
        self.decoder = nn.Linear(5 * (2 if options.get("bidirectional") else 1), outputs)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


class Classifier(nn.Module):
    """The last step of recurrent layers, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 6, num_layers=2, nonlinearity="relu", bias=False)
        self.fc1 = nn.Linear(6, 7)
        self.fc2 = nn.Linear(7, 2, bias=False)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(self.rnn(x)[0][-1])))


class TwoStacks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(2, 3)
        self.first = nn.LSTM(3, 4, proj_size=2)
        self.second = nn.GRU(2, 5)

    def forward(self, x):
        return self.second(self.first(torch.tanh(self.inputs(x)))[0])[0]


MODELS = {
    "char_lm": (lambda: Tagger(nn.LSTM, 11, 11, num_layers=2), "ids", "pt"),
    "tagger": (lambda: Tagger(nn.GRU, 9, 3, bidirectional=True, batch_first=True), "ids_batch_first", "safetensors"),
    "classifier": (Classifier, "x3", "pt"),
    "two_stacks": (TwoStacks, "x2", "pt"),
}
INPUTS = {
    "ids": lambda: torch.randint(0, 9, (6, 2)),
    "ids_batch_first": lambda: torch.randint(0, 9, (2, 6)),
    "x3": lambda: torch.randn(6, 2, 3),
    "x2": lambda: torch.randn(6, 2, 2),
}


def write_models():
    for name, (make, inputs, form) in MODELS.items():
        torch.manual_seed(1)
        model, x = make().eval(), INPUTS[inputs]()
        with torch.no_grad():
            y = model(x)
        save_file({"input": x, "output": y.contiguous()}, GOLDEN / f"{name}.sample.safetensors")
        if form == "pt":
            torch.save(model.state_dict(), GOLDEN / f"{name}.pt")
        else:
            save_file(model.state_dict(), GOLDEN / f"{name}.safetensors")
    torch.manual_seed(1)
    stack = nn.LSTM(3, 4, bidirectional=True)
    torch.save({"epoch": 2, "model": nn.ModuleDict({"module": stack}).state_dict(),
                "optimizer": {"step": torch.tensor(5)}}, GOLDEN / "stack.pt")


# Hostile files, and small valid ones for the fuzzer, which changes entries without a checksum and keeps them valid.
def archive(pickled, storages=None, folder="a", byteorder=b"little", method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        packed.writestr(f"{folder}/data.pkl", pickled)
        packed.writestr(f"{folder}/byteorder", byteorder)
        for key, data in (storages or {}).items():
            packed.writestr(f"{folder}/data/{key}", data)
    data = bytearray(out.getvalue())
    for signature, at in ((b"PK\1\2", 16), (b"PK\3\4", 14)):  # checksums become 0: not checked
        begin = data.find(signature)
        while begin >= 0:
            data[begin + at:begin + at + 4] = bytes(4)
            begin = data.find(signature, begin + 4)
    return bytes(data)


def integer(n):
    return b"J" + n.to_bytes(4, "little", signed=True)


def text(s):
    return b"X" + len(s).to_bytes(4, "little") + s.encode()


def integers(*numbers):
    return b"(" + b"".join(map(integer, numbers)) + b"t"


def tensor(sizes, strides, count=6, offset=0, kind="FloatStorage", key="0"):
    storage = b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu") + integer(count)
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + integer(offset) + integers(*sizes) +
            integers(*strides) + b"\x89ccollections\nOrderedDict\n)RtR")


def state(**tensors):
    items = b"".join(text(name) + value for name, value in tensors.items())
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + items + b"u."


SIX = bytes(range(24))


class Evil:
    def __reduce__(self):
        return os.system, ("touch unroll-was-here",)


def write_corpus():
    plain = state(w=tensor((2, 3), (3, 1)))
    out = io.BytesIO()
    torch.save({"w": torch.ones(2)}, out, _use_new_zipfile_serialization=False)
    module = io.BytesIO()
    torch.save(nn.Linear(1, 1), module)
    nested = b"\x80\x02}q\0" + b"".join(b"(X\1\0\0\0ah\0u" for _ in range(3)) + b"."
    laughs = b"\x80\x02]q\1" + b"".join(b"](" + b"h%c" % i * 8 + b"eq%c" % (i + 1) for i in range(1, 30))
    files = {
        "ok_plain": archive(plain, {"0": SIX}),
        "ok_deflated": archive(plain, {"0": SIX}, method=zipfile.ZIP_DEFLATED),
        "ok_transposed": archive(state(w=tensor((3, 2), (1, 3)), v=tensor((2,), (3,), offset=1)), {"0": SIX}),
        "ok_halves": archive(state(h=tensor((12,), (1,), 12, kind="HalfStorage"),
                                   b=tensor((12,), (1,), 12, kind="BFloat16Storage")), {"0": SIX}),
        "ok_integers": archive(state(i=tensor((3,), (1,), 6, kind="IntStorage"),
                                     s=tensor((4, 2), (2, 1), 12, kind="ShortStorage")), {"0": SIX}),
        "ok_nested": archive(b"\x80\x02}q\0(" + text("model") + b"}" + text("w") + tensor((6,), (1,)) + b"s" +
                             text("steps") + b"](K\1M\2\1\x8a\1\xffG" + bytes(8) + b"N\x88eu.", {"0": SIX}),
        "ok_pickle_only": b"\0" + plain,
        "bad_global": archive(pickle.dumps({"w": Evil()}, protocol=2)),
        "bad_global_in_argument": archive(state(w=tensor((2,), (1,)), v=pickle.dumps(Evil(), protocol=2)[2:-1]),
                                          {"0": SIX}),
        "bad_module": archive(zipfile.ZipFile(module).read("archive/data.pkl")),
        "bad_old_format": out.getvalue(),
        "bad_big_endian": archive(plain, {"0": SIX}, byteorder=b"big"),
        "bad_expanded": archive(state(w=tensor((1 << 30,), (0,))), {"0": SIX}),
        "bad_overlap": archive(state(w=tensor((3, 3), (1, 1))), {"0": SIX}),
        "bad_beyond": archive(state(w=tensor((2, 3), (3, 1), offset=1)), {"0": SIX}),
        "bad_negative": archive(state(w=tensor((2,), (-1,), offset=3)), {"0": SIX}),
        "bad_size": archive(state(w=tensor((2, 3), (3, 1), count=7)), {"0": SIX}),
        "bad_missing_storage": archive(plain),
        "bad_truth": archive(state(w=tensor((24,), (1,), 24, kind="BoolStorage")), {"0": SIX}),
        "bad_long": archive(state(w=tensor((3,), (1,), 3, kind="LongStorage")), {"0": SIX}),
        "bad_cycle": archive(nested),
        "bad_laughs": archive(laughs + b"."),
        "bad_opcode": archive(b"\x80\x02\x93."),
        "bad_protocol": archive(b"\x80\x05."),
        "bad_empty_stack": archive(b"\x80\x02R."),
        "bad_one_tensor": archive(b"\x80\x02" + tensor((2,), (1,)) + b".", {"0": SIX}),
        "bad_twice": archive(b"\x80\x02}(" + (text("a.b") + tensor((2,), (1,))) + text("a") + b"}(" + text("b") +
                             tensor((2,), (1,)) + b"uu.", {"0": SIX}),
        "bad_cut": archive(plain, {"0": SIX})[:-30],
        "bad_no_pickle": archive(plain, folder="a/b"),
        "bad_sharing": archive(state(**{f"w{i}": tensor((6,), (1,)) for i in range(20)}), {"0": SIX}),
    }
    for name, data in files.items():
        (CORPUS / name).write_bytes(data)


if __name__ == "__main__":
    torch.manual_seed(1)
    for folder in (GOLDEN, CORPUS):
        folder.mkdir(parents=True, exist_ok=True)
    write_reader_files()
    write_models()
    write_corpus()
    sizes = [f.stat().st_size for f in GOLDEN.iterdir()]
    print(f"{len(sizes)} golden files, {sum(sizes)} bytes")
