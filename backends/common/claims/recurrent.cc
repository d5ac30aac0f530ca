// SPDX-License-Identifier: Apache-2.0
#include "backends/common/claims/recurrent.h"

#include <algorithm>
#include <iterator>

namespace unroll::common {

namespace {

constexpr Parameter k_parameters[] = {Parameter::weight_ih, Parameter::weight_hh, Parameter::bias_ih,
                                      Parameter::bias_hh,   Parameter::weight_hr, Parameter::weight_ci,
                                      Parameter::weight_cf, Parameter::weight_co};

bool has(const Recurrent& r, Parameter parameter) {
  switch (parameter) {
    case Parameter::weight_ih:
    case Parameter::weight_hh: return true;
    case Parameter::bias_ih:
    case Parameter::bias_hh: return r.bias;
    case Parameter::weight_hr: return r.projects;
    default: return r.peephole;
  }
}

}  // namespace

Recurrent recurrent_of(const Graph& graph, const Node& node, DType format) {
  const Attributes& a = node.attributes;
  const bool gradient = node.op == Op::gradient;
  Recurrent r{};
  r.cell = gradient ? find_op(a.get<std::string>("of"))->op : node.op;
  const Type& x = graph.type(node.inputs[0]);
  r.dtype = x.dtype;
  r.format = format;
  r.T = x.shape[0], r.B = x.shape[1], r.I = x.shape[2];
  r.H = a.get<std::int64_t>("hidden");
  const std::int64_t projection = a.get_or<std::int64_t>("projection", 0);
  r.projects = projection > 0;
  r.P = r.projects ? projection : r.H;
  r.L = a.get<std::int64_t>("layers");
  r.D = a.get_or<bool>("bidirectional", false) ? 2 : 1;
  r.bias = a.get_or<bool>("bias", false);
  r.relu = a.get_or<bool>("relu", false);
  r.reset_after = a.get_or<bool>("reset_after", false);
  r.peephole = a.get_or<bool>("peephole", false);
  r.lengths = a.get_or<bool>("lengths", false);
  r.dropout = a.get<double>("dropout");
  r.first_parameter = 2 + static_cast<std::size_t>(r.has_c()) + r.lengths + (r.dropout > 0);
  r.n_inputs = gradient ? a.get<std::int64_t>("n_inputs") : node.inputs.size();
  r.n_parameters = (r.n_inputs - r.first_parameter) / (r.L * r.D);
  return r;
}

int position_of(const Recurrent& r, Parameter parameter) {
  if (!has(r, parameter)) return -1;
  return static_cast<int>(std::count_if(std::begin(k_parameters),
                                        std::find(std::begin(k_parameters), std::end(k_parameters), parameter),
                                        [&](Parameter p) { return has(r, p); }));
}

}  // namespace unroll::common
