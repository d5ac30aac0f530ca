// SPDX-License-Identifier: Apache-2.0
// A plan as a picture: a column for each phase, a band for each layer, a box for each call, darker where time goes, and
// arrows between loops where data flows. It is drawn from what `unroll explain --json` prints.
#pragma once

#include <string>
#include <vector>

namespace unroll::cli {

struct PictureBox {
  std::string phase, layer, step, kernel, shapes;
  std::string inner;  // lines, of a loop's calls
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
  std::vector<std::string> layers;  // that come first, in this order
  std::size_t left_out = 0;         // calls beyond what is read
};

// Of each plan in the text; none when it is not what `explain` prints. Reads any text.
std::vector<PlanPicture> pictures_of(const std::string& json);

// For a page that has k_page_palette and k_picture_style; `id` is of this picture alone in the page. What is too much
// to show is put into boxes that say so.
std::string picture_svg(const PlanPicture& picture, const std::string& id);
// All in one file that needs no other, light or dark as the viewer is.
std::string standalone_svg(const std::vector<PlanPicture>& pictures);

extern const char* const k_picture_style;  // CSS

}  // namespace unroll::cli
