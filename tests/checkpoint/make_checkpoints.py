#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/ beside itself and tests/fuzz/corpus/checkpoint with PyTorch: checkpoints, what they contain, and
models with an input and its output. Needs torch and safetensors; the tests need neither. Usage: make_checkpoints.py"""
import argparse
import collections
import io
import os
import pathlib
import pickle
import zipfile

import numpy
import torch
import torch.nn.utils.prune
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

    write_other_forms(dtypes, {"views": views, "model": model})

    with zipfile.ZipFile(GOLDEN / "views.pt") as stored, \
            zipfile.ZipFile(GOLDEN / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for info in stored.infolist():
            packed.writestr(zipfile.ZipInfo(info.filename), stored.read(info), zipfile.ZIP_DEFLATED)


class Whole(nn.Module):
    """A module that is saved as such: attributes of its own, a buffer, a module within, one that is shared."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3)
        self.register_buffer("scale", torch.full((2,), 0.5))
        self.heads = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 1, bias=False)])
        self.settings = {"rate": 0.1, "names": ("a", "b"), "cache": torch.ones(4), "at": {(1, 2): torch.ones(2)}}
        self.again = self.rnn


class Folded(nn.Module):
    """Weight norm, spectral norm and pruning in both forms that PyTorch has."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.utils.parametrizations.weight_norm(nn.LSTM(2, 3), "weight_hh_l0")
        self.old_norm = torch.nn.utils.weight_norm(nn.Linear(4, 3), dim=1)
        self.whole_norm = torch.nn.utils.weight_norm(nn.Linear(2, 2), dim=None)
        self.spectral = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
        self.old_spectral = torch.nn.utils.spectral_norm(nn.ConvTranspose1d(2, 3, 4))
        self.pruned = torch.nn.utils.prune.random_unstructured(nn.Linear(4, 4), "weight", 0.5)


def write_other_forms(dtypes, nested):
    """Before PyTorch 1.6, whole modules, TorchScript, protocol 4, NumPy, and weights that are made from others."""
    old = {**dtypes, **nested["views"]}
    torch.save(old, GOLDEN / "old.pt", _use_new_zipfile_serialization=False)
    save_file({k: as_read(v) for k, v in old.items()}, GOLDEN / "old.safetensors")

    whole = Whole()
    expected = dict(whole.state_dict())
    for name, form in (("whole.pt", True), ("whole_old.pt", False)):
        torch.save(whole, GOLDEN / name, _use_new_zipfile_serialization=form)
    torch.save(whole, GOLDEN / "whole_protocol4.pt", pickle_protocol=4)
    save_file({k: as_read(v) for k, v in expected.items()}, GOLDEN / "whole.safetensors")
    script = torch.jit.script(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))
    torch.jit.save(script, GOLDEN / "script.pt")
    save_file({k: as_read(v) for k, v in script.state_dict().items()}, GOLDEN / "script.safetensors")

    arrays = {k: (v.float() if v.dtype == torch.bfloat16 else v).numpy() for k, v in dtypes.items()}
    arrays["fortran"] = numpy.asfortranarray(numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4))
    arrays["text"] = numpy.array(["a", "bc"])
    arrays["big"] = numpy.arange(3, dtype=">f4")
    arrays["table"] = numpy.zeros(2, dtype=[("a", "<f4"), ("b", "<i4", (2,))])
    numpy.savez(GOLDEN / "arrays.npz", **arrays)
    numpy.savez_compressed(GOLDEN / "packed.npz", **arrays)
    unread = ("text", "big", "table")
    save_file({k: as_read(torch.from_numpy(numpy.ascontiguousarray(v))) for k, v in arrays.items() if k not in unread},
              GOLDEN / "arrays.safetensors")

    folded = Folded().eval()
    torch.save(folded.state_dict(), GOLDEN / "folded.pt")
    plain = {"norm.weight_hh_l0": folded.norm.weight_hh_l0, "old_norm.weight": folded.old_norm.weight,
             "whole_norm.weight": folded.whole_norm.weight, "spectral.weight": folded.spectral.weight,
             "pruned.weight": folded.pruned.weight}
    folded.old_spectral(torch.ones(1, 2, 3))
    plain["old_spectral.weight"] = folded.old_spectral.weight
    plain |= {k: v for k, v in folded.state_dict().items() if "bias" in k or k == "norm.weight_ih_l0"}
    save_file({k: as_read(v) for k, v in plain.items()}, GOLDEN / "folded.safetensors")

    trained = {"epoch": 3, "pytorch-lightning_version": "2.5", "state_dict": nn.ModuleDict(
        {"model": nn.ModuleDict({"module": nn.GRU(2, 3), "head": nn.Linear(3, 2)})}).state_dict(),
        "hyper_parameters": argparse.Namespace(path=pathlib.PurePosixPath("a"), seed=2 ** 70, kinds={1, 2}),
        "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2)}}}],
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best": numpy.float64(0.5)}}}
    torch.save(trained, GOLDEN / "trained.pt")


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
        entries = {f"{folder}/data.pkl": pickled, f"{folder}/byteorder": byteorder}
        entries |= {f"{folder}/data/{key}": data for key, data in (storages or {}).items()}
        for name, data in entries.items():
            packed.writestr(zipfile.ZipInfo(name), data, method)  # the same bytes at any time
    return without_checksums(out.getvalue())


def without_checksums(packed):
    data = bytearray(packed)
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
    def saved(what, save=torch.save, **options):
        out = io.BytesIO()
        save(what, out, **options)
        return out.getvalue()

    old = saved({"w": torch.ones(2), "k": torch.ones(3)[1:]}, _use_new_zipfile_serialization=False)
    numpy_file = saved(None, lambda _, out: numpy.savez(out, a=numpy.ones((2, 3), numpy.float32), t=numpy.array(["x"])))

    def array_file(header):
        text = header.encode() + b"\n"
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr(zipfile.ZipInfo("a.npy"), b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + SIX)
        return without_checksums(out.getvalue())

    def array_header(shape="(2, 3)", descr="'<f4'", order="False"):
        return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)

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
        "ok_global": archive(state(w=tensor((2,), (1,)), v=pickle.dumps(Evil(), protocol=2)[2:-1]), {"0": SIX}),
        "ok_module": saved(nn.Linear(1, 1)),
        "ok_old": old,
        "ok_old_module": saved(nn.GRU(1, 1), _use_new_zipfile_serialization=False),
        "ok_objects": b"\0" + pickle.dumps({"a": argparse.Namespace(b=[1, {2}], c=2 ** 70), "f": b"x", "g": 0.5,
                                            "d": collections.Counter("a"), "e": frozenset([1])}, protocol=4),
        "ok_npz": without_checksums(numpy_file),
        "ok_npy_python2": array_file(array_header(shape="(2L, 3L)")),
        "bad_old_cut": old[:-5],
        "bad_old_size": old.replace(b"K\2", b"K\3"),
        "bad_npy_none": array_file("{"),
        "bad_npy_shape": array_file(array_header(shape="(-2, 3)")),
        "bad_npy_large": array_file(array_header(shape="(2147483647, 2147483647, 2147483647)")),
        "bad_npy_size": array_file(array_header(shape="(2, 4)")),
        "bad_npy_keys": array_file("{'descr': '<f4', 'shape': (6,)}"),
        "bad_npy_twice": array_file("{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}"),
        "bad_npy_key": array_file(array_header().replace("shape", "size")),
        "bad_npy_type": array_file(array_header(descr="[('a', '<f4'")),
        "bad_big_endian": archive(plain, {"0": SIX}, byteorder=b"big"),
        "bad_expanded": archive(state(w=tensor((1 << 30,), (0,))), {"0": SIX}),
        "bad_overlap": archive(state(w=tensor((3, 3), (1, 1))), {"0": SIX}),
        "bad_beyond": archive(state(w=tensor((2, 3), (3, 1), offset=1)), {"0": SIX}),
        "bad_negative": archive(state(w=tensor((2,), (-1,), offset=3)), {"0": SIX}),
        "bad_size": archive(state(w=tensor((2, 3), (3, 1), count=7)), {"0": SIX}),
        "bad_missing_storage": archive(plain),
        "bad_truth": archive(state(w=tensor((24,), (1,), 24, kind="BoolStorage")), {"0": SIX}),
        "bad_long": archive(state(w=tensor((3,), (1,), 3, kind="LongStorage")), {"0": SIX}),
        "ok_cycle": archive(nested),
        "ok_laughs": archive(laughs + b"."),
        "bad_opcode": archive(b"\x80\x02\xff."),
        "bad_protocol": archive(b"\x80\x06."),
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
