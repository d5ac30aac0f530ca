#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forks, threads and Ctrl-C. Each case has a time limit: without it a fault here hangs. PYTHONPATH has the package."""
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = 60  # seconds; a case takes one or two
CONFIG = {"task": {"kind": "forecast"},
          "data": {"path": str(ROOT / "docs/examples/data/co2.csv"), "window": 52, "horizon": 1,
                   "difference": "none", "scale": "series"},
          "model": {"autoregression": False, "cell": "lstm", "hidden": 64}, "train": {"max_updates": 2, "batch": 4}}
HISTORIES = [330 + np.sin(np.arange(200) / 9 + k).reshape(200, 1) for k in range(64)]
EXAMPLES = np.random.default_rng(0).random((200, 8)).astype(np.float32)


def in_child(work):
    """What work() returns, or raises, in a fork of this process; "hangs" after the limit."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)  # ends the child if it hangs
        try:
            text = repr(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(pid, 0)
    return text or "hangs"


def equal(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def recurrent(x):
    return layers.linear(layers.lstm(x, 64, name="lstm")[0], 1, name="head")


def backends():
    yield "cpu"
    try:
        layers.model(recurrent, {"x": ("T", "B", 8)}, backend="onednn")
        yield "onednn"
    except unroll.DeviceError as error:
        print("skipped:", error)


def children_compute_what_parents_do():
    for backend in backends():
        run = {"run": {"backend": backend, "threads": 4}}
        model = unroll.train({**CONFIG, **run}).model
        wanted = model.predict(HISTORIES)
        check(in_child(lambda: equal(model.predict(HISTORIES), wanted)) == "True", f"{backend}: a child predicts")
        check(in_child(lambda: in_child(lambda: equal(model.predict(HISTORIES), wanted))) == repr("True"),
              f"{backend}: so does a child of a child")
        check(equal(model.predict(HISTORIES), wanted), f"{backend}: so does the parent afterwards")
        network = layers.model(recurrent, {"x": ("T", "B", 8)}, backend=backend, threads=4)
        x = {"x": np.random.default_rng(1).random((50, 64, 8)).astype(np.float32)}
        y = network.run(x)["y"]
        check(in_child(lambda: np.array_equal(network.run(x)["y"], y)) == "True", f"{backend}: a child runs a network")
        wanted = unroll.train({**CONFIG, **run}).best_validation_loss
        found = in_child(lambda: unroll.train({**CONFIG, **run}).best_validation_loss)
        check(found == repr(wanted), f"{backend}: a child trains after its parent has trained: {found}")
        trainer = layers.Trainer(recurrent, x, {"target": y}, squared, backend=backend, threads=4)
        trainer.update(x, {"target": y})
        wanted = repr(trainer.evaluate(x, {"target": y})["loss"])
        found = in_child(lambda: trainer.evaluate(x, {"target": y})["loss"])
        check(found == wanted, f"{backend}: a child goes on with a trainer: {found}")


def squared(y, target):
    return layers.mean(layers.mse(y, target))


def predict_first(k):
    return MODEL.predict(HISTORIES)[k]


def a_pool_of_two_predicts():
    global MODEL
    MODEL = unroll.train({**CONFIG, "run": {"threads": 4}}).model
    wanted = MODEL.predict(HISTORIES)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(predict_first, range(8)).get(LIMIT)
    check(equal(found, wanted[:8]), "a pool of 2 forked processes predicts")


def a_fork_during_a_call_of_another_thread():
    model = unroll.train({**CONFIG, "run": {"threads": 4}}).model
    wanted, stop = model.predict(HISTORIES), threading.Event()

    def predict():
        while not stop.is_set():
            model.predict(HISTORIES)
    thread = threading.Thread(target=predict)
    thread.start()
    found = []
    for _ in range(10):
        time.sleep(0.03)
        found.append(in_child(lambda: equal(model.predict(HISTORIES), wanted)))
    stop.set()
    thread.join()
    check(set(found) == {"True"}, f"children predict while another thread of the parent does: {set(found)}")
    stream = model.stream(lanes=4096)
    x, stop, found = np.full((4096, 1), 330, np.float32), threading.Event(), set()

    def step():
        while not stop.is_set():
            stream.step(x)
    thread = threading.Thread(target=step)
    thread.start()
    for _ in range(10):
        time.sleep(0.01)
        found.add(in_child(lambda: stream.step(x).shape))
    stop.set()
    thread.join()
    known = [text for text in found if text == "(4096, 1)" or "was using it when this process was forked" in text]
    check(len(known) == len(found), f"a stream that was in use is refused, another one goes on: {found}")


def what_remains_of_a_fork_in_a_report(leave, out):
    """What training returns, or raises, in the child and in the parent. The child calls leave() in on_report."""
    read, write = os.pipe()
    pids = []

    def fork_once(_):
        if not pids:
            pids.append(os.fork())
            if pids[0] == 0:
                signal.alarm(LIMIT)
                leave()
    try:
        run = unroll.train(CONFIG, out, settings={"train.max_updates": 6, "train.log_every": 2}, on_report=fork_once)
        text = f"{run.updates} updates"
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    if pids[0] == 0:
        os.write(write, text.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        of_child = answer.read().decode() or "hangs"
    os.waitpid(pids[0], 0)
    return of_child, text


def a_fork_in_a_report_leaves_the_run_to_the_parent(folder):
    leaves = {"returns": (lambda: None, "UsageError: [trainer] the process was forked by a callback"),
              "exits": (lambda: sys.exit(3), "SystemExit: 3")}
    for name, (leave, wanted) in leaves.items():
        for out in (None, folder / f"child-{name}"):
            of_child, of_parent = what_remains_of_a_fork_in_a_report(leave, out)
            check(of_child.startswith(wanted), f"a child that {name} in on_report: {of_child}")
            check(of_parent == "6 updates", f"the parent of it trains on: {of_parent}")
            if out:
                steps = (out / "metrics.jsonl").read_text().count('"loss"')
                check((out / "last.safetensors").exists() and steps >= 3, f"its folder is whole: {steps} reports")


class Keyboard:
    """Presses Ctrl-C once, half a second after start()."""

    def __init__(self):
        self.timer = threading.Timer(0.5, self.press)
        self.started = False

    def start(self, *_):
        if not self.started:
            self.timer.start()
        self.started = True

    def press(self):
        self.pressed = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def interrupts(self, work):
        """Seconds from Ctrl-C to the KeyboardInterrupt of work(), and the exception."""
        try:
            work()
        except KeyboardInterrupt as error:
            return time.monotonic() - self.pressed, error
        finally:
            self.timer.cancel()
        return float("inf"), None


def interrupted(work):
    keyboard = Keyboard()
    keyboard.start()
    return keyboard.interrupts(work)


def perceptron(x):
    return layers.linear(layers.tanh(layers.linear(x, 16, name="a")), 1, name="b")


def long_training(**options):
    return layers.train(perceptron, {"x": EXAMPLES}, {"target": EXAMPLES[:, :1]}, squared,
                        settings={"train.epochs": 10_000_000, "train.log_every": 10}, **options)


def ctrl_c_keeps_what_was_trained(folder):
    settings = {"train.max_updates": 10_000_000, "train.log_every": 1}
    runs = {"layers.train": lambda out, seen: long_training(out=out, on_report=seen),
            "train": lambda out, seen: unroll.train(CONFIG, out, settings=settings, on_report=seen)}
    for name, train in runs.items():
        for out in (None, folder / name):
            keyboard = Keyboard()
            seconds, error = keyboard.interrupts(lambda: train(out, keyboard.start))
            run = getattr(error, "run", None)
            where = "without a folder" if out is None else "with a folder"
            check(seconds < 20 and run is not None and run.interrupted and run.updates > 0,
                  f"Ctrl-C ends {name} {where} after {seconds:.1f} s and leaves the run in the exception")
            if run is None:
                continue
            check(all(np.isfinite(v).all() for v in run.model.state_dict().values()), "its model has what was trained")
            check(out is None or (out / "last.safetensors").exists(), "the folder is saved")
            note = "".join(getattr(error, "__notes__", ["sys.last_value.run"]))
            check("sys.last_value.run" in note, f"the exception says where: {note}")
    seconds, error = interrupted(long_training)
    check(seconds < 20, f"Ctrl-C ends a run that does not report after {seconds:.1f} s")


def ctrl_c_ends_other_calls():
    model = unroll.train(CONFIG).model
    many = HISTORIES * 2000
    seconds, error = interrupted(lambda: [model.predict(many, steps=1000) for _ in range(100)])
    check(seconds < 5, f"Ctrl-C ends predict after {seconds:.1f} s")
    check(np.isfinite(model.predict(HISTORIES)[0]).all(), "the model predicts afterwards")
    with tempfile.TemporaryDirectory() as name:
        text = pathlib.Path(name) / "text.txt"
        text.write_text("a sea of words " * 2000)
        language = unroll.train({"task": {"kind": "language-model"}, "data": {"path": str(text)},
                                 "model": {"cell": "gru", "hidden": 16}, "train": {"max_updates": 1}}).model
    seconds, error = interrupted(lambda: language.generate("a sea", length=1_000_000_000))
    check(seconds < 5, f"Ctrl-C ends generate after {seconds:.1f} s")
    check(len(language.generate("a sea", length=5)) > 0, "the model generates afterwards")


def handlers_of_signals_may_raise_anything():
    class Late(Exception):
        pass

    def raise_late(*_):
        raise Late("too late")
    before = signal.signal(signal.SIGALRM, raise_late)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        refused(Late, "too late", long_training)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        children_compute_what_parents_do()
        a_pool_of_two_predicts()
        a_fork_during_a_call_of_another_thread()
        a_fork_in_a_report_leaves_the_run_to_the_parent(pathlib.Path(work))
        ctrl_c_keeps_what_was_trained(pathlib.Path(work))
        ctrl_c_ends_other_calls()
        handlers_of_signals_may_raise_anything()
    sys.stdout.flush()
    finish()
