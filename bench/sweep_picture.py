# SPDX-License-Identifier: Apache-2.0
"""A picture of what bench/sweep.py gemm measured: a panel for each product, a line for each backend and precision."""
import html
import math

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 180, 60, 40, 70
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"]


def text(x, y, words, size=11, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{html.escape(str(words))}</text>'


def panel(rows, product, name, sides, left, top):
    """GFLOP/s from zero to the highest of this product, over the logarithm of the size."""
    mine = [row for row in rows if row["product"] == product]
    values = sorted({row[name] for row in mine})
    low, high = math.log2(values[0]), math.log2(values[-1])
    most = max((rate for row in mine for rate in row["gflops"].values() if rate), default=1)

    def place(value, rate):
        share = (math.log2(value) - low) / (high - low) if high > low else 0.5
        return left + WIDTH * share, top + HEIGHT * (1 - rate / most)

    parts = [f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>',
             text(left + WIDTH / 2, top - 8, product, 12), text(left - 4, top + 10, f"{most:.0f}", 10, "end"),
             text(left - 4, top + HEIGHT, 0, 10, "end")]
    last = -math.inf
    for value in values:
        x, _ = place(value, 0)
        if x - last > 28:  # labels do not overlap
            parts.append(text(x, top + HEIGHT + 14, value, 10))
            last = x
    for k, side in enumerate(sides):
        points = [place(row[name], row["gflops"][side]) for row in sorted(mine, key=lambda r: r[name])
                  if row["gflops"].get(side)]
        color = COLORS[k % len(COLORS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in points]
    return parts


def svg(rows, name):
    products = list(dict.fromkeys(row["product"] for row in rows))
    sides = list(dict.fromkeys(side for row in rows for side in row["gflops"]))
    columns = 2
    height = TOP + (len(products) + columns - 1) // columns * (HEIGHT + GAP) + 24
    width = columns * (WIDTH + GAP) + LEFT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>', text(width / 2, 16, f"GFLOP/s by {name}", 13)]
    for k, product in enumerate(products):
        left, top = LEFT + k % columns * (WIDTH + GAP), TOP + k // columns * (HEIGHT + GAP)
        parts += panel(rows, product, name, sides, left, top)
    for k, side in enumerate(sides):
        x = LEFT + k * (width - LEFT) / max(len(sides), 1)
        parts.append(f'<rect x="{x:.1f}" y="{height - 16}" width="10" height="10" fill="{COLORS[k % len(COLORS)]}"/>')
        parts.append(text(x + 14, height - 7, side, 11, "start"))
    return "\n".join([*parts, "</svg>", ""])
