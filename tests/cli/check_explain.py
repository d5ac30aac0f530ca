#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`unroll explain`, and `--explain` of other commands. usage: check_explain.py UNROLL SOURCE_ROOT"""
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from command import UNROLL, chosen, ok, refused, run_checks

ROOT = pathlib.Path(sys.argv[2])
QUICK = ["--seconds", 0, "--threads", 1]
SVG = "{http://www.w3.org/2000/svg}"


def config_of(folder, kind, *settings):
    ok("new", kind, folder / kind)
    return folder / kind / "config.toml"


def explained(*arguments):
    return ok("explain", *arguments, *QUICK, "--json").json()


def tables_add_up(folder):
    """every call has a phase and a layer, places are the sums of their calls, and the calls make up the run"""
    found = explained(config_of(folder, "language-model"), "--set", "model.layers=2", "--set", "model.hidden=16")
    update, evaluation = found["plans"]
    assert (update["plan"], evaluation["plan"]) == ("update", "evaluation")
    for plan in found["plans"]:
        assert plan["runs"] >= 3 and 0 < plan["calls_ms"] <= 1.05 * plan["milliseconds"], plan["plan"]
        outer = [c for c in plan["calls"] if not c["inner"]]
        for place in plan["places"]:
            here = [c for c in outer if (c["phase"], c["layer"]) == (place["phase"], place["layer"])]
            assert len(here) == place["calls"]
            assert abs(sum(c["milliseconds"] for c in here) - place["milliseconds"]) < 1e-9
            assert abs(sum(c["flop"] for c in here) - place["flop"]) <= 1e-9 * place["flop"]
        assert abs(sum(p["share"] for p in plan["places"]) - 1) < 1e-9
        assert plan["predicted_ms"] > 0, "no call was predicted"
    layers = {"embedding", "recurrent.l0", "recurrent.l1", "output"}
    for phase in ("forward", "backward", "update"):
        assert layers <= {p["layer"] for p in update["places"] if p["phase"] == phase}, phase
    assert {p["phase"] for p in evaluation["places"]} == {"forward"}
    loops = [c for c in update["calls"] if c["loop"]]
    assert [(c["phase"], c["layer"]) for c in loops] == [
        ("forward", "recurrent.l0"), ("forward", "recurrent.l1"), ("backward", "recurrent.l1"),
        ("backward", "recurrent.l0")]
    edges = {(update["calls"][e["from"]]["step"], update["calls"][e["to"]]["step"]) for e in update["edges"]}
    steps = [c["step"] for c in loops]
    assert {(steps[0], steps[1]), (steps[0], steps[3]), (steps[1], steps[2]), (steps[2], steps[3])} <= edges, edges
    assert [loop["loop"] for loop in update["loops"]] == steps, update["loops"]
    (outside,) = [groups["groups"] for groups in update["product_groups"] if groups["loop"] == ""]
    assert any("matmul" in line and line.endswith("add; bias") for line in outside), outside
    for loop in update["loops"]:
        assert "product" in loop["form"][0] and sum("; barrier" in line for line in loop["form"]) == 1, loop


def work_is_counted(folder):
    """the products of a plan are those of its sizes"""
    (folder / "gru.toml").write_text("[model]\ncell = \"gru\"\ninput = 5\nhidden = 7\n[data]\nsteps = 11\n"
                                     "[train]\nbatch = 3\n")
    (update, _) = explained(folder / "gru.toml")["plans"]
    (x,) = [c for c in update["calls"] if c["phase"] == "forward" and "matmul" in c["step"] and not c["inner"]]
    assert x["flop"] == 2 * 11 * 3 * 5 * 3 * 7 and x["layer"] == "l0", x
    inner = [c for c in update["calls"] if c["phase"] == "forward" and "matmul" in c["step"] and c["inner"]]
    assert sum(c["flop"] for c in inner) == 2 * 11 * 3 * 7 * 3 * 7, inner


def without_a_device(folder):
    """thirteen models on two device profiles: complete plans, without time, and a refusal of what needs the device"""
    settings = ["--set", "model.hidden=24"]
    models = [[config_of(folder, kind), *settings]
              for kind in ("language-model", "forecast", "classify", "label", "translate", "summarize", "document")]
    models += [[folder / "language-model/config.toml", *settings, "--set", f"model.cell=\"{cell}\""]
               for cell in ("rnn", "gru", "lnlstm", "mgu", "peephole_lstm")]
    models.append([ROOT / "docs/examples/cells/slstm.toml", *settings])
    assert len(models) == 13
    for model, backend in chosen(itertools.product(models, ("cuda:sm_90", "vulkan:generic"))):
        found = explained(*model, "--backend", backend)
        assert found["backend"] == backend and found["device"].startswith("profile of "), found["device"]
        for plan in found["plans"]:
            assert plan["runs"] == 0 and plan["milliseconds"] == 0, plan["plan"]
            assert {p["phase"] for p in plan["places"]} <= {"forward", "backward", "update"}
            loops = [c for c in plan["calls"] if c["loop"]]
            assert loops and all("loop of" in c["kernel"] for c in loops), (backend, model)
            kernels = [c["kernel"] for c in plan["calls"] if c["inner"]]
            assert any(kernel.startswith("product, M ") for kernel in kernels), (backend, model)
            assert any("fused kernel of" in c["kernel"] for c in plan["calls"])
            assert sum(c["flop"] for c in plan["calls"] if not c["inner"]) > 0
        assert len(found["plans"]) == 2 and len(found["plans"][0]["calls"]) > len(found["plans"][1]["calls"])
    text = ok("explain", *models[0], "--backend", "cuda:sm_90", "--svg", folder / "profile.svg").out
    for part in ("device memory", "work by phase and layer", "update: calls", "optimizations not applied"):
        assert part in text, part
    assert "ms a run" not in (folder / "profile.svg").read_text()
    refused(5, "explain", *models[0], "--backend", "cuda:sm_91", says=["Did you mean 'cuda:sm_90'?"])
    refused(5, "bench", "--backend", "vulkan:generic", "--seconds", 0, says=["has no device to run on"])


def every_kind(folder):
    """every kind of task, bare stacks and cells of text, on every backend that computes, whatever the precision"""
    for kind in ("language-model", "forecast", "classify", "label", "translate", "summarize", "document"):
        found = explained(config_of(folder, kind), "--set", "model.hidden=8")
        assert [p["plan"] for p in found["plans"]] == ["update", "evaluation"], kind
        assert len({p["layer"] for p in found["plans"][0]["places"]} - {"shared", "loss"}) >= 2, kind
    cell = explained(ROOT / "docs/examples/cells/slstm.toml", "--set", "model.hidden=8")
    assert "recurrent.l0" in {p["layer"] for p in cell["plans"][0]["places"]}
    config = folder / "forecast/config.toml"
    for backend in {b["name"] for b in ok("doctor", "--no-self-test", "--json").json()["backends"]
                    if b["available"]}:
        plans = explained(config, "--backend", backend, "--set", "model.hidden=8")
        assert plans["backend"] == backend and len(plans["plans"][0]["calls"]) > 5, backend
    sums = explained(config, "--set", "train.accumulate=3", "--set", "train.precision=f16")
    assert [p["plan"] for p in sums["plans"]] == [
        "gradient of a batch", "update from the gradients", "sum of gradients", "evaluation"]


def reasons(folder):
    """what passes left is told with the reason, and each note with the layer that it is about"""
    found = explained(config_of(folder, "forecast"), "--set", "model.hidden=8", "--set", "model.layers=2")
    update = found["plans"][0]
    (claims,) = [l for l in update["left"] if l["pass"] == "claim"]
    assert claims["count"] > 5 and "scans are its fast path" in claims["why"], claims
    assert not any("it needs the state" in l["why"] for l in update["left"])
    kept = {n["layer"] for n in update["passes"] if n["pass"] == "split"}
    assert kept == {"recurrent.l0", "recurrent.l1"}, kept
    deferred = [n for n in update["passes"] if n["pass"] == "defer"]
    assert {n["layer"] for n in deferred} == {"recurrent.l0", "recurrent.l1"} and all(n["why"] for n in deferred)


def text(folder):
    """people first get where the time goes, on one screen"""
    out = ok("explain", config_of(folder, "classify"), *QUICK).out
    plan = out[out.index("update: time by phase"):out.index("evaluation: time by phase")].splitlines()
    assert len(plan) < 50 and any("recurrent.l0" in line and "scan" in line for line in plan), plan
    assert "runs the bodies of" in out and "update: calls" not in out
    full = ok("explain", config_of(folder / "full", "classify"), "--full", *QUICK).out
    assert "update: calls" in full and "update: passes" in full and len(full) > 2 * len(out)


def boxes_of(svg):
    """(first line, second line) of each box"""
    groups = [g for g in svg.iter(SVG + "g") if g.find(SVG + "title") is not None]
    return [tuple(t.text for t in g.findall(SVG + "text")) for g in groups]


def calls_shown(svg):
    small = [re.match(r"(\d+) small call", first) for first, _ in boxes_of(svg)]
    return sum(int(m.group(1)) if m else 1 for m in small)


def picture(folder):
    """the picture is one SVG with a box for each call, alone or among small ones"""
    config = config_of(folder, "language-model")
    found = json.loads(ok("explain", config, *QUICK, "--json", "--svg", folder / "p.svg").out)
    svg = xml.etree.ElementTree.parse(folder / "p.svg").getroot()
    outer = [c for plan in found["plans"] for c in plan["calls"] if not c["inner"]]
    assert calls_shown(svg) == len(outer), (calls_shown(svg), len(outer))
    titles = " ".join(t.text for t in svg.iter(SVG + "title"))
    for call in outer:
        assert not call["loop"] or call["kernel"] in titles
    assert len([p for p in svg.iter(SVG + "path") if p.get("class") == "arrow"]) == sum(
        len(p["edges"]) for p in found["plans"])
    source = (folder / "p.svg").read_text()
    assert "prefers-color-scheme: dark" in source and "href" not in source and "<script" not in source


def in_the_report(folder):
    """what --out left in the run folder is in the run's report, opened without an error; nothing else was written"""
    config = config_of(folder, "forecast")
    run = folder / "run"
    ok("train", config, "--out", run, "--max-updates", 3, "--set", "model.hidden=8")
    before = {p: p.read_bytes() for p in run.iterdir()}
    ok("explain", run, *QUICK)
    assert {p: p.read_bytes() for p in run.iterdir()} == before
    ok("explain", run, *QUICK, "--out", run)
    assert {p.name for p in run.iterdir()} - {p.name for p in before} == {"explain.json", "plan.svg"}
    ok("report", run, "--output", folder / "r.html")
    page = (folder / "r.html").read_text()
    assert page.count('class="plan"') == 2 and "plan update" in page and "recurrent.l0" in page
    ok("train", config, "--out", run, "--resume", "--max-updates", 5, "--set", "model.hidden=8")  # they are no obstacle
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("      not opened: no chromium here")
        return
    for file in ("r.html", "run/plan.svg"):
        for width in (390, 1280):
            seen = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu",
                                   "--enable-logging=stderr", f"--user-data-dir={folder}/profile",
                                   f"--window-size={width},900", f"--screenshot={folder}/{width}.png",
                                   f"file://{folder}/{file}"], capture_output=True, text=True, timeout=100)
            assert seen.returncode == 0 and "CONSOLE" not in seen.stderr, seen.stderr
            assert (folder / f"{width}.png").stat().st_size > 5000


def call_of(i, ms=1.0, **more):
    return {"step": f"%{i} <op>", "kernel": "k", "phase": "forward", "layer": f"l{i % 3}", "milliseconds": ms,
            "loop": False, "inner": False, **more}


def large_and_odd(folder):
    """a picture of many calls stays small and drops none; an explain.json that somebody changed is shown as it is"""
    def page_of(plans):
        (folder / "explain.json").write_text(json.dumps({"plans": plans}))
        ok("report", folder / "explain.json", "--output", folder / "r.html")
        return (folder / "r.html").read_text()

    many = [call_of(i, ms=1 + i % 7, loop=i < 400) for i in range(5000)]
    edges = [{"from": i, "to": i + 1, "what": "f32[1]"} for i in range(399)]
    page = page_of([{"plan": "big", "milliseconds": 9, "calls": many, "edges": edges}])
    svg = re.search(r"<svg class=\"plan\".*?</svg>", page, re.S).group(0)
    boxes = re.findall(r"(\d+) small calls", svg)
    alone = svg.count('class="loop"') + svg.count('class="call"')
    assert sum(map(int, boxes)) + alone == 5000 and alone <= 120 and len(svg) < 200_000, (boxes, alone, len(svg))
    assert "more are not drawn" in svg and "&lt;op&gt;" in svg and "<op>" not in svg
    page = page_of([{"calls": [call_of(i, phase=f"p{i}", layer=f"m{i}") for i in range(30000)]}])
    assert "10000 further calls are not read" in page and "other layers" in page and "other phases" in page
    odd = [{}, 7, {"calls": 3}, {"calls": [1, {}, {"step": 5, "milliseconds": -1}, call_of(1, ms=1e300)]},
           {"calls": [call_of(0)], "edges": [{"from": 9, "to": 0}, {"from": -1}, 4, {"from": 0.5, "to": "x"}]},
           {"plan": ["x"], "calls": []}, {"calls": [dict(call_of(0), shapes=[1], layer=None)]}]
    for plan in odd:
        page_of([plan])
    page_of(odd)


def refusals(folder):
    """what cannot be explained is refused by name, with the exit code of its kind, and nothing is written"""
    config = config_of(folder, "forecast")
    refused(3, "explain", folder / "absent.toml", says=("absent.toml",))
    refused(3, "explain", folder / "model.onnx", says=("model.onnx", "no such file"))
    refused(2, "explain", config, "--set", "model.hiden=3", says=("Did you mean model.hidden?",))
    refused(5, "explain", config, "--backend", "abacus", says=("abacus", "reference"))
    refused(6, "explain", config, *QUICK, "--svg", folder / "no/such/p.svg", says=("no/such",))
    assert not (folder / "no").exists()
    half = folder / "half"
    half.mkdir()
    refused(3, "explain", half, says=("not a run folder", "config.toml is missing"))
    (half / "config.toml").write_text(config.read_text())
    refused(3, "explain", half, says=("best.safetensors is missing",))
    (half / "best.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{\"a")
    refused(3, "explain", half, says=("best.safetensors",))
    refused(3, "compare", half, says=("best.safetensors",))
    refused(3, "report", half, says=("half", "metrics.jsonl"))
    assert {p.name for p in half.iterdir()} == {"config.toml", "best.safetensors"}
    ok("train", config, "--out", folder / "run", "--max-updates", 2, "--set", "model.hidden=8")
    for command in ("explain", "compare"):
        refused(3, command, folder / "run", "--set", "model.hidden=9", says=("expected f32[", "weight"))


def anywhere(folder):
    """--explain of eval, generate, predict, stream and compare: text beside the data, a list with --json"""
    small = ["--set", "model.hidden=8"]
    runs = {}
    for kind in ("language-model", "forecast", "label"):
        runs[kind] = folder / ("run-" + kind)
        ok("train", config_of(folder, kind), "--out", runs[kind], "--max-updates", 2, *small)
    evaluated = ok("eval", runs["forecast"], "--explain", "--json").json()
    assert evaluated["explain"][0]["outputs"] == ["report"] and "loss" in evaluated
    assert "kernels" not in ok("eval", runs["forecast"]).out
    plain = ok("generate", runs["language-model"], "--length", 9, "--seed", 1)
    told = ok("generate", runs["language-model"], "--length", 9, "--seed", 1, "--explain")
    assert plain.out == told.out and "kernels" in told.err and "kernels" not in plain.err
    both = ok("generate", runs["language-model"], "--length", 9, "--seed", 1, "--explain", "--json").json()
    assert both["text"] + "\n" == plain.out and both["explain"][0]["kernels"]

    def fed(text, *arguments):
        done = subprocess.run([UNROLL, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done

    for name, line in (("label", "the old king\n"), ("forecast", "300\n")):
        command = ["predict" if name == "label" else "stream", runs[name]]
        plain = fed(line, *command)
        told = fed(line, *command, "--explain")
        assert told.stdout == plain.stdout and "kernels" in told.stderr, told.stderr
        lines = fed(line, *command, "--explain", "--json").stdout.splitlines()
        assert json.loads(lines[-1]).keys() == {"explain"} and len(lines) == 2
    compared = ok("compare", runs["forecast"], "--backend", "reference,cpu", "--runs", 1, "--explain", "--json").json()
    assert {p["backend"] for p in compared["explain"]} == {"reference", "cpu"}
    assert all("loss" in p["outputs"] for p in compared["explain"] if p["backend"] == "cpu")


with tempfile.TemporaryDirectory() as work:
    run_checks([tables_add_up, work_is_counted, without_a_device, every_kind, reasons, text, picture, in_the_report,
                large_and_odd, refusals, anywhere], work)
