// SPDX-License-Identifier: Apache-2.0
// Resize with nearest or linear interpolation, one axis after the other. Coordinates are f32, as in ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

struct ResizedAxis {
  int axis;
  std::int64_t from, to;
  float scale, start = 0, end = 1;  // start and end: of the region, in [0,1]
};

// Returns the input coordinate of output position x.
using Coordinate = float (*)(float x, const ResizedAxis& a);
struct CoordinateRow {
  std::string_view name;
  Coordinate of;
};
float half_pixel(float x, const ResizedAxis& a) { return (x + 0.5F) / a.scale - 0.5F; }
float symmetric(float x, const ResizedAxis& a) {
  const auto from = static_cast<float>(a.from);
  const float center = from / 2, adjustment = static_cast<float>(a.to) / (a.scale * from);
  return center * (1 - adjustment) + half_pixel(x, a);
}
float align_corners(float x, const ResizedAxis& a) {
  return a.to == 1 ? 0 : x * static_cast<float>(a.from - 1) / static_cast<float>(a.to - 1);
}
float cropped(float x, const ResizedAxis& a) {
  const auto last = static_cast<float>(a.from - 1);
  if (a.to == 1) return 0.5F * (a.start + a.end) * last;
  return a.start * last + x * (a.end - a.start) * last / static_cast<float>(a.to - 1);
}
constexpr std::string_view k_crop = "tf_crop_and_resize";
constexpr CoordinateRow k_coordinates[] = {
    {"half_pixel", half_pixel},
    {"half_pixel_symmetric", symmetric},
    {"pytorch_half_pixel", [](float x, const ResizedAxis& a) { return a.to > 1 ? half_pixel(x, a) : 0; }},
    {"align_corners", align_corners},
    {"asymmetric", [](float x, const ResizedAxis& a) { return x / a.scale; }},
    {"tf_half_pixel_for_nn", [](float x, const ResizedAxis& a) { return (x + 0.5F) / a.scale; }},
    {k_crop, cropped},
};

struct NearestRow {
  std::string_view name;
  float (*of)(float x);
};
constexpr NearestRow k_nearest[] = {
    {"round_prefer_floor", [](float x) { return std::ceil(x - 0.5F); }},
    {"round_prefer_ceil", [](float x) { return std::floor(x + 0.5F); }},
    {"floor", [](float x) { return std::floor(x); }},
    {"ceil", [](float x) { return std::ceil(x); }},
};

template <class Rows>
auto named(Call& call, const Rows& rows, const std::string& name) {
  for (const auto& row : rows)
    if (row.name == name) return row.of;
  call.refuse("'" + name + "' is unknown");
}

struct ResizeForm {
  Coordinate coordinate;
  float (*nearest)(float x);
  bool is_linear, is_crop;
  double outside;  // value outside of the region
};

std::vector<float> coordinates(const ResizeForm& form, const ResizedAxis& a) {
  std::vector<float> list;
  for (std::int64_t i = 0; i < a.to; ++i) list.push_back(form.coordinate(static_cast<float>(i), a));
  return list;
}

Shape along(const Shape& shape, int axis) {
  Ints dims(shape.rank(), 1);
  dims[axis] = shape[axis];
  return Shape(dims);
}

Value resized(Value x, const ResizeForm& form, const ResizedAxis& a) {
  const auto last = static_cast<float>(a.from - 1);
  const std::vector<float> at = coordinates(form, a);
  std::vector<std::int32_t> low, high;
  std::vector<float> weights;
  std::vector<std::uint8_t> is_outside;
  for (const float c : at) {
    is_outside.push_back(form.is_crop && (c < 0 || c > last));
    const float inside = std::clamp(form.is_linear ? c : form.nearest(c), 0.0F, last), floor = std::floor(inside);
    low.push_back(static_cast<std::int32_t>(floor));
    high.push_back(static_cast<std::int32_t>(std::min(floor + 1, last)));
    weights.push_back(inside - floor);
  }
  Graph& graph = x.graph();
  const Shape shape = along(x.shape().with(a.axis, a.to), a.axis);
  Value y = take(x, a.axis, low);
  if (form.is_linear) {
    const Value weight = cast(constant(graph, Tensor::from(shape, weights)), x.dtype());
    y = add(mul(y, 1.0 - weight), mul(take(x, a.axis, high), weight));
  }
  if (!form.is_crop) return y;
  return select(constant(graph, Tensor::from<std::uint8_t>(shape, is_outside)), scalar_like(y, form.outside), y);
}

// Target sizes from `scales` or `sizes`; the latter may keep the aspect ratio.
void set_by_scales(Call& call, const Tensor& scales, std::vector<ResizedAxis>& axes) {
  if (scales.elements() != std::ssize(axes)) call.refuse("scales has another length than the axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].scale = static_cast<float>(scales.at(static_cast<std::int64_t>(i)));
    const float size = std::floor(axes[i].scale * static_cast<float>(axes[i].from));
    if (!(axes[i].scale > 0) || !(size <= static_cast<float>(k_max_evaluated_elements)))
      call.refuse("a scale is not positive, or too large");
    axes[i].to = static_cast<std::int64_t>(size);
  }
}
void set_by_sizes(Call& call, const Ints& sizes, const std::string& policy, std::vector<ResizedAxis>& axes) {
  if (sizes.size() != axes.size()) call.refuse("sizes has another length than the axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > k_max_evaluated_elements || axes[i].from == 0) call.refuse("a size is invalid");
    axes[i].to = sizes[i];
    axes[i].scale = static_cast<float>(sizes[i]) / static_cast<float>(axes[i].from);
  }
  if (policy == "stretch" || axes.empty()) return;
  if (policy != "not_larger" && policy != "not_smaller") call.refuse("'" + policy + "' is unknown");
  const auto smaller = [](const ResizedAxis& a, const ResizedAxis& b) { return a.scale < b.scale; };
  const float scale = policy == "not_larger" ? std::ranges::min_element(axes, smaller)->scale
                                             : std::ranges::max_element(axes, smaller)->scale;
  for (ResizedAxis& a : axes) {
    a.scale = scale;
    const float size = std::round(scale * static_cast<float>(a.from));
    if (!(size <= static_cast<float>(k_max_evaluated_elements))) call.refuse("a size is too large");
    a.to = static_cast<std::int64_t>(size);
  }
}

Value apply_axes(Call& call, Value x, const ResizeForm& form, const std::vector<ResizedAxis>& axes) {
  for (const ResizedAxis& a : axes) {
    if (a.to == a.from && a.scale == 1 && !form.is_crop) continue;
    call.narrow(a.from);
    call.importer.count_elements(4 * a.to);
    if (a.from == 0) call.refuse("axis " + std::to_string(a.axis) + " is empty");
    x = resized(x, form, a);
  }
  return x;
}

bool is_linear_mode(Call& call, Value x) {
  const std::string mode = call.text("mode", "nearest");
  if (mode == "nearest") return false;
  if (mode != "linear") call.unsupported("mode " + mode + " is not supported", "Supported: nearest, linear");
  if (!is_float(x.dtype())) call.unsupported("linear interpolation of integers is not supported");
  return true;
}

std::vector<ResizedAxis> axes_of(Call& call, Value x, const Ints& axes) {
  std::vector<ResizedAxis> list;
  for (const std::int64_t given : axes) {
    const int axis = call.axis(given, x.rank());
    list.push_back({.axis = axis, .from = x.shape()[axis], .to = 0, .scale = 1});
  }
  return list;
}
Ints all_axes(Value x) {
  Ints axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Before opset 11: coordinates x / scale, rounded up where the axis shrinks.
std::vector<Value> upsample(Call& call) {
  const Value x = call.in(0);
  std::vector<ResizedAxis> axes = axes_of(call, x, all_axes(x));
  const AttributeDef* scales = call.opset() < 9 ? call.attribute("scales") : nullptr;
  if (call.opset() < 9 && !scales) call.refuse("scales is missing");
  set_by_scales(call, scales ? Tensor::from({std::ssize(scales->floats)}, scales->floats) : call.literal(1), axes);
  const bool is_linear = is_linear_mode(call, x);
  Value y = x;
  for (const ResizedAxis& a : axes) {
    const ResizeForm form{.coordinate = named(call, k_coordinates, "asymmetric"),
                          .nearest = named(call, k_nearest, a.scale < 1 ? "ceil" : "floor"),
                          .is_linear = is_linear, .is_crop = false, .outside = 0};
    y = apply_axes(call, y, form, {a});
  }
  return {y};
}

std::vector<Value> resize(Call& call) {
  if (call.opset() < 11) return upsample(call);
  const Value x = call.in(0);
  std::vector<ResizedAxis> axes = axes_of(call, x, call.list("axes").value_or(all_axes(x)));
  const std::string coordinate = call.text("coordinate_transformation_mode", "half_pixel");
  const ResizeForm form{.coordinate = named(call, k_coordinates, coordinate),
                        .nearest = named(call, k_nearest, call.text("nearest_mode", "round_prefer_floor")),
                        .is_linear = is_linear_mode(call, x), .is_crop = coordinate == k_crop,
                        .outside = call.number("extrapolation_value", 0)};
  call.number("cubic_coeff_a", -0.75);
  if (call.integer("exclude_outside", 0) != 0) call.unsupported("exclude_outside is not supported");
  if (call.integer("antialias", 0) != 0 && form.is_linear) call.unsupported("antialias is not supported");
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  const bool has_scales = call.has(2) && call.in(2).shape().elements() > 0;
  if (has_scales) {
    set_by_scales(call, call.literal(2), axes);
    call.ignore(3);
  } else {
    call.ignore(2);
    set_by_sizes(call, call.ints(3), policy, axes);
  }
  call.ignore(1);
  if (form.is_crop) {
    const Tensor roi = call.literal(1);
    const std::int64_t n = std::ssize(axes);
    if (roi.elements() != 2 * n) call.refuse("roi has another length than twice the axes");
    for (std::int64_t i = 0; i < n; ++i) {
      axes[i].start = static_cast<float>(roi.at(i));
      axes[i].end = static_cast<float>(roi.at(n + i));
      if (!std::isfinite(axes[i].start) || !std::isfinite(axes[i].end)) call.refuse("roi is not finite");
    }
  }
  return {apply_axes(call, x, form, axes)};
}

constexpr OperatorRow k_resize_rows[] = {
    {"Resize", 10, resize},
    {"Upsample", 7, upsample},
};

}  // namespace

std::span<const OperatorRow> resize_rows() { return k_resize_rows; }

}  // namespace unroll::onnx
