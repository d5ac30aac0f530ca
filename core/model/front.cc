// SPDX-License-Identifier: Apache-2.0
#include "core/model/front.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/model/cells/delayed.h"
#include "core/nn/in_layer.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/nearest_name.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace front_parts {
namespace {

constexpr const char* k_front = "model.front";

enum class Padding : std::uint8_t { causal, same };

struct FrontLayer {
  std::int64_t channels = 0, kernel = 1, stride = 1, dilation = 1, groups = 1;
  double rate = 0;
  Padding padding = Padding::causal;
  bool bias = true;
  bool is_pool = false;
  std::int64_t reach() const { return (kernel - 1) * dilation; }
  bool looks_ahead() const { return padding == Padding::same && kernel > 1; }
  bool keeps_steps() const { return stride == 1 && !(is_pool && kernel > 1); }
  bool has_state() const { return !is_pool && padding == Padding::causal && reach() > 0; }
};

struct Call {
  Scope scope;
  Value x;  // [T,B,C]
  FrontLayer layer;
  const FrontContext& context;
  std::vector<Value>* states;  // of the layers so far
};

Value convolved(Call& c) {
  const FrontLayer& o = c.layer;
  ConvOptions options{.axes = {0}, .stride = {o.stride}, .dilation = {o.dilation}, .groups = o.groups};
  if (o.padding == Padding::same) {
    options.low = {o.reach() / 2};
    options.high = {o.reach() - o.reach() / 2};
    return conv_layer(c.scope, without_padding(c.x, c.context.lengths), o.channels, {o.kernel}, options, o.bias);
  }
  if (!o.has_state()) return conv_layer(c.scope, c.x, o.channels, {o.kernel}, options, o.bias);
  const FrontContext& context = c.context;
  const Value initial = context.initial.empty() ? Value() : context.initial[c.states->size()];
  const Delayed past = delayed(c.x, initial, o.reach(), context.lengths, context.reset);
  c.states->push_back(past.state);
  if (!context.reset) return conv_layer(c.scope, past.padded, o.channels, {o.kernel}, options, o.bias);
  // With resets, the kernel's steps side by side as one axis: [T,B,C,kernel] is a convolution of full width over it.
  std::vector<Value> taps;
  for (std::int64_t j = o.kernel; j-- > 0;) {
    const Shape& s = c.x.shape();
    taps.push_back(reshape(past.taps[j * o.dilation], {s[0], s[1], 1, s[2]}));
  }
  const ConvOptions over_taps{.axes = {2}, .groups = o.groups};
  const Value y = conv_layer(c.scope, concat(taps, 2), o.channels, {o.kernel}, over_taps, o.bias);
  return reshape(y, {c.x.shape()[0], c.x.shape()[1], o.channels});
}

template <auto pool>
Value pooled_steps(Call& c) {
  const FrontLayer& o = c.layer;
  return pool(c.x, {o.kernel}, {.axes = {0}, .stride = {o.stride}});
}
Value average(Value x, const Ints& size, const ConvOptions& options) { return average_pool(x, size, options); }

template <Value (*function)(Value)>
Value each(Call& c) {
  return function(c.x);
}

struct FrontRow {
  std::string_view name, usage;
  std::vector<std::string_view> arguments;  // in the order in which they may be given without their names
  std::size_t needed;
  Value (*build)(Call& call);
};
const std::vector<FrontRow>& front_rows() {
  static const std::vector<FrontRow> rows{
      {"conv", "conv(CHANNELS, kernel=3, stride=1, dilation=1, groups=1, padding=causal|same, bias=true)",
       {"channels", "kernel", "stride", "dilation", "groups", "padding", "bias"}, 2, convolved},
      {"max_pool", "max_pool(2, stride=2)", {"kernel", "stride"}, 1, pooled_steps<max_pool>},
      {"average_pool", "average_pool(2, stride=2)", {"kernel", "stride"}, 1, pooled_steps<average>},
      {"layer_norm", "layer_norm", {}, 0, [](Call& c) { return layer_norm_layer(c.scope, c.x); }},
      {"dropout", "dropout(0.1)", {"rate"}, 1, [](Call& c) { return dropout_layer(c.scope, c.x, c.layer.rate); }},
      {"relu", "relu", {}, 0, each<relu>},
      {"gelu", "gelu", {}, 0, each<gelu>},
      {"silu", "silu", {}, 0, each<silu>},
      {"tanh", "tanh", {}, 0, each<tanh>},
      {"sigmoid", "sigmoid", {}, 0, each<sigmoid>},
      {"glu", "glu", {}, 0, each<glu>},
  };
  return rows;
}

[[noreturn]] void refuse_front(const std::string& text, const std::string& what, const std::string& next = {}) {
  throw Error(ErrorKind::usage, k_front, in_quotes(text) + " " + what, next);
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Reads a text such as "conv(64, kernel=3)".
class FrontText {
 public:
  explicit FrontText(const std::string& text) : text_(text) {
    const std::size_t open = text.find('(');
    const std::string name(trimmed(std::string_view(text).substr(0, open)));
    const auto& rows = front_rows();
    const auto found = std::ranges::find(rows, name, &FrontRow::name);
    if (found == rows.end()) {
      std::vector<std::string_view> names;
      for (const FrontRow& known : rows) names.push_back(known.name);
      refuse_front(text, "is no layer", known_names(name, names));
    }
    row = &*found;
    std::string_view inside;
    if (open != std::string::npos) {
      const std::string_view rest = trimmed(std::string_view(text).substr(open + 1));
      if (!rest.ends_with(')')) refuse("lacks a ')' at its end");
      inside = trimmed(rest.substr(0, rest.size() - 1));
    }
    std::vector<std::string_view> given;
    while (!inside.empty()) {
      const std::size_t comma = inside.find(',');
      take(trimmed(inside.substr(0, comma)), given);
      inside = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    }
    for (std::size_t k = 0; k < row->needed; ++k)
      if (std::ranges::count(given, row->arguments[k]) == 0) refuse("lacks " + std::string(row->arguments[k]));
    layer.is_pool = row->name.ends_with("_pool");
    if (layer.is_pool && std::ranges::count(given, "stride") == 0) layer.stride = layer.kernel;
  }

  const FrontRow* row = nullptr;
  FrontLayer layer;

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_front(text_, what, "Write " + std::string(row->usage));
  }
  void take(std::string_view argument, std::vector<std::string_view>& given) {
    const std::size_t equals = argument.find('=');
    std::string_view key, value = argument;
    if (equals != std::string_view::npos) {
      key = trimmed(argument.substr(0, equals));
      value = trimmed(argument.substr(equals + 1));
    } else if (given.size() < row->arguments.size()) {
      key = row->arguments[given.size()];
    }
    const auto known = std::ranges::find(row->arguments, key);
    if (known == row->arguments.end()) refuse("has an argument " + in_quotes(std::string(argument)));
    if (std::ranges::count(given, key) > 0) refuse("has two values for " + std::string(key));
    given.push_back(*known);
    set(key, value);
  }
  void set(std::string_view key, std::string_view value) {
    struct Number {
      std::string_view key;
      std::int64_t FrontLayer::*field;
    };
    constexpr Number k_numbers[] = {{"channels", &FrontLayer::channels}, {"kernel", &FrontLayer::kernel},
                                    {"stride", &FrontLayer::stride},     {"dilation", &FrontLayer::dilation},
                                    {"groups", &FrontLayer::groups}};
    for (const Number& number : k_numbers)
      if (number.key == key) layer.*number.field = whole(key, value);
    if (key == "rate" && !(number_of(value) >= 0 && number_of(value) < 1)) refuse("needs a rate in [0,1)");
    if (key == "rate") layer.rate = number_of(value);
    if (key == "padding") layer.padding = word(key, value, "causal", "same") ? Padding::causal : Padding::same;
    if (key == "bias") layer.bias = word(key, value, "true", "false");
  }
  bool word(std::string_view key, std::string_view value, std::string_view a, std::string_view b) const {
    if (value != a && value != b)
      refuse("needs " + std::string(key) + " " + std::string(a) + " or " + std::string(b));
    return value == a;
  }
  double number_of(std::string_view value) const {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      refuse("has " + in_quotes(std::string(value)) + " where a number must be");
    return number;
  }
  std::int64_t whole(std::string_view key, std::string_view value) const {
    constexpr std::int64_t k_most = 1 << 20;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 1 || number > k_most)
      refuse("needs a whole " + std::string(key) + " from 1 to " + std::to_string(k_most));
    return number;
  }

  const std::string& text_;
};

void check_context(const std::string& text, const FrontLayer& layer, const FrontContext& context) {
  if (!layer.keeps_steps() && (context.is_carried || context.lengths))
    refuse_front(text, "has a stride, and here every step has an output",
                 "Use stride=1, or a model with one output for a sequence");
  if (layer.looks_ahead() && context.is_carried)
    refuse_front(text, "reads later steps, which are not known here", "Use padding=causal");
}

}  // namespace
}  // namespace front_parts

std::size_t front_states(const std::vector<std::string>& front) {
  std::size_t n = 0;
  for (const std::string& text : front) n += front_parts::FrontText(text).layer.has_state() ? 1 : 0;
  return n;
}

FrontResult front_layers(const Scope& scope, Value x, const std::vector<std::string>& front,
                         const FrontContext& context) {
  FrontResult result{.y = x, .states = {}};
  for (std::size_t k = 0; k < front.size(); ++k) {
    const front_parts::FrontText read(front[k]);
    front_parts::check_context(front[k], read.layer, context);
    front_parts::Call call{scope.child(std::to_string(k)), result.y, read.layer, context, &result.states};
    const std::int64_t steps = result.y.shape()[0];
    result.y = in_layer(call.scope, [&] { return read.row->build(call); });
    if (steps > 0 && result.y.shape()[0] == 0)
      throw Error(ErrorKind::shape, front_parts::k_front,
                  in_quotes(front[k]) + " leaves no step of " + std::to_string(steps),
                  "Use longer sequences, or smaller kernels and strides");
  }
  return result;
}

}  // namespace unroll
