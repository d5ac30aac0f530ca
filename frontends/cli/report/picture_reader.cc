// SPDX-License-Identifier: Apache-2.0
// Parses the output of `unroll explain --json` for a picture: the text is untrusted.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/report/json_members.h"
#include "frontends/cli/report/plan_picture.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_most_plans = 16, k_most_calls = 20000, k_most_inner = 24, k_most_phases = 8,
                      k_most_layers = 100;

double number_of(const Json& object, const char* key) {
  constexpr double k_most = 1e12;  // milliseconds of thirty years
  return std::max(number_at(object, key, k_most).value_or(0), 0.0);
}
bool flag_of(const Json& object, const char* key) { return member(object, key) == true; }
const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json& list = member(object, key);
  return list.is_array() ? list : none;
}

// Keeps the first names unchanged and merges all further ones into one.
class Names {
 public:
  Names(std::size_t most, std::string other) : most_(most), other_(std::move(other)) {}
  const std::string& of(const std::string& name) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at != names_.end()) return *at;
    if (names_.size() == most_) return other_;
    return names_.emplace_back(name);
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::size_t most_;
  std::string other_;
  std::vector<std::string> names_;
};

PlanPicture picture_of(const Json& plan) {
  PlanPicture picture{text_at(plan, "plan"), number_of(plan, "milliseconds"), {}, {}, {}};
  std::vector<std::optional<std::size_t>> box_of;  // [call]
  std::size_t n_inner = 0;
  Names phases(k_most_phases, "other phases"), layers(k_most_layers, "other layers");
  for (const Json& place : list_of(plan, "places"))
    if (place.is_object()) layers.of(text_at(place, "layer"));
  picture.layers = layers.all();
  for (const Json& call : list_of(plan, "calls")) {
    box_of.emplace_back();
    if (!call.is_object()) continue;
    if (picture.boxes.size() == k_most_calls) {
      picture.left_out += !flag_of(call, "inner");
      continue;
    }
    const std::string step = text_at(call, "step"), kernel = text_at(call, "kernel");
    const double ms = number_of(call, "milliseconds");
    if (flag_of(call, "inner")) {
      if (!picture.boxes.empty() && n_inner++ < k_most_inner)
        picture.boxes.back().inner += fmt::format("  {}: {}, {:.4g} ms\n", step, kernel, ms);
      continue;
    }
    n_inner = 0;
    box_of.back() = picture.boxes.size();
    picture.boxes.push_back({phases.of(text_at(call, "phase")), layers.of(text_at(call, "layer")), step, kernel,
                             text_at(call, "shapes"), "", ms, number_of(call, "predicted_ms"),
                             number_of(call, "gflops"), flag_of(call, "loop")});
  }
  for (const Json& edge : list_of(plan, "edges")) {
    if (!edge.is_object()) continue;
    const auto from = static_cast<std::size_t>(number_of(edge, "from")),
               to = static_cast<std::size_t>(number_of(edge, "to"));
    if (from < box_of.size() && to < box_of.size() && box_of[from] && box_of[to])
      picture.arrows.push_back({*box_of[from], *box_of[to], text_at(edge, "what")});
  }
  return picture;
}

}  // namespace

std::vector<PlanPicture> pictures_of(const std::string& json) {
  std::vector<PlanPicture> pictures;
  const Json all = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) return pictures;
  for (const Json& plan : list_of(all, "plans"))
    if (plan.is_object() && plan.contains("calls") && pictures.size() < k_most_plans)
      pictures.push_back(picture_of(plan));
  return pictures;
}

}  // namespace unroll::cli
