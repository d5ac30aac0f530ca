// SPDX-License-Identifier: Apache-2.0
// How the page looks, by day and by night, wide and narrow; and what the pointer over a chart shows.
#include "frontends/cli/page.h"

namespace unroll::cli {

const char* const k_page_palette = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1f24; --faint: #dde1e7; --soft: #5c6570;
  --c0: #1f6fd6; --c1: #d1481d; --c2: #1a8f4c; --c3: #8a4fd0; --c4: #b58200; --c5: #0b8f97; --c6: #c2317d; --c7: #5d6b2f; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --ink: #e6e9ed; --faint: #2d333b; --soft: #9aa4b0;
    --c0: #6aa9ff; --c1: #ff8a61; --c2: #57cc86; --c3: #bf95ff; --c4: #e6b93c; --c5: #4fd0d8; --c6: #ff7ab8; --c7: #b3c46a; } }
)css";

const char* const k_page_style = R"css(
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1400px; padding: 16px; background: var(--ground); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; } h3 { font-size: 1rem; }
.charts { display: grid; gap: 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
figure { margin: 0; position: relative; } figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; touch-action: pan-y; }
svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--faint); } .cursor { stroke: var(--soft); stroke-dasharray: 2 3; }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .dashed { stroke-dasharray: 6 4; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); } .c6 { stroke: var(--c6); } .c7 { stroke: var(--c7); }
.key { display: inline-block; width: 14px; height: 3px; margin-right: 6px; vertical-align: middle; }
.key.c0 { background: var(--c0); } .key.c1 { background: var(--c1); } .key.c2 { background: var(--c2); }
.key.c3 { background: var(--c3); } .key.c4 { background: var(--c4); } .key.c5 { background: var(--c5); }
.key.c6 { background: var(--c6); } .key.c7 { background: var(--c7); }
.tip { position: absolute; top: 28px; pointer-events: none; max-width: 70%; padding: 4px 8px; font-size: 13px;
  background: var(--ground); border: 1px solid var(--faint); border-radius: 4px; white-space: pre-line; }
.wide, pre { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--faint); text-align: left; white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; } .note { color: var(--soft); }
@media (max-width: 520px) { svg text { font-size: 19px; } body { padding: 10px; } }
)css";

const char* const k_page_script = R"js(
for (const svg of document.querySelectorAll("svg[data-first]")) {
  const data = svg.dataset, left = +data.left, right = +data.right, first = +data.first, last = +data.last;
  const lines = [...svg.querySelectorAll("[data-values]")].map(line => ({
    name: line.dataset.name,
    points: line.dataset.values.trim().split(" ").filter(p => p).map(p => p.split(",").map(Number)) }));
  const cursor = document.createElementNS(svg.namespaceURI, "line"), tip = document.createElement("div");
  cursor.setAttribute("class", "cursor");
  tip.className = "tip";
  const nearest = (points, update) =>
    points.reduce((best, p) => Math.abs(p[0] - update) < Math.abs(best[0] - update) ? p : best);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const update = first + (Math.min(Math.max(x, left), right) - left) / (right - left) * (last - first);
    const shown = lines.filter(line => line.points.length).map(line => [line.name, nearest(line.points, update)]);
    tip.textContent = shown.map(([name, p]) => `${name}: ${p[1]} at ${p[0]}`).join("\n");
    tip.style[x < (left + right) / 2 ? "right" : "left"] = "8px";
    tip.style[x < (left + right) / 2 ? "left" : "right"] = "auto";
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, Math.min(Math.max(x, left), right));
    cursor.setAttribute("y1", 0);
    cursor.setAttribute("y2", svg.viewBox.baseVal.height - 28);
    svg.append(cursor);
    svg.after(tip);
  });
  svg.addEventListener("pointerleave", () => { cursor.remove(); tip.remove(); });
}
)js";

}  // namespace unroll::cli
