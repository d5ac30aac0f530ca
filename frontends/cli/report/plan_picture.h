// SPDX-License-Identifier: Apache-2.0
// A plan as a picture: a column for each phase, a band for each layer, a box for each call. Longer calls are darker;
// arrows show data between loops. Input: the output of `unroll explain --json`.
#pragma once

#include <string>
#include <vector>

namespace unroll::cli {

struct PictureBox {
  std::string phase, layer, step, kernel, shapes;
  std::string inner;  // lines for a loop's calls
  double milliseconds = 0, predicted_ms = 0, gflops = 0;
  bool is_loop = false;
};
struct PictureArrow {
  std::size_t from = 0, to = 0;  // boxes
  std::string what;
};
struct PlanPicture {
  std::string name;
  double milliseconds = 0;
  std::vector<PictureBox> boxes;
  std::vector<PictureArrow> arrows;
  std::vector<std::string> layers;  // layers that come first, in this order
  std::size_t left_out = 0;         // calls beyond the limit
};

// Returns each plan in the text; none if `explain` did not print it. Accepts any text.
std::vector<PlanPicture> pictures_of(const std::string& json);

// For a page with k_page_palette and k_picture_style; `id` must be unique in the page. Boxes summarize the rest if
// there is too much to show.
std::string picture_svg(const PlanPicture& picture, const std::string& id);
// Returns one self-contained file, light or dark by the viewer's setting.
std::string standalone_svg(const std::vector<PlanPicture>& pictures);

extern const char* const k_picture_style;  // CSS

}  // namespace unroll::cli
