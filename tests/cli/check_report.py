#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`unroll report`: what stands in the page is what stands in the files. usage: check_report.py UNROLL"""
import html.parser
import json
import math
import pathlib
import shutil
import subprocess
import tempfile

from command import ok, refused, run_checks


class Page(html.parser.HTMLParser):
    """The charts of a page: title, lines by name, ticks (y in pixels, value)."""
    def __init__(self, path):
        super().__init__()
        self.source = pathlib.Path(path).read_text()
        self.charts, self.tick = {}, None
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "svg":
            self.chart = {"lines": {}, "ticks": [], **found}
            self.charts[found["aria-label"]] = self.chart
        elif "data-name" in found:
            self.chart["lines"][found["data-name"]] = found
        elif tag == "text" and found["text-anchor"] == "end":
            self.tick = float(found["y"]) - 4  # text stands 4 below its line

    def handle_data(self, data):
        if self.tick is not None:
            self.chart["ticks"].append((self.tick, float(data)))
            self.tick = None


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
    assert list(page.charts) == ["loss", "lr"], list(page.charts)  # none of skipped, which is 0
    for name, logarithmic in (("loss", False), ("lr", True)):
        chart = page.charts[name]
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
    assert (54321, 9) in pairs(Page(folder / "r.html").charts["loss"]["lines"]["long"]["data-values"])
    assert (folder / "r.html").stat().st_size < 200_000


def a_real_run(folder):
    """a run of the trainer gives its curves, statistics and config; tables come of lever and of JSON"""
    ok("new", "language-model", folder / "demo")
    ok("train", folder / "demo/config.toml", "--out", folder / "run", "--max-updates", 20, "--set", "model.hidden=16",
       "--set", "train.watch_every=10", "--set", "train.validate_every=10")
    ok("lever", folder / "demo/config.toml", "hidden=8", "--minutes", 0.02, "--out", folder / "levers", "--set",
       "model.hidden=16")
    (folder / "bench.json").write_text(ok("bench", "--hidden", 4, "--steps", 3, "--seconds", 0, "--json").out)
    (folder / "sample.txt").write_text("In the <beginning>")
    ok("report", folder / "run", folder / "levers", folder / "bench.json", folder / "sample.txt", "--output",
       folder / "r.html")
    page = Page(folder / "r.html")
    assert {"loss", "gradient_norm", "lr", "saturated", "update_ratio", "updates_per_second"} <= set(page.charts)
    assert "run: validation_loss" in page.charts["loss"]["lines"], page.charts["loss"]["lines"].keys()
    for text in ("hidden=8", "plan_hash", "In the &lt;beginning&gt;", "[model]"):
        assert text in page.source, text


def alone(folder):
    """the page asks for nothing from elsewhere, whatever names it holds stay text, and a browser finds no error in it"""
    run = write_run(folder / "<b>it's\"", falling(5))
    ok("report", run, "--output", folder / "r.html")
    page = Page(folder / "r.html")
    assert "<b>" not in page.source and "http" not in page.source and "src=" not in page.source
    assert "<b>it's\"" in page.charts["loss"]["lines"]
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
    assert len(pairs(Page(folder / "r.html").charts["loss"]["lines"]["cut"]["points"])) == 4


def refusals(folder):
    """what is no run is refused by name, and a page that cannot be written leaves the old one"""
    (folder / "empty").mkdir()
    refused(3, "report", folder / "empty", says=("metrics.jsonl", "lever.json"))
    refused(3, "report", folder / "absent", says=("absent",))
    run = write_run(folder / "a", falling(5))
    refused(6, "report", run, "--output", folder / "no/such/r.html", says=("no/such",))
    ok("report", run, "--output", folder / "r.html")
    before = (folder / "r.html").read_bytes()
    refused(3, "report", run, folder / "absent", "--output", folder / "r.html")
    assert (folder / "r.html").read_bytes() == before


with tempfile.TemporaryDirectory() as work:
    run_checks([curves, peaks, a_real_run, alone, half_written, refusals], work)
