// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/report/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/support/text/counted.h"
#include "frontends/cli/explain/plan_places.h"
#include "frontends/cli/report/panel.h"
#include "unroll/nn/scope.h"

namespace unroll::cli {
namespace {

// Pixels of the SVG.
constexpr double k_plan_width = 960, k_gap = 8, k_box_width = 150, k_box_height = 36, k_header = 24, k_label = 20;
constexpr double k_small = 0.005;          // share of the time: shorter calls, except loops, share a box
constexpr std::size_t k_most_boxes = 120;  // of a picture: the longest calls; the others share boxes
constexpr std::size_t k_most_arrows = 80;
constexpr std::size_t k_most_lines = 24;   // of a hover text
constexpr std::size_t k_most_plan_letters = 22; // of a line in a box

// Contents of one box: a call, or all small calls of a phase and layer.
struct Drawn {
  std::string title, first, second;
  double share = 0;
  bool is_loop = false, is_folded = false;
  double x = 0, y = 0;
};

// "%61 scan, 64 steps"
std::string label_of(const PictureBox& box) {
  const std::size_t steps = box.shapes.find(" steps,");
  return steps == std::string::npos ? box.step : box.step + ", " + box.shapes.substr(0, steps) + " steps";
}

std::string title_of(const PictureBox& box) {
  std::string text = fmt::format("{}\n{}\n{}\n{:.4g} ms", box.step, box.kernel, box.shapes, box.milliseconds);
  if (box.predicted_ms > 0) text += fmt::format(", predicted {:.4g} ms", box.predicted_ms);
  if (box.gflops > 0) text += fmt::format(", {:.3g} GFLOP/s", box.gflops);
  return box.inner.empty() ? text : text + "\nin it:\n" + box.inner;
}

class Layout {
 public:
  explicit Layout(const PlanPicture& picture) : picture_(picture), place_(picture.boxes.size()) {
    std::vector<std::string> present;
    for (const PictureBox& box : picture.boxes) {
      all_ms_ += box.milliseconds;
      add_once(phases_, box.phase);
      add_once(present, box.layer);
    }
    for (const std::string& layer : picture.layers)
      if (std::find(present.begin(), present.end(), layer) != present.end()) add_once(layers_, layer);
    for (const std::string& layer : present) add_once(layers_, layer);
    for (const Origin::Phase phase : {Origin::Phase::update, Origin::Phase::backward, Origin::Phase::forward})
      first(phases_, phase_name(phase));
    for (const char* name : {k_loss_layer, k_shared}) last(layers_, name);
    choose_boxes();
    place();
  }

  double height() const { return height_; }

  std::string svg(const std::string& id) const {
    std::string body = fmt::format(
        "<defs><marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
        "orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>", id);
    const std::string time = all_ms_ > 0 ? fmt::format(": {:.4g} ms a run", picture_.milliseconds) : "";
    body += fmt::format("<text class=\"name\" x=\"0\" y=\"14\">{}{}</text>", escaped(picture_.name), time);
    for (std::size_t p = 0; p < phases_.size(); ++p)
      body += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>", column_x(p), k_header + 14, escaped(header_of(p)));
    for (const auto& [text, y] : labels_)
      body += fmt::format("<line class=\"grid\" x1=\"0\" x2=\"{0}\" y1=\"{1:.1f}\" y2=\"{1:.1f}\"/>"
                          "<text class=\"layer\" x=\"0\" y=\"{2:.1f}\">{3}</text>",
                          k_plan_width, y, y + 15, escaped(text));
    for (std::size_t i = 0; i < std::min(picture_.arrows.size(), k_most_arrows); ++i)
      body += arrow(picture_.arrows[i], id);
    for (const Drawn& box : drawn_) body += rectangle(box);
    return body + fmt::format("<text x=\"0\" y=\"{:.1f}\">{}</text>", height_ - 6, escaped(note()));
  }

 private:
  static void add_once(std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  static void first(std::vector<std::string>& list, std::string_view name) {
    std::stable_partition(list.begin(), list.end(), [&](const std::string& other) { return other == name; });
  }
  static void last(std::vector<std::string>& list, std::string_view name) {
    std::stable_partition(list.begin(), list.end(), [&](const std::string& other) { return other != name; });
  }
  double share_of(const PictureBox& box) const { return all_ms_ > 0 ? box.milliseconds / all_ms_ : 0; }
  double column_width() const {
    const auto n = static_cast<double>(std::max<std::size_t>(phases_.size(), 1));
    return (k_plan_width - (n - 1) * 2 * k_gap) / n;
  }
  double column_x(std::size_t phase) const { return static_cast<double>(phase) * (column_width() + 2 * k_gap); }

  std::string header_of(std::size_t phase) const {
    double sum = 0;
    for (const PictureBox& box : picture_.boxes)
      if (box.phase == phases_[phase]) sum += box.milliseconds;
    if (all_ms_ <= 0) return phases_[phase];
    return fmt::format("{} {:.4g} ms, {:.0f} %", phases_[phase], sum, 100 * sum / all_ms_);
  }

  // Loops and the longest calls get separate boxes.
  void choose_boxes() {
    std::vector<std::size_t> order(picture_.boxes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto rank = [&](std::size_t i) {
      return std::pair(!picture_.boxes[i].is_loop, -picture_.boxes[i].milliseconds);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    alone_.assign(order.size(), false);
    for (std::size_t k = 0; k < std::min(order.size(), k_most_boxes); ++k) {
      const PictureBox& box = picture_.boxes[order[k]];
      alone_[order[k]] = box.is_loop || all_ms_ <= 0 || share_of(box) >= k_small;
    }
  }

  void place() {
    double y = k_header + 24;
    for (const std::string& layer : layers_) {
      labels_.emplace_back(layer, y);
      double bottom = y + k_label;
      for (std::size_t p = 0; p < phases_.size(); ++p) bottom = std::max(bottom, fill(p, layer, y + k_label));
      y = bottom + k_gap;
    }
    height_ = y + 24;
  }

  // Places the boxes of a phase and layer row by row; returns their end.
  double fill(std::size_t phase, const std::string& layer, double top) {
    std::vector<Drawn> cell;
    std::vector<std::size_t> folded;
    for (std::size_t i = 0; i < picture_.boxes.size(); ++i) {
      const PictureBox& box = picture_.boxes[i];
      if (box.phase != phases_[phase] || box.layer != layer) continue;
      if (!alone_[i]) {
        folded.push_back(i);
        continue;
      }
      place_[i] = drawn_.size() + cell.size();
      cell.push_back({title_of(box), shortened(label_of(box), k_most_plan_letters), time_text(box.milliseconds),
                      share_of(box), box.is_loop});
    }
    if (!folded.empty()) cell.push_back(folded_box(folded));
    const auto per_row =
        std::max<std::size_t>(1, static_cast<std::size_t>((column_width() + k_gap) / (k_box_width + k_gap)));
    for (std::size_t n = 0; n < cell.size(); ++n) {
      cell[n].x = column_x(phase) + static_cast<double>(n % per_row) * (k_box_width + k_gap);
      cell[n].y = top + static_cast<double>(n / per_row) * (k_box_height + k_gap);
      drawn_.push_back(cell[n]);
    }
    const std::size_t rows = (cell.size() + per_row - 1) / per_row;
    return top + static_cast<double>(rows) * (k_box_height + k_gap);
  }

  std::string time_text(double ms) const {
    return all_ms_ > 0 ? fmt::format("{:.3g} ms, {:.1f} %", ms, 100 * ms / all_ms_) : "";
  }

  Drawn folded_box(const std::vector<std::size_t>& calls) {
    Drawn box;
    double sum = 0;
    for (std::size_t k = 0; k < calls.size(); ++k) {
      const PictureBox& call = picture_.boxes[calls[k]];
      sum += call.milliseconds;
      if (k < k_most_lines) box.title += fmt::format("{}: {}, {:.3g} ms\n", call.step, call.kernel, call.milliseconds);
    }
    if (calls.size() > k_most_lines) box.title += fmt::format("and {} more\n", calls.size() - k_most_lines);
    box.first = counted(calls.size(), "small call");
    box.second = time_text(sum);
    box.share = all_ms_ > 0 ? sum / all_ms_ : 0;
    box.is_folded = true;
    n_folded_ += calls.size();
    return box;
  }

  static std::string rectangle(const Drawn& box) {
    const char* kind = box.is_loop ? "loop" : box.is_folded ? "small" : "call";
    const std::string shape = fmt::format("x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"{}\"", box.x,
                                          box.y, k_box_width, k_box_height, box.is_loop ? 10 : 3);
    return fmt::format(
        "<g><title>{0}</title><rect class=\"ground\" {1}/><rect class=\"{2}\" {1} fill-opacity=\"{3:.2f}\"/>"
        "<text class=\"ink\" x=\"{4:.1f}\" y=\"{5:.1f}\">{6}</text><text x=\"{4:.1f}\" "
        "y=\"{7:.1f}\">{8}</text></g>",
        escaped(box.title), shape, kind, 0.06 + 0.5 * std::sqrt(std::clamp(box.share, 0.0, 1.0)), box.x + 8, box.y + 15,
        escaped(box.first), box.y + 29, escaped(box.second));
  }

  // Draws from the middle of a side of one box to that of another.
  std::string arrow(const PictureArrow& arrow, const std::string& id) const {
    if (arrow.from >= place_.size() || arrow.to >= place_.size() || !place_[arrow.from] || !place_[arrow.to]) return "";
    const Drawn &from = drawn_[*place_[arrow.from]], &to = drawn_[*place_[arrow.to]];
    const bool sideways = std::abs(to.x - from.x) > k_box_width;
    const double step = to.x >= from.x ? 1 : 0, down = to.y >= from.y ? 1 : 0;
    const double x0 = from.x + k_box_width * (sideways ? step : 0.5),
                 x1 = to.x + k_box_width * (sideways ? 1 - step : 0.5);
    const double y0 = from.y + k_box_height * (sideways ? 0.5 : down),
                 y1 = to.y + k_box_height * (sideways ? 0.5 : 1 - down);
    const double dx = sideways ? (x1 - x0) / 2 : 0, dy = sideways ? 0 : (y1 - y0) / 2;
    return fmt::format(
        "<path class=\"arrow\" marker-end=\"url(#{})\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
        "{:.1f}\"><title>{}</title></path>",
        id, x0, y0, x0 + dx, y0 + dy, x1 - dx, y1 - dy, x1, y1, escaped(arrow.what));
  }

  std::string note() const {
    std::string text = "Arrows: data from loop to loop.";
    if (picture_.arrows.size() > k_most_arrows)
      text += fmt::format(" {} more are not drawn.", picture_.arrows.size() - k_most_arrows);
    if (picture_.left_out > 0) text += fmt::format(" {} not read.", counted_are(picture_.left_out, "further call"));
    if (n_folded_ > 0)
      text += fmt::format(" {} of {} calls share the boxes of small calls.", n_folded_, picture_.boxes.size());
    return text;
  }

  const PlanPicture& picture_;
  double all_ms_ = 0, height_ = 0;
  std::vector<std::string> phases_, layers_;
  std::vector<std::pair<std::string, double>> labels_;  // of bands
  std::vector<bool> alone_;
  std::vector<std::optional<std::size_t>> place_;  // [box of the picture] in drawn_
  std::vector<Drawn> drawn_;
  std::size_t n_folded_ = 0;
};

}  // namespace

const char* const k_picture_style = R"css(
.plan { min-width: 720px; } .plan text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.plan .ink, .plan .name, .plan .layer { fill: var(--ink); } .plan .name { font-size: 15px; font-weight: 600; }
.plan .layer { font-weight: 600; } .plan rect { fill: var(--c0); stroke: var(--c0); stroke-width: 1; }
.plan .ground { fill: var(--ground); stroke: none; }
.plan .loop { fill: var(--c1); stroke: var(--c1); stroke-width: 2; } .plan .small { stroke-dasharray: 4 3; }
.plan .grid { stroke: var(--faint); } .plan .arrow { fill: none; stroke: var(--soft); stroke-width: 1.2; opacity: .6; }
.plan .head { fill: var(--soft); }
)css";

std::string picture_svg(const PlanPicture& picture, const std::string& id) {
  const Layout layout(picture);
  return fmt::format("<svg class=\"plan\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"plan {}\">{}</svg>",
                     k_plan_width, layout.height(), escaped(picture.name), layout.svg(id));
}

std::string standalone_svg(const std::vector<PlanPicture>& pictures) {
  constexpr double k_margin = 16;
  double y = k_margin;
  std::string body;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const Layout layout(pictures[i]);
    body += fmt::format("<g transform=\"translate({} {:.0f})\">{}</g>\n", k_margin, y,
                        layout.svg(fmt::format("head{}", i)));
    y += layout.height() + k_margin;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plan\" viewBox=\"0 0 {0} {1:.0f}\" role=\"img\" "
      "aria-label=\"plans\"><style>{2}{3}</style><rect width=\"{0}\" height=\"{1:.0f}\" "
      "class=\"ground\"/>\n{4}</svg>\n",
      k_plan_width + 2 * k_margin, y, k_page_palette, k_picture_style, body);
}

}  // namespace unroll::cli
