// SPDX-License-Identifier: Apache-2.0
// Convolutions of one and two axes, their transposes, pooling, and the sum of overlapping windows.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct ConvRow {
  const char* name;
  Shape x, weight;  // weight [O, K..., C / groups], or [C, K..., O / groups] of a transpose
  ConvOptions options;
  bool has_bias = true;
};
const ConvRow k_convs[] = {
    {"sequences", {2, 7, 3}, {4, 3, 3}, {.axes = {1}}},
    {"steps first", {7, 2, 3}, {4, 3, 3}, {.axes = {0}}, false},
    {"causal", {2, 6, 3}, {4, 3, 3}, {.axes = {1}, .low = {2}}},
    {"strides and dilation", {2, 12, 3}, {2, 3, 3},
     {.axes = {1}, .stride = {2}, .dilation = {3}, .low = {1}, .high = {2}}},
    {"cut at the ends", {1, 9, 2}, {3, 2, 2}, {.axes = {1}, .low = {-1}, .high = {-2}}},
    {"one position", {3, 4, 2}, {5, 1, 2}, {.axes = {1}}},
    {"no position", {2, 2, 3}, {4, 3, 3}, {.axes = {1}}},
    {"groups", {2, 6, 4}, {6, 3, 2}, {.axes = {1}, .high = {2}, .groups = 2}},
    {"channels apart", {2, 6, 4}, {4, 3, 1}, {.axes = {1}, .low = {2}, .groups = 4}},
    {"images", {2, 4, 5, 3}, {4, 3, 2, 3}, {.axes = {1, 2}, .stride = {1, 2}, .low = {1, 0}, .high = {1, 1}}},
    {"images, channels apart", {1, 5, 4, 2}, {2, 3, 3, 1}, {.axes = {1, 2}, .stride = {2, 1}, .groups = 2}},
    {"an image column first", {4, 2, 5, 2}, {3, 2, 3, 2}, {.axes = {0, 2}, .dilation = {2, 1}}, false},
    {"many channels", {2, 33, 40}, {48, 5, 40}, {.axes = {1}, .low = {2}, .high = {2}}},
};
const ConvRow k_transposes[] = {
    {"sequences", {2, 4, 3}, {3, 3, 2}, {.axes = {1}, .stride = {2}}},
    {"wide stride", {4, 2, 3}, {3, 2, 2}, {.axes = {0}, .stride = {3}, .high = {-1}}},
    {"dilation", {2, 4, 3}, {3, 3, 2}, {.axes = {1}, .stride = {2}, .dilation = {2}, .low = {1}, .high = {2}}, false},
    {"groups", {2, 3, 4}, {4, 2, 3}, {.axes = {1}, .groups = 2}},
    {"images", {1, 3, 2, 2}, {2, 2, 3, 3}, {.axes = {1, 2}, .stride = {2, 1}, .low = {1, 1}}},
};

void add_conv(Cases& cases, const char* kind, const ConvRow& row, decltype(&conv) function, std::int64_t outputs) {
  cases.push_back({.name = std::string(kind) + row.name, .build = [=](Graph& g, DType d) {
                     const Value bias = row.has_bias ? g.input("bias", {d, {outputs}}) : Value();
                     g.output("y", function(g.input("x", {d, row.x}), g.input("weight", {d, row.weight}), bias,
                                            row.options));
                   },
                   .agreement = {Rule::norm, static_cast<int>(row.weight.removed(0).elements())},
                   .differentiable = row.x.elements() < 1000});
}

struct PoolRow {
  const char* name;
  Shape x;
  Ints size;
  ConvOptions options;
};
const PoolRow k_pools[] = {
    {"sequences", {2, 7, 3}, {3}, {.axes = {1}, .stride = {2}}},
    {"padding", {6, 2, 3}, {2}, {.axes = {0}, .low = {1}, .high = {1}}},
    {"images", {1, 4, 5, 2}, {2, 3}, {.axes = {1, 2}, .dilation = {2, 1}, .low = {0, 1}, .high = {1, 1}}},
};

}  // namespace

void add_convolution_cases(Cases& cases) {
  for (const ConvRow& row : k_convs) add_conv(cases, "conv over ", row, conv, row.weight[0]);
  for (const ConvRow& row : k_transposes)
    add_conv(cases, "conv_transpose over ", row, conv_transpose,
             row.weight[row.weight.rank() - 1] * row.options.groups);
  for (const PoolRow& row : k_pools) {
    // No two values are equal, so that the maximum has a gradient.
    cases.push_back({.name = std::string("max_pool over ") + row.name, .build = [row](Graph& g, DType d) {
                       const Value x = g.input("x", {d, row.x});
                       const Value apart = cast(iota(g, {row.x.elements()}, 0), d);
                       g.output("y", max_pool(x * 0.25 + reshape(apart, row.x) * 2, row.size, row.options));
                     },
                     .agreement = {Rule::norm, 2}});
    for (const bool counts : {false, true})
      cases.push_back({.name = std::string("average_pool ") + (counts ? "with padding over " : "over ") + row.name,
                       .build =
                           [row, counts](Graph& g, DType d) {
                             g.output("y", average_pool(g.input("x", {d, row.x}), row.size, row.options, counts));
                           },
                       .agreement = {Rule::norm, 8}});
  }
  struct Sum {
    Shape x;
    int axis;
    std::int64_t length, stride, dilation;
  };
  for (const Sum& sum : {Sum{{2, 5, 3, 2}, 1, 7, 1, 1}, {{5, 2, 5, 3}, 0, 18, 3, 1}, {{3, 4, 2}, 0, 15, 2, 3}})
    cases.push_back({.name = "overlap_add of " + sum.x.text(), .build = [sum](Graph& g, DType d) {
                       g.output("y", overlap_add(g.input("x", {d, sum.x}), sum.axis, sum.length, sum.stride,
                                                 sum.dilation));
                     },
                     .agreement = {Rule::norm, 5},
                     .constant_output = true});
}

}  // namespace unroll::testing
