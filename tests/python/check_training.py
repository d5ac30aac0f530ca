#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training of networks of layer functions: equal to PyTorch where it is installed. PYTHONPATH has the package."""
import gc
import pathlib
import tempfile
import warnings
import weakref

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

try:
    import torch
except ImportError:
    torch = None

RNG = np.random.default_rng(0)
# Relative L2 difference of parameters after 20 updates of SGD: sums in another order, 2^-24 each, some hundred of them.
TOLERANCE = 1e-5


def equal(a, b):
    return a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


def adding_problem(n):
    """Sequences [T, 2] of a value and a mark; the target is the sum of the two marked values."""
    sequences, targets = [], []
    for _ in range(n):
        steps = RNG.integers(6, 13)
        x = np.zeros((steps, 2))
        x[:, 0] = RNG.random(steps)
        marked = [RNG.integers(0, 3), RNG.integers(3, 6)]
        x[marked, 1] = 1
        sequences.append(x)
        targets.append([x[marked, 0].sum()])
    return sequences, np.array(targets)


def network(x, x_lengths):
    _, (h,) = layers.gru(x, 16, lengths=x_lengths, name="gru")
    return layers.linear(h[-1], 1, name="head")


def squared(y, target):
    return layers.mean(layers.mse(y, target))


def learns():
    sequences, targets = adding_problem(600)

    def loss(y, target):
        return squared(y, target), {"mae": layers.mae(y, target)}

    reports = []
    run = layers.train(network, {"x": sequences}, {"target": targets}, loss, batch=50,
                       settings={"train.lr": 0.01, "train.epochs": 20}, on_report=reports.append)
    check(run.best_validation_loss < 0.05, f"a GRU learns the adding problem: loss {run.best_validation_loss:.3f}, and "
          f"{np.var(targets):.3f} for the mean")
    check(run.updates == 20 * 11 and reports[-1]["update"] == run.updates, "epochs are those of 540 examples")
    check([repr(s) for s in run.model.inputs] == ["x f32[T,B,2]", "x_lengths i32[B]"], "the model has free axes")
    x = sequences[0].astype(np.float32)[:, None]
    found = run.model.run({"x": x, "x_lengths": np.array([len(x)], np.int32)})["y"]
    check(abs(found[0, 0] - targets[0, 0]) < 0.5, "the model of a run predicts")

    whole = (sequences[:8], targets[:8])
    run = layers.train(network, {"x": sequences[8:]}, {"target": targets[8:]}, loss,
                       validation=({"x": whole[0]}, {"target": whole[1]}), settings={"train.max_updates": 5})
    steps = max(len(s) for s in whole[0])
    padded = np.zeros((steps, 8, 2), np.float32)
    for k, s in enumerate(whole[0]):
        padded[:len(s), k] = s
    y = run.model.run({"x": padded, "x_lengths": np.array([len(s) for s in whole[0]], np.int32)})["y"]
    mae = np.abs(y - whole[1]).mean()
    check(abs(run.validation_metrics["mae"] - mae) < 1e-5, "metrics are means over the examples of the validation set")


def labels_of_steps():
    """Two inputs of equal lengths, labels for each step, and a masked loss."""
    ids = [RNG.integers(0, 7, n).tolist() for n in RNG.integers(1, 9, 200)]
    marks = [RNG.random((len(s), 1)) for s in ids]
    labels = [[(k + int(m[0] > 0.5)) % 3 for k, m in zip(s, mark)] for s, mark in zip(ids, marks)]

    def tagger(ids, ids_lengths, marks, marks_lengths):
        x = layers.concat([layers.embedding(ids, 7, 8, name="embedding"), marks])
        y, _ = layers.lstm(x, 16, lengths=ids_lengths, name="lstm")
        return {"logits": layers.linear(layers.dropout(y, 0.1), 3, name="head")}

    def loss(out, labels, labels_lengths):
        mask = layers.sequence_mask(labels_lengths, labels.shape[0])
        losses = layers.softmax_cross_entropy(out["logits"], labels)
        right = layers.equal(layers.argmax(out["logits"]), labels)
        return layers.masked_mean(losses, mask), {"accuracy": (right & mask, mask)}

    run = layers.train(tagger, {"ids": ids, "marks": marks}, {"labels": labels}, loss, pad_to_multiple=4,
                       settings={"train.lr": 0.02, "train.max_updates": 300, "train.validate_every": 100})
    check(run.validation_metrics["accuracy"] > 0.9, f"a tagger learns: {run.validation_metrics}")
    check([repr(s) for s in run.model.inputs][2] == "marks f32[T,B,1]", "sequences of equal lengths share an axis")


def runs_and_folders():
    sequences, targets = adding_problem(100)

    def run_of(**options):
        return layers.train(network, {"x": sequences}, {"target": targets}, squared, **options)

    settings = {"train.max_updates": 30, "train.checkpoint_every": 10, "train.seed": 3}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        whole = run_of(settings=settings).model.state_dict()
        check(equal(whole, run_of(settings=settings).model.state_dict()), "a run is repeatable, bit for bit")
        run = run_of(settings=settings, out=out, on_report=lambda r: r["update"] < 10)
        check(run.interrupted and run.updates == 10, "a callback ends a run")
        refused(unroll.UsageError, "is not empty", run_of, settings=settings, out=out)
        last = []
        run = run_of(settings=settings, out=out, resume=True, on_report=lambda r: last.append(r["update"]))
        checkpoint = layers.model(network, {"x": ("T", "B", 2), "x_lengths": ("int32", "B")},
                                  parameters=out / "last.safetensors")
        check(last[-1] == 30 and equal(whole, checkpoint.state_dict()), "a resumed run has the bits of a whole one")
        best = layers.model(network, {"x": ("T", "B", 2), "x_lengths": ("int32", "B")},
                            parameters=out / "best.safetensors")
        check(equal(best.state_dict(), run.model.state_dict()), "the model of a run with a folder is the best one")
        one = np.array(sequences[0], np.float32)[:, None]
        wanted = run.model.run({"x": one, "x_lengths": np.array([len(one)], np.int32)})
        found = unroll.load(out).run({"x": one})
        check(all(np.allclose(found[name], value, atol=1e-6) for name, value in wanted.items()),
              "the folder of a run is a model without its function")
        again = run_of(settings={"train.max_updates": 1, "train.lr": 0.0}, parameters=out / "best.safetensors")
        check(equal(best.state_dict(), again.model.state_dict()), "a run starts from given parameters")


def mistakes():
    sequences, targets = adding_problem(20)

    def fit(net=network, x=sequences, target=targets, loss=squared, **options):
        options = {"settings": {"train.max_updates": 1}, **options}
        return layers.train(net, {"x": x}, {"target": target}, loss, **options)

    fit()
    refused(TypeError, "x_lengths", fit, net=lambda x: x)
    refused(unroll.UsageError, "takes 'goal'", fit, loss=lambda y, goal: y)
    refused(unroll.ShapeError, "must return a scalar, got f32[", fit, loss=lambda y, target: layers.mse(y, target))
    refused(unroll.DTypeError, "the loss", fit, loss=lambda y, target: 3.0)
    refused(unroll.UsageError, "a dict of metrics", fit, loss=lambda y, target: (squared(y, target), 1))
    refused(unroll.DTypeError, "metric 'a'", fit, loss=lambda y, target: (squared(y, target), {"a": 1}))
    refused(ZeroDivisionError, "", fit, loss=lambda y, target: 1 // 0)
    refused(unroll.UsageError, "does not read this key", fit, settings={"train.batch": 3})
    refused(unroll.UsageError, "train.lr", fit, settings={"train.lrr": 3})
    refused(unroll.ShapeError, "'target' has 7", fit, target=targets[:7])
    refused(unroll.DTypeError, "expected numbers", fit, target=["a"] * 20)
    refused(unroll.DTypeError, "fit int32", fit, target=np.full((20, 1), 2**40))
    refused(unroll.UsageError, "batch", fit, batch=0)
    refused(unroll.UsageError, "same name", layers.train, network, {"x": sequences}, {"x": targets}, squared)
    refused(unroll.UsageError, "validation must be a share", fit, validation=2.0)
    refused(unroll.ShapeError, "sequence 1 of field 'x'", fit, x=[s[:, k > 0:] for k, s in enumerate(sequences)])
    refused(unroll.NumericError, "'target' is NaN", fit, target=targets * np.nan, settings={"train.max_updates": 9})
    refused(unroll.UsageError, "[x] there are no examples", fit, x=[], target=[])


def own_loops():
    def batch_of(update):
        steps = 5 + update % 3
        x = np.sin(0.3 * np.arange(steps + 1)[:, None, None] + np.arange(4)[None, :, None] + update)
        return {"x": x[:-1]}, {"target": x[1:]}

    def predictor(x):
        return layers.linear(layers.dropout(layers.lstm(x, 12, name="lstm")[0], 0.1), 1, name="head")

    def loss(y, target):
        return squared(y, target), {"mae": layers.mae(y, target)}

    def trainer_of(**options):
        return layers.Trainer(predictor, *batch_of(0), loss, settings={"train.lr": 0.01}, **options)

    trainer = trainer_of()
    losses = [trainer.update(*batch_of(k))["loss"] for k in range(200)]
    found = trainer.evaluate(*batch_of(7))
    inputs, targets = batch_of(7)
    y = trainer.predict(inputs)["y"]
    check(trainer.updates == 200 and found["loss"] < 0.05 < losses[0], f"a loop of one's own learns: {found}")
    check(abs(np.square(y - targets["target"]).mean() - found["loss"]) < 1e-6
          and abs(np.abs(y - targets["target"]).mean() - found["metrics"]["mae"]) < 1e-6,
          "evaluate and predict agree, and have no dropout")
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(pathlib.Path(folder) / "state.safetensors")
        other = trainer_of()
        other.load(pathlib.Path(folder) / "state.safetensors")
    for k in range(200, 210):
        trainer.update(*batch_of(k)), other.update(*batch_of(k))
    check(equal(trainer.state_dict(), other.state_dict()), "a saved loop continues bit for bit")
    start = trainer.state_dict()
    other = trainer_of(parameters=start)
    check(equal(start, other.state_dict()) and other.updates == 0, "a loop starts from given parameters")
    report = other.update(*batch_of(0), lr=0.0)
    check(equal(start, other.state_dict()) and report["lr"] == 0, "lr replaces the rate of the schedule")
    inputs, targets = batch_of(0)
    skipped = other.update(inputs, {"target": targets["target"] * np.nan})
    check(skipped["skipped"] and equal(start, other.state_dict()), "an update that is not finite changes nothing")
    refused(unroll.UsageError, "expected the arrays target, x; got x", other.update, inputs, {})
    refused(unroll.UsageError, "expected the arrays x; got none", other.predict, {})
    refused(unroll.ShapeError, "", other.update, inputs, {"target": targets["target"][:2]})
    refused(unroll.InputFileError, "absent", other.load, "absent.safetensors")


def accumulated():
    """Gradient accumulation: lengths 1, 50 and 7 in one batch, or one by one."""
    def steps_of(lengths):
        x, target = np.zeros((max(lengths), len(lengths), 1)), np.zeros((max(lengths), len(lengths), 1))
        for b, n in enumerate(lengths):
            x[:n, b, 0], target[:n, b, 0] = np.sin(0.3 * np.arange(n)), 9 if n == 1 else 2
        return {"x": x, "x_lengths": np.array(lengths)}, {"target": target}

    def predictor(x, x_lengths):
        return layers.linear(layers.gru(x, 3, lengths=x_lengths, name="gru")[0], 1, name="head")

    def mask_of(y, x_lengths):
        return layers.reshape(layers.sequence_mask(x_lengths, y.shape[0]), y.shape)

    def masked(y, target, x_lengths):
        return layers.masked_mean(layers.mse(y, target), mask_of(y, x_lengths)), {"mae": layers.mae(y, target)}

    def stated(y, target, x_lengths):
        mask = mask_of(y, x_lengths)
        real = layers.where(mask, layers.mse(y, target), y * 0.0)
        return layers.sum(real), layers.sum(layers.where(mask, y * 0.0 + 1.0, y * 0.0))

    def both(y, target, x_lengths):
        return stated(y, target, x_lengths), {"mae": layers.mae(y, target)}

    def rows(y, target, x_lengths):
        return layers.mean(layers.square(y[0] - target[0]))

    def moved(loss, groups):
        trainer = layers.Trainer(predictor, *steps_of([50]), loss, threads=1, settings={
            "train.optimizer": "sgd", "train.lr": 1, "train.clip_norm": 0, "train.accumulate": len(groups)})
        batches = [steps_of(lengths) for lengths in groups]
        one = batches[0] if len(batches) == 1 else ([b[0] for b in batches], [b[1] for b in batches])
        return trainer.update(*one)["loss"], trainer.state_dict()

    for loss in (masked, stated, both, rows):
        wanted_loss, wanted = moved(loss, [[1, 50, 7]])
        for groups in ([[1], [50], [7]], [[1, 50], [7]]):
            found_loss, found = moved(loss, groups)
            worst = max(np.max(np.abs(found[k] - wanted[k]) / np.maximum(1, np.abs(wanted[k]))) for k in wanted)
            check(worst < 1e-6 and abs(found_loss - wanted_loss) <= 1e-6 * abs(wanted_loss),
                  f"{loss.__name__}: {groups} move the parameters as one batch does: {worst:.2g}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settings in ({"train.accumulate": 2}, {}):
            trainer = layers.Trainer(predictor, *steps_of([50]), masked, settings=settings)
            lists = [[part] * 3 for part in steps_of([50])]
            refused(unroll.UsageError, "1 to", trainer.update, *lists)
        refused(unroll.UsageError, "as many targets as inputs", trainer.update, [steps_of([5])[0]], [])
    accumulating = layers.Trainer(predictor, *steps_of([50]), masked, settings={"train.accumulate": 2})
    refused(unroll.UsageError, "train.accumulate is 2, and update got one batch", accumulating.update, *steps_of([50]))
    check(accumulating.update(*[[part] for part in steps_of([50])])["update"] == 1, "the last update may have fewer")
    for kind, wrong in ((unroll.UsageError, lambda y: (y, 1, 2)), (unroll.ShapeError, lambda y: (layers.sum(y), y))):
        refused(kind, "loss", layers.Trainer, predictor, *steps_of([50]), lambda y, target, of=wrong: of(y))


def without_effect():
    """Options without effect are a warning."""
    def network(x):
        return layers.linear(layers.lstm(x, 3, dropout=0.5, name="lstm")[0], 1, name="head")

    x = np.zeros((4, 2, 1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        layers.Trainer(network, {"x": x}, {"target": x}, squared, settings={"train.momentum": 0.9})
    texts = [str(w.message) for w in said]
    check(any("dropout has no effect with layers = 1" in t for t in texts)
          and "train.momentum = 0.9 has no effect: it needs train.optimizer = sgd|rmsprop" in texts,
          f"options without effect are named: {texts}")


def lifetimes():
    sequences, targets = adding_problem(20)

    def cycle():
        holder = []

        def own(x, x_lengths):
            return network(x, x_lengths) + 0.0 * len(holder)

        run = layers.train(own, {"x": sequences}, {"target": targets}, squared, settings={"train.max_updates": 1})
        x = np.zeros((3, 2, 2))
        trainer = layers.Trainer(own, {"x": x, "x_lengths": np.array([3, 2])}, {"target": np.zeros((2, 1))}, squared)
        holder += [run, run.model, trainer]
        return weakref.ref(own)

    own = cycle()
    gc.collect()
    check(own() is None, "a run and the function that refers to it are collected")


def equal_to_torch():
    """20 updates over all examples at once, so that their order is of no importance."""
    nn = torch.nn
    torch.manual_seed(1)
    x, target = RNG.standard_normal((40, 5, 3)).astype(np.float32), RNG.standard_normal((40, 2)).astype(np.float32)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.lstm(x)[0].mean(0))

    def ours(x, x_lengths):
        y, _ = layers.lstm(x, 8, lengths=x_lengths, name="lstm")
        return layers.linear(layers.mean(y, 0), 2, name="head")

    for name, make in {"sgd": lambda p: torch.optim.SGD(p, 0.1), "adam": lambda p: torch.optim.Adam(p, 0.01)}.items():
        module = Net()
        start = {k: v.numpy().copy() for k, v in module.state_dict().items()}
        run = layers.train(ours, {"x": list(x)}, {"target": target}, squared, batch=40, validation=0,
                           parameters=start, settings={"train.optimizer": name, "train.lr": 0.1 if name == "sgd" else
                                                       0.01, "train.max_updates": 20, "train.clip_norm": 0})
        optimizer = make(module.parameters())
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.mse_loss(module(torch.from_numpy(x).transpose(0, 1)), torch.from_numpy(target)).backward()
            optimizer.step()
        found, wanted = run.model.state_dict(), {k: v.numpy() for k, v in module.state_dict().items()}
        worst = max(np.linalg.norm(found[k] - wanted[k]) / np.linalg.norm(wanted[k]) for k in wanted)
        check(found.keys() == wanted.keys() and worst < TOLERANCE, f"20 updates of {name} are PyTorch's: {worst:.1e}")


def fine_tuning():
    """A trained language model as a layer: equal at first, then trained further."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text("abcabd" * 200)
        unroll.train({"task": {"kind": "language-model"}, "data": {"path": str(folder / "text.txt"), "steps": 8},
                      "model": {"hidden": 6, "embedding": 4}, "train": {"batch": 2, "max_updates": 5}}, folder / "run")
        trained = unroll.load(folder / "run")

        def tagger(ids):
            return layers.linear(layers.imported(ids, str(folder / "run"), name="base"), 2, name="head")

        inputs = {"ids": ("int32", "T", "B")}
        ids = RNG.integers(0, 4, (7, 3)).astype(np.int32)
        base = layers.model(lambda ids: layers.imported(ids, str(folder / "run")), inputs)
        check((base.run({"ids": ids})["y"] == trained.run({"ids": ids})["logits"]).all(),
              "an imported model gives the outputs of the trained one")
        check(set(base.state_dict()) == set(trained.state_dict()), "its parameters have the names of the trained one")
        check({name for name in layers.model(tagger, inputs).state_dict() if name.startswith("base.")} ==
              {"base." + name for name in trained.state_dict()}, "with a name, they stand behind it")
        refused(unroll.ShapeError, "x must be i32[T,B]; got f32[7,3,2]", layers.model,
                lambda x: layers.imported(x, str(folder / "run")), {"x": (7, 3, 2)})
        sequences = [row.astype(np.int32) for row in RNG.integers(0, 4, (12, 6))]
        run = layers.train(lambda ids, ids_lengths: layers.imported(ids, str(folder / "run")), {"ids": sequences},
                           {"target": np.ones(12)},
                           lambda y, target: layers.mean(layers.mse(layers.mean(layers.mean(y, 0), -1), target)),
                           batch=4, validation=0, settings={"train.max_updates": 3})
        tuned = run.model.state_dict()
        check(any((tuned[name] != value).any() for name, value in trained.state_dict().items()),
              "training changes them")


if __name__ == "__main__":
    fine_tuning()
    learns()
    labels_of_steps()
    runs_and_folders()
    own_loops()
    accumulated()
    without_effect()
    mistakes()
    lifetimes()
    if torch:
        equal_to_torch()
    else:
        print("skipped: PyTorch is not installed")
    finish()
