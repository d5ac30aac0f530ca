// SPDX-License-Identifier: Apache-2.0
// Style of the page, light and dark, wide and narrow, and the script for hover texts of charts.
#include "frontends/cli/report/panel.h"

namespace unroll::cli {

// Based on the palette of Okabe and Ito for color-blind readers. Each color is darkened or lightened to a contrast of
// 3:1 (WCAG 2.1, 1.4.11) with the background, text to 4.5:1.
const char* const k_page_palette = R"css(
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1c1f24; --faint: #dde1e7; --soft: #545d68;
  --c0: #0072b2; --c1: #d55e00; --c2: #00875f; --c3: #b5568a;
  --c4: #9a6f00; --c5: #2b8bc0; --c6: #6b4fa0; --c7: #6f7680; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --ink: #e6e9ed; --faint: #2d333b; --soft: #a3adb8;
    --c0: #56b4e9; --c1: #ff8a3d; --c2: #2fc79a; --c3: #e59cc4;
    --c4: #e6b422; --c5: #7f9cff; --c6: #c3a6ff; --c7: #a8b0ba; } }
)css";

const char* const k_page_style = R"css(
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1280px; padding: 24px 20px 60px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; } h2 { font-size: 1.25rem; margin: 0 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .5rem; } h4 { font-size: .95rem; margin: 1.1rem 0 .4rem; }
section { margin: 0 0 2.4rem; padding-top: 1.2rem; border-top: 1px solid var(--faint); }
.charts { display: grid; gap: 28px 24px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr));
  align-items: end; }
figure { margin: 0; position: relative; min-width: 0; } figcaption { font-weight: 600; }
.wide > svg { margin-top: 18px; }
figure > svg, .wide > svg { display: block; width: 100%; height: auto; touch-action: pan-y; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 14px; margin: 2px 0 4px; padding: 0;
  font-size: 13px; color: var(--soft); }
.sample { width: 20px; height: 8px; margin-right: 6px; }
.tip { position: absolute; bottom: 62px; pointer-events: none; max-width: 70%; padding: 4px 8px; font-size: 13px;
  background: var(--ground); border: 1px solid var(--soft); border-radius: 4px; white-space: pre-line; }
.wide, pre { overflow-x: auto; max-width: 100%; } table { border-collapse: collapse; }
th, td { padding: 5px 18px 5px 0; border-bottom: 1px solid var(--faint); text-align: left; vertical-align: top;
  overflow-wrap: break-word; max-width: 26em; }
th { color: var(--soft); font-size: 13px; font-weight: 600; vertical-align: bottom; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note { color: var(--soft); font-size: 14px; margin: .4rem 0; } details { margin: .5rem 0; }
summary { cursor: pointer; } pre { font-size: 13px; }
mark { background: none; color: inherit; font-weight: 600; border-bottom: 2px solid var(--c1); }
.text { white-space: pre-wrap; } .attended span { border-radius: 3px; padding: 1px 2px; }
@media (max-width: 640px) {
  body { padding: 14px 12px 40px; } .panel text { font-size: 15px; }
  .cards thead { display: none; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; max-width: none; }
  .cards tr { border-bottom: 1px solid var(--faint); padding: 8px 0; }
  .cards td { border: 0; padding: 2px 0; text-align: left; white-space: normal; }
  .cards td:empty { display: none; }
  .cards td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); font-size: 13px; }
  .cards td:first-child { font-weight: 600; } .cards td:first-child::before { content: none; }
}
)css";

const char* const k_page_script = R"js(
for (const svg of document.querySelectorAll("svg[data-first]")) {
  const data = svg.dataset, left = +data.left, right = +data.right, first = +data.first, last = +data.last;
  const lines = [...svg.querySelectorAll("[data-values]")].map(line => ({
    name: line.dataset.name,
    points: line.dataset.values.trim().split(" ").filter(p => p).map(p => p.split(",").map(Number)) }));
  const cursor = document.createElementNS(svg.namespaceURI, "line"), tip = document.createElement("div");
  const labels = data.labels ? data.labels.split("|") : [];
  cursor.setAttribute("class", "cursor");
  tip.className = "tip";
  const nearest = (points, at) =>
    points.reduce((best, p) => Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const at = first + (Math.min(Math.max(x, left), right) - left) / (right - left) * (last - first);
    const shown = lines.filter(line => line.points.length).map(line => [line.name, nearest(line.points, at)]);
    const place = p => labels[p[0] - data.firstLabel] ?? p[0];
    tip.textContent = shown.map(([name, p]) => `${name}: ${p[1]} at ${place(p)}`).join("\n");
    tip.style[x < (left + right) / 2 ? "right" : "left"] = "8px";
    tip.style[x < (left + right) / 2 ? "left" : "right"] = "auto";
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, Math.min(Math.max(x, left), right));
    cursor.setAttribute("y1", 0);
    cursor.setAttribute("y2", +data.bottom);
    svg.append(cursor);
    svg.after(tip);
  });
  svg.addEventListener("pointerleave", () => { cursor.remove(); tip.remove(); });
}
)js";

}  // namespace unroll::cli
