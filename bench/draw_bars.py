#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the bars of the README, docs/pictures/bars-light.svg and bars-dark.svg.

usage: bench/draw_bars.py [--check]
bench/results/bars.json names a page of results, rows of its tables and columns. The figures are those of the page: the
least time of each side and their ratio, in the last row of that workload. With --check nothing is written; exit code 1
means that a picture, or the first table of the README, has other figures than the page.
"""
import html
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS, PICTURES = ROOT / "bench/results", ROOT / "docs/pictures"
THEMES = {
    "light": {"back": "#ffffff", "edge": "#d1d9e0", "text": "#1f2328", "quiet": "#59636e", "ours": "#0a7d6c",
              "peer": "#c3cad2"},
    "dark": {"back": "#0d1117", "edge": "#3d444d", "text": "#f0f6fc", "quiet": "#9198a1", "ours": "#2dbfa5",
             "peer": "#454d58"},
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
WIDTH, MARGIN, GAP = 860, 24, 44
PANEL = (WIDTH - 2 * MARGIN - GAP) / 2
LONGEST, BAR = 262, 12  # pixels: the bar of the slower side, the height of each bar
HEAD, ROW, FOOT = 76, 58, 34
SCALE = {"ms": 1, "µs": 1000}  # from milliseconds
OURS = "unroll min / median ms"


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_of(page):
    """{(workload, mode): its last row as {column: cell}} of the tables of a page."""
    rows, columns = {}, []
    for before, line in zip(["", *page.splitlines()], page.splitlines()):
        if line.startswith("|---"):
            columns = cells(before)
        elif line.startswith("|") and "mode" in columns:
            row = dict(zip(columns, cells(line)))
            rows[row[columns[0]], row["mode"]] = row
    return rows


def least(cell):
    """The first number before a slash: of "torch lnlstm 234.5 / 292.8", 234.5."""
    return float(re.search(r"([\d.]+) /", cell)[1])


def bars_of(panel, rows):
    """[(label, our time, time of the peer, ratio)] of a panel, times in its unit."""
    found = []
    for workload, label in panel["bars"].items():
        row = rows.get((workload, panel["mode"]))
        if row is None:
            raise SystemExit(f"bench/results/bars.json: the page has no row '{workload}'. Name a workload of the page")
        ours, peer = (least(row[column]) * SCALE[panel["unit"]] for column in (OURS, panel["times"]))
        found.append((label, ours, peer, least(row[panel["ratio"]])))
    return found


def text(x, y, words, color, size=13, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}"{more}>{html.escape(words)}</text>'


def rectangle(x, y, width, color):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}"/>'


def head(panel, left, color):
    parts = [f'<text x="{left:.1f}" y="34" font-size="17" font-weight="600" fill="{color["text"]}">{panel["title"]}'
             f'<tspan dx="10" font-size="12" font-weight="400" fill="{color["quiet"]}">{panel["about"]}</tspan></text>']
    for key, name, x in (("ours", "unroll", left), ("peer", panel["peer"], left + 68)):
        parts += [rectangle(x, 46, BAR, color[key]), text(x + 18, 56, name, color["quiet"], 12)]
    return parts


def draw_row(bar, unit, left, top, color):
    """A label, a bar for each side and how many times as fast unroll is."""
    label, ours, peer, ratio = bar
    parts = [text(left, top, label, color["text"])]
    for k, (key, time) in enumerate((("ours", ours), ("peer", peer))):
        y, width = top + 7 + k * (BAR + 2), LONGEST * time / max(ours, peer)
        parts += [rectangle(left, y, width, color[key]),
                  text(left + width + 6, y + 10, f"{time:.3g} {unit}", color["quiet"], 11)]
    return [*parts, text(left + PANEL, top + 25, f"{ratio:.1f}×", color["text"], 17,
                         ' font-weight="600" text-anchor="end"')]


def draw_panel(panel, rows, left, color):
    parts = head(panel, left, color)
    for k, bar in enumerate(bars_of(panel, rows)):
        parts += draw_row(bar, panel["unit"], left, HEAD + 16 + k * ROW, color)
    return parts


def described(figures, rows):
    """The picture in words, for those who do not see it."""
    lines = [f"Least times, by {figures['command']}. Trees: {figures['trees']}."]
    for panel in figures["panels"]:
        lines += [f"{panel['title']}. {label}: unroll {ours:.3g} {panel['unit']}, {panel['peer']} {peer:.3g} "
                  f"{panel['unit']}." for label, ours, peer, _ in bars_of(panel, rows)]
    return "\n".join(lines)


def svg(figures, color):
    rows = rows_of((RESULTS / figures["page"]).read_text())
    height = HEAD + FOOT + ROW * max(len(panel["bars"]) for panel in figures["panels"])
    foot = f"Shorter is faster. {figures['machine']}, {figures['date']}, {figures['versions']}."
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
             f'height="{height}" font-family="{FONT}" role="img">',
             "<!-- SPDX-License-Identifier: Apache-2.0, drawn by bench/draw_bars.py -->",
             f"<desc>{html.escape(described(figures, rows))}</desc>",
             f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" fill="{color["back"]}" '
             f'stroke="{color["edge"]}"/>']
    for k, panel in enumerate(figures["panels"]):
        parts += draw_panel(panel, rows, MARGIN + k * (PANEL + GAP), color)
    return "\n".join([*parts, text(MARGIN, height - 14, foot, color["quiet"], 11), "</svg>", ""])


def strange_times(drawn):
    """Times in tables of the README that the picture does not show."""
    cells_with_times = re.findall(r"(?<=\| )[\d.]+ (?:ms|µs)(?= \|)", (ROOT / "README.md").read_text())
    return [f"README.md: the bars have no {time}" for time in cells_with_times if f">{time}<" not in drawn]


def main(check):
    figures, stale = json.loads((RESULTS / "bars.json").read_text()), []
    for theme, color in THEMES.items():
        path, drawn = PICTURES / f"bars-{theme}.svg", svg(figures, color)
        if not check:
            path.write_text(drawn)
        elif not path.is_file() or path.read_text() != drawn:
            stale.append(f"{path.relative_to(ROOT)} differs from bench/results. Run bench/draw_bars.py")
    stale += strange_times(drawn) if check else []
    print("\n".join(stale or [f"{len(THEMES)} pictures"]))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
