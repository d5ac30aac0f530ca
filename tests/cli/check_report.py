#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`unroll report`: what stands in the page is what stands in the files. usage: check_report.py UNROLL"""
import html
import html.parser
import json
import math
import pathlib
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree

from command import ok, refused, run_checks

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "br", "link"}


class Page(html.parser.HTMLParser):
    """Charts of a page by title: lines by name, ticks of y (in pixels, value), axis titles. Every tag is closed."""
    def __init__(self, path):
        super().__init__()
        self.source = pathlib.Path(path).read_text()
        self.charts, self.tick, self.open, self.text_of, self.headings = {}, None, [], "", []
        self.clipped, self.section, self.sections = [], "", {}
        self.feed(self.source)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in VOID:
            self.open.append((tag, found))
        if tag == "svg" and "aria-label" in found:
            self.chart = {"lines": {}, "ticks": [], "axes": [], **found}
            self.charts[found["aria-label"]] = self.chart
            self.sections.setdefault(self.section, []).append(found["aria-label"])
        elif "data-name" in found:
            self.chart["lines"][found["data-name"]] = found
        elif tag == "text" and found.get("class") == "tick" and found["text-anchor"] == "end" and "." in found["y"]:
            self.tick = float(found["y"]) - 4  # text stands 4 below its line
        if tag in ("table", "pre") and not any(t == "pre" or f.get("class") == "wide" for t, f in self.open):
            self.clipped.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        tag, found = self.open[-1] if self.open else ("", {})
        if self.tick is not None:
            self.chart["ticks"].append((self.tick, float(data)))
            self.tick = None
        elif found.get("class") == "axis":
            self.chart["axes"].append(data)
        elif tag in ("h1", "h2", "h3", "th"):
            self.headings.append(data)
            if tag == "h2":
                self.section = data


def pairs(text):
    return [tuple(map(float, pair.split(","))) for pair in text.split()]


def write_run(folder, lines):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def falling(n, scale=1.0):
    return [{"update": 10 * i, "loss": scale * (1 + 4 / i), "lr": 10.0 ** (-i % 5), "skipped": 0} for i in range(1, n)]


def curves(folder):
    """each line goes through the values of metrics.jsonl, to a tenth of a pixel, linear and logarithmic"""
    for name, scale in (("a", 1), ("b", 0.5)):
        write_run(folder / name, falling(40, scale))
    ok("report", folder / "a", folder / "b", "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert list(page.charts) == ["Loss", "Learning rate"], list(page.charts)  # none of skipped, which is 0
    for title, name, logarithmic in (("Loss", "loss", False), ("Learning rate", "lr", True)):
        chart = page.charts[title]
        assert chart["axes"] == [title + ", logarithmic" * logarithmic, "Update"], chart["axes"]
        assert list(chart["lines"]) == ["a", "b"]
        at = math.log10 if logarithmic else float
        (y0, v0), (y1, v1) = chart["ticks"][0], chart["ticks"][-1]
        left, right, first, last = (float(chart["data-" + k]) for k in ("left", "right", "first", "last"))
        for run in ("a", "b"):
            rows = [json.loads(row) for row in (folder / run / "metrics.jsonl").read_text().splitlines()]
            drawn = pairs(chart["lines"][run]["points"])
            assert len(drawn) == len(rows)
            for (x, y), row in zip(drawn, rows):
                assert abs(x - (left + (row["update"] - first) / (last - first) * (right - left))) < 0.1
                assert abs(y - (y0 + (at(row[name]) - at(v0)) / (at(v1) - at(v0)) * (y1 - y0))) < 0.1, (name, row, y)
            shown = pairs(chart["lines"][run]["data-values"])
            assert all(abs(v - row[name]) <= 1e-5 * abs(v) for (_, v), row in zip(shown, rows))


def peaks(folder):
    """of a hundred thousand points every peak is still there, and the page stays small"""
    lines = [{"update": i, "loss": 9.0 if i == 54321 else 1.0} for i in range(100000)]
    ok("report", write_run(folder / "long", lines), "--output", folder / "r.html")
    assert (54321, 9) in pairs(Page(folder / "r.html").charts["Loss"]["lines"]["long"]["data-values"])
    assert (folder / "r.html").stat().st_size < 200_000


def a_real_run(folder):
    """a run of the trainer gives its curves, statistics and config; tables come of ablation and of JSON"""
    ok("new", "language-model", folder / "demo")
    ok("train", folder / "demo/config.toml", "--out", folder / "run", "--max-updates", 20, "--set", "model.hidden=16",
       "--set", "train.watch_every=10", "--set", "train.validate_every=10")
    ok("ablation", folder / "demo/config.toml", "hidden=8", "--minutes", 0.02, "--out", folder / "ablations", "--set",
       "model.hidden=16")
    (folder / "bench.json").write_text(ok("bench", "--hidden", 4, "--steps", 3, "--seconds", 0, "--json").out)
    (folder / "sample.txt").write_text("In the <beginning>")
    ok("report", folder / "run", folder / "ablations", folder / "bench.json", folder / "sample.txt", "--output",
       folder / "r.html")
    page = Page(folder / "r.html")
    assert {"Loss", "Gradient norm", "Learning rate", "Saturated activations", "Updates per second",
            "Update ratio, largest of all parameters", "Validation loss over time"} <= set(page.charts)
    assert "run, validation" in page.charts["Loss"]["lines"], page.charts["Loss"]["lines"].keys()
    assert {"Summary", "Language model: text.txt", "Best validation loss", "Validation loss at equal time"} <= set(
        page.headings), page.headings
    for text in ("hidden=8", "Plan hash", "In the &lt;beginning&gt;", "[model]", "LSTM, 1 layer, 16 units"):
        assert text in page.source, text
    assert page.charts["Loss"]["axes"] == ["Loss (nats per token)", "Update"], page.charts["Loss"]["axes"]


CONFIG = '[task]\nkind = "{}"\n[data]\npath = "somewhere/{}"\n[model]\ncell = "gru"\nlayers = 2\nhidden = 1024\n'


def summary(folder):
    """a summary says task, model, best validation loss, time and status, with units and in words"""
    run = write_run(folder / "a", falling(5) + [{"update": 40, "validation_loss": 0.25}])
    (run / "config.toml").write_text(CONFIG.format("forecast", "sun.csv"))
    (run / "log.txt").write_text("update=10 of=300 updates_per_second=2\nupdate=40 of=300 updates_per_second=0.5\n")
    (folder / "inspect.json").write_text('{"bytes": 8210711, "median_ms": 0.35, "config.toml": 3000}')
    ok("report", run, folder / "inspect.json", "--output", folder / "r.html")
    page = Page(folder / "r.html")
    for text in ("Forecast: sun.csv", "GRU, 2 layers, 1,024 units", "0.25 at update 40", "65 s", "40 of 300 updates",
                 "7.8 MiB", "350 µs", "2.9 KiB"):
        assert f">{text}<" in page.source or f"{text}</td>" in page.source, text
    for key in ("bytes", "median_ms", "validation_loss", "gradient_norm"):
        assert not any(key in heading for heading in page.headings), page.headings


def tasks_apart(folder):
    """runs of different tasks or data have sections and axes of their own; a config that is broken does no harm"""
    for name, config in (("a", CONFIG.format("forecast", "x.csv")), ("b", CONFIG.format("label", "y.tsv")),
                         ("c", CONFIG.format("forecast", "x.csv")), ("d", "[[[")):
        (write_run(folder / name, falling(5)) / "config.toml").write_text(config)
    ok("report", *(folder / name for name in "abcd"), "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert list(page.sections) == ["Forecast: x.csv", "Labels for tokens: y.tsv", "Run"], page.sections
    losses = re.findall(r'data-name="([abcd])"', page.source)
    assert losses == list("acac" "bb" "dd"), losses


def contrast(one, other):
    """WCAG 2.1, relative luminance"""
    def luminance(color):
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def readable(folder):
    """text and lines stand out from the ground in both schemes; no table or listing is outside of a box that scrolls"""
    run = write_run(folder / "a", falling(5))
    (run / "config.toml").write_text(CONFIG.format("forecast", "x.csv"))
    (folder / "wide.json").write_text(json.dumps([{f"column {i}": i for i in range(60)}]))
    (folder / "text.txt").write_text("x" * 1000)
    ok("report", run, folder / "wide.json", folder / "text.txt", "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert not page.clipped, page.clipped
    assert re.search(r"\.wide, pre \{ overflow-x: auto; max-width: 100%", page.source)
    assert re.search(r"\nth, td \{[^}]*overflow-wrap: break-word; max-width", page.source)  # a row of numbers in a cell
    schemes = re.findall(r":root \{(.*?)\}", page.source, re.S)
    assert len(schemes) == 2
    for scheme in schemes:
        colors = dict(re.findall(r"--(\w+): (#\w+)", scheme))
        assert len(colors) == 12, colors
        for name, color in colors.items():
            least = {"ground": 0, "faint": 0, "ink": 7, "soft": 4.5}.get(name, 3)
            assert contrast(color, colors["ground"]) >= least, (name, color)


def what_it_does(folder):
    """test metrics beside baselines, a confusion matrix with the accuracy of eval, predictions; a moved file is said"""
    ok("new", "document", folder / "demo")
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 12, "--set", "train.validate_every=10")
    metrics = ok("eval", run, "--svg", folder / "eval.svg", "--json").json()
    ok("report", run, "--output", folder / "r.html")
    page, picture = Page(folder / "r.html"), xml.etree.ElementTree.parse(folder / "eval.svg").getroot()
    counts = [int(n) for n in page.charts["Confusion matrix"]["data-counts"].split()]
    k = math.isqrt(len(counts))
    assert k * k == len(counts) and abs(sum(counts[::k + 1]) / sum(counts) - metrics["metrics"]["accuracy"]) < 1e-6
    assert page.charts["Confusion matrix"]["axes"] == ["Predicted label", "True label"]
    drawn = [int(t.text) for t in picture.iter(SVG + "text") if t.get("class") == "strong"]
    assert drawn == [n for n in counts if n > 0], (drawn, counts)
    for text in ("Test set", "Best baseline", "Baseline: Naive Bayes", "Predictions"):
        assert text in page.source, text
    ok("report", run, "--no-examples", "--output", folder / "r.html")
    assert "Confusion" not in Page(folder / "r.html").source
    for data in (folder / "demo").glob("*.tsv"):
        data.unlink()
    ok("report", run, "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert "The test set was not evaluated." in page.source and "Loss" in page.charts


def points(picture, name):
    """The values of a line in an SVG file."""
    root = xml.etree.ElementTree.parse(picture).getroot()
    return [y for e in root.iter() if e.get("data-name") == name for _, y in pairs(e.get("data-values", ""))]


def close(one, other):
    return len(one) == len(other) > 0 and all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(one, other))


def classes(folder):
    """classify: the confusion matrix is that of eval, the bars are what predict answers, a label of markup is text"""
    kinds = ["<b>", "it's & 'so'", "lily"]
    lines = [f"{3 * (i % 3) + i * 37 % 11 / 4},{i * 53 % 13 / 3 - 2 * (i % 3)},{kinds[i % 3]}" for i in range(240)]
    (folder / "a.csv").write_text("\n".join(["length,width,kind"] + lines) + "\n")
    ok("new", "classify", folder / "demo", "--data", folder / "a.csv")
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 9, "--set", "model.hidden=8")
    found = ok("eval", run, "--svg", folder / "eval.svg", "--json").json()["confusion"]
    ok("report", run, "--output", folder / "r.html")
    page = Page(folder / "r.html")
    counts = [int(n) for n in page.charts["Confusion matrix"]["data-counts"].split()]
    listed = {(cell["label"], cell["predicted"]): cell["count"] for cell in found}
    assert sorted(n for n in counts if n > 0) == sorted(listed.values()), (counts, listed)
    assert "<b>" not in page.source and "&lt;b&gt;" in page.source
    said = re.findall(r"<title>(\d+) examples of (.+?) predicted as (.+?): ", page.source)
    drawn = {tuple(map(html.unescape, names)): int(n) for n, *names in said if n != "0"}
    assert drawn == listed, (drawn, listed)
    shown = {t.text for t in xml.etree.ElementTree.parse(folder / "eval.svg").getroot().iter(SVG + "text")}
    assert set(kinds) <= shown, shown
    done = ok("predict", run, "--input", folder / "a.csv", "--top-k", 3, "--json", "--svg", folder / "new.svg")
    rows = [json.loads(line) for line in done.out.splitlines()]
    bars = [(e.get("data-label"), float(e.get("data-probability")))
            for e in xml.etree.ElementTree.parse(folder / "new.svg").getroot().iter() if e.get("data-label")]
    answers = [(top["label"], top["probability"]) for row in rows[:12] for top in row["top"]]
    assert [b[0] for b in bars] == [a[0] for a in answers] and close([b[1] for b in bars], [a[1] for a in answers])


def forecasts(folder):
    """forecast: the last forecasts of the page are those of predict on the same history; predict draws its answers"""
    rows = [f"{i},{100 + 10 * math.sin(i / 3) + i / 9:.3f}" for i in range(160)]
    for name, n in (("a.csv", 160), ("before.csv", 157)):
        (folder / name).write_text("\n".join(["week,sales"] + rows[:n]) + "\n")
    ok("new", "forecast", folder / "demo", "--data", folder / "a.csv", "--set", "data.column=sales")
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 9, "--set", "model.hidden=8", "--set",
       "data.window=12", "--set", "data.horizon=3", "--set", "data.period=19", "--set", "data.test=0.2",
       "--set", "data.difference=none")
    ok("report", run, "--output", folder / "r.html")
    ok("eval", run, "--svg", folder / "eval.svg")
    page = Page(folder / "r.html")
    written = ok("predict", run, "--input", folder / "before.csv", "--svg", folder / "new.svg").out.splitlines()[1:]
    values = [float(line.split(",")[1]) for line in written]
    both, methods = {"Observed", "Model"}, {"Persistence", "Seasonal naive", "Theta"}
    for title, lines in ("Forecasts: sales", both), ("Last forecasts and baselines: sales", both | methods):
        chart = page.charts[title]
        assert set(chart["lines"]) == lines and chart["axes"] == ["sales (data units)", "Row of the data"], chart
    windows = re.findall(r'data-name="Model" data-values="([^"]+)"', page.source)
    assert all(close([y for _, y in pairs(line)][-3:], values) for line in windows) and windows, (windows, values)
    assert pairs(windows[0])[-1][0] == 159
    assert close(points(folder / "eval.svg", "Model")[-3:], values)
    assert close(points(folder / "new.svg", "Model"), values)
    observed = points(folder / "new.svg", "Observed")
    assert close(observed, [float(row.split(",")[1]) for row in rows[157 - len(observed):157]]) and len(observed) == 12


def drawn_or_refused(folder):
    """translate draws its attention; what has no picture says which command serves, before any work"""
    for kind in ("translate", "label", "language-model"):
        ok("new", kind, folder / kind)
        ok("train", folder / kind / "config.toml", "--out", folder / kind / "run", "--max-updates", 2, "--set",
           "model.hidden=8")
    (folder / "in.txt").write_text("\n365\n12\n")
    ok("predict", folder / "translate/run", "--input", folder / "in.txt", "--svg", folder / "t.svg")
    root = xml.etree.ElementTree.parse(folder / "t.svg").getroot()
    assert {"Attention: 365", "Source token", "Target token", "6"} <= {t.text for t in root.iter(SVG + "text")}
    ok("report", folder / "translate/run", "--output", folder / "r.html")
    source = Page(folder / "r.html").source
    for text in ("Baseline: Source copied", "Baseline: Word by word", "BLEU", "Token accuracy"):
        assert text in source, text
    text_model = folder / "language-model/run"
    for command in ("eval", "predict"):
        refused(2, command, text_model, "--svg", folder / "x.svg", says=("--svg", f"`unroll generate {text_model}`"))
    refused(2, "predict", folder / "label/run", "--svg", folder / "x.svg", says=("`unroll eval ",))
    one = folder / "x"
    refused(2, "predict", folder / "translate/run", "--svg", one, "--output", one, says=("same file",))
    assert not (folder / "x.svg").exists() and not one.exists()


def alone(folder):
    """the page loads nothing from elsewhere, names in it stay text, and a browser finds no error in it"""
    run = write_run(folder / "<b>it's\"", falling(5))
    ok("report", run, "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert "<b>" not in page.source and "http" not in page.source and "src=" not in page.source
    assert "<b>it's\"" in page.charts["Loss"]["lines"]
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("      not opened: no chromium here")
        return
    for width in (390, 1280):
        seen = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                               f"--user-data-dir={folder}/profile", f"--window-size={width},900",
                               f"--screenshot={folder}/{width}.png", f"file://{folder}/r.html"],
                              capture_output=True, text=True, timeout=100)
        assert seen.returncode == 0 and "CONSOLE" not in seen.stderr, seen.stderr
        assert (folder / f"{width}.png").stat().st_size > 5000


def half_written(folder):
    """a line that a kill cut off is told, and the rest is shown"""
    run = write_run(folder / "cut", falling(5))
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"update":50,"lo')
    done = ok("report", run, "--output", folder / "r.html", "--json")
    assert done.json()["runs"] == 1 and "1 line of metrics.jsonl" in done.err, done.err
    assert len(pairs(Page(folder / "r.html").charts["Loss"]["lines"]["cut"]["points"])) == 4


def refusals(folder):
    """what is no run is refused by name, and a page that cannot be written leaves the old one"""
    (folder / "empty").mkdir()
    refused(3, "report", folder / "empty", says=("metrics.jsonl", "ablation.json"))
    refused(3, "report", folder / "absent", says=("absent",))
    run = write_run(folder / "a", falling(5))
    refused(6, "report", run, "--output", folder / "no/such/r.html", says=("no/such",))
    ok("report", run, "--output", folder / "r.html")
    before = (folder / "r.html").read_bytes()
    refused(3, "report", run, folder / "absent", "--output", folder / "r.html")
    assert (folder / "r.html").read_bytes() == before


with tempfile.TemporaryDirectory() as work:
    run_checks([curves, peaks, a_real_run, summary, tasks_apart, readable, what_it_does, classes, forecasts,
                drawn_or_refused, alone, half_written, refusals], work)
