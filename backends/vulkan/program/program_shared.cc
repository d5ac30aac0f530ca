// SPDX-License-Identifier: Apache-2.0
// Products of one matrix a, and the sums of its rows, in one dispatch: the gradients of the weights and of the bias of
// a layer, d[T*B, N]^T x and d^T h, read the gradients of the gates once.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/program/program.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

bool same_place(const Operand& a, const Operand& b) {
  return a.storage.place == b.storage.place && a.storage.index == b.storage.index &&
         a.storage.offset == b.storage.offset && !a.workspace && !b.workspace;
}

// True if `node` may run as early as `first`: nothing that runs then or later must come before it.
bool may_come_first(const common::Hazards& hazards, std::int32_t node, std::int32_t first,
                    const std::vector<Assignment>& assignments) {
  return std::none_of(hazards.edges.begin(), hazards.edges.end(), [&](const auto& edge) {
    if (edge.second != node) return false;
    const Assignment& before = assignments[edge.first];
    return (before.kind == Assignment::Kind::none ? before.group : before.node) >= first;
  });
}

}  // namespace

std::optional<NodeCompiler::Factor> NodeCompiler::factor_of(std::int32_t id) {
  const Node& node = graph().node(id);
  const ValueId out{id, 0};
  Factor factor{.node = id};
  if (node.op == Op::matmul && node.inputs.size() == 2 && type(out).shape.elements() > 0) {
    factor.sizes = product_sizes(node, out, factor.product);
    if (factor.product.batch_rank > 0) return std::nullopt;
    factor.is_product = true;
  } else if (node.op == Op::reduce_sum && type(out).shape.elements() > 0 && type(out).dtype == DType::f32) {
    const device::ReductionShape shape = reduction_shape(node);
    if (shape.kept.sizes.size() > 1 || shape.reduced.sizes.size() != 1) return std::nullopt;
    factor.sizes.m = word(shape.outputs), factor.sizes.k = word(shape.total);
    factor.sizes.a_row = shape.kept.sizes.empty() ? 1 : word(shape.kept.strides[0][0]);
    factor.sizes.a_column = word(shape.reduced.strides[0][0]);
    factor.product.operands = type(node.inputs[0]).dtype;
    if (common::walk_of(type(out).shape, strides(out, type(out).shape)) != common::Walk::dense) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!is_stored(node.inputs[0]) || !is_stored(out)) return std::nullopt;
  factor.a = operand(node.inputs[0]);
  return factor;
}

bool NodeCompiler::shares(const Factor& product, const Factor& other) const {
  const ProductSizes &p = product.sizes, &o = other.sizes;
  if (!same_place(product.a, other.a) || p.m != o.m || p.k != o.k || p.a_column != o.a_column || p.a_row != o.a_row ||
      product.product.operands != other.product.operands)
    return false;
  if (!other.is_product) return product.product.operands == DType::f32;
  return product.product.result == other.product.result && product.product.b_by_k == other.product.b_by_k;
}

std::vector<SharedProducts> NodeCompiler::shared_products(const common::Hazards& hazards,
                                                         const std::vector<Assignment>& assignments) {
  std::vector<Factor> factors;
  for (const Assignment& each : assignments)
    if (each.kind == Assignment::Kind::node)
      if (auto factor = factor_of(each.node)) factors.push_back(std::move(*factor));
  std::vector<SharedProducts> all;
  std::vector<bool> taken(factors.size(), false);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (taken[i] || !factors[i].is_product) continue;
    SharedProducts group{{factors[i].node}};
    std::vector<std::size_t> members{i};
    for (std::size_t k = 0; k < factors.size(); ++k) {
      if (k == i || taken[k] || (!factors[k].is_product && group.sum >= 0) || !shares(factors[i], factors[k])) continue;
      if (factors[k].is_product && k < i) continue;
      std::int32_t first = std::min(group.first, factors[k].node);
      if (group.first < 0) first = std::min(factors[i].node, factors[k].node);
      const bool fits = may_come_first(hazards, factors[k].node, first, assignments) &&
                        std::all_of(members.begin(), members.end(), [&](std::size_t member) {
                          return may_come_first(hazards, factors[member].node, first, assignments);
                        });
      if (!fits) continue;
      group.first = first;
      members.push_back(k);
      if (factors[k].is_product) group.products.push_back(factors[k].node);
      else group.sum = factors[k].node;
    }
    if (members.size() == 1 || !tile_of(group)) continue;
    for (const std::size_t member : members) taken[member] = true;
    all.push_back(std::move(group));
  }
  return all;
}

// The product for the group, if one dispatch suffices: a sum in parts has a dispatch for each member anyway.
std::optional<NodeCompiler::SharedWork> NodeCompiler::tile_of(const SharedProducts& group) {
  const auto first = factor_of(group.products[0]);
  SharedWork work{.product = first->product, .sizes = first->sizes};
  work.operands.push_back(first->a);
  Operands results;
  for (const std::int32_t n : group.products) {
    const auto factor = factor_of(n);
    work.operands.push_back(operand(graph().node(n).inputs[1]));
    results.push_back(operand({n, 0}));
    if (n == group.products[0]) continue;
    work.sizes.others.push_back({factor->sizes.units, factor->sizes.b_row, factor->sizes.b_column,
                                 factor->sizes.c_row});
  }
  if (group.sum >= 0) results.push_back(operand({group.sum, 0}));
  work.operands.insert(work.operands.end(), results.begin(), results.end());
  work.product.members = static_cast<int>(group.products.size());
  work.product.sums = group.sum >= 0;
  ProductSizes all = work.sizes;
  for (const auto& each : all.others) all.units += each.units;
  const auto tiling = choose_tiling(all, 1, Sum::in_parts, context_.device.limits());
  if (!tiling || tiling->part < all.k || work.operands.size() > most_operands()) return std::nullopt;
  work.product.tile = tiling->tile;
  work.sizes.part = tiling->part;
  return work;
}

void NodeCompiler::compile(NodeWork& work, const SharedProducts& group) {
  const SharedWork made = *tile_of(group);
  const std::uint32_t local = made.product.tile.invocations();
  add(work, product_key(made.product), made.operands, product_params(made.product, made.sizes),
      product_groups(made.product, made.sizes) * local,
      [&] { return product_shader(made.product, setting()); }, local);
  for (const std::int32_t n : group.products)
    if (n != work.node) work.joined.push_back(n);
  if (group.sum >= 0 && group.sum != work.node) work.joined.push_back(group.sum);
}

}  // namespace unroll::vulkan
