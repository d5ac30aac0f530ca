// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/common/print_expression.h"
#include "backends/common/print_rows.h"
#include "backends/common/walk.h"
#include "backends/cuda/program/program.h"
#include "core/parallel/sum_plan.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using common::Dialect;
using common::Expression;
using common::Strides;
using device::Operand;

constexpr std::int64_t k_longest = 256;         // sums of a thread
constexpr std::size_t k_shared_bytes = 24 << 10;  // of the arrays of a row, beside partial sums; 48 KiB are there
constexpr std::size_t k_most_parameters = 4096;  // bytes of a launch
constexpr std::int64_t k_most_rows = 65536;     // blocks of a row kernel
constexpr std::int64_t k_scratch_blocks = 4;    // likewise, for each multiprocessor, where blocks need memory

bool has_short_indices(const Shape& shape, const Strides& strides) {
  constexpr std::int64_t end = std::int64_t{1} << 31;
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += (shape[axis] - 1) * strides[axis];
  return last < end && shape.elements() < end;
}

std::vector<std::byte> packed(const std::vector<std::int64_t>& sizes, bool is_short) {
  const std::size_t width = is_short ? sizeof(std::uint32_t) : sizeof(std::int64_t);
  std::vector<std::byte> bytes(sizes.size() * width);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const auto word = static_cast<std::uint32_t>(sizes[k]);
    std::memcpy(bytes.data() + k * width, is_short ? static_cast<const void*>(&word) : &sizes[k], width);
  }
  return bytes;
}

std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) size *= shape[axis];
  return size;
}

}  // namespace

void NodeCompiler::compile(NodeWork& work) {
  work_ = &work;
  const Node& node = graph().node(work.node);
  if (device::is_pointwise(node) || node.op == Op::iota || node.op == Op::random_uniform) {
    Operands operands;
    Expression e = node_expression(work.node, operands);
    return expression(std::move(e), std::move(operands));
  }
  switch (node.op) {
    case Op::fused_reduction: return fused_reduction(work.node);
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast:
    case Op::windows: return move_node(work.node);
    case Op::concat: return concat(work.node);
    case Op::pad: return pad(work.node);
    case Op::matmul: return matmul(work.node);
    case Op::reduce_sum:
    case Op::reduce_max:
    case Op::argmax: return reduce(work.node);
    case Op::gather: return gather(work.node);
    case Op::scatter_add: return scatter_add(work.node);
    case Op::pack_lengths: return pack_lengths(work.node);
    case Op::all_reduce: return all_reduce(work.node);
    case Op::rnn:
    case Op::gru:
    case Op::lstm:
    case Op::gradient: return recurrent(work.node);
    default:
      throw Error(ErrorKind::unsupported, "cuda", "has no kernel for " + std::string(op_info(node.op).name),
                  "Use the cpu backend");
  }
}

void NodeCompiler::add(int kernel, std::vector<std::byte> sizes, std::uint64_t blocks, unsigned threads,
                       Operands operands) {
  if (blocks == 0) return;
  constexpr std::uint64_t k_most_blocks = 0x7fffffff;
  const Node& node = graph().node(work_->node);
  if (operands.size() * sizeof(void*) + sizes.size() > k_most_parameters || blocks > k_most_blocks)
    throw Error(ErrorKind::unsupported, "cuda",
                std::string(op_info(node.op).name) + " with " + std::to_string(operands.size()) +
                    " operands is more than one launch takes",
                "Use the cpu backend");
  work_->launches.push_back({kernel, std::move(operands), std::move(sizes), static_cast<unsigned>(blocks), threads});
}

void NodeCompiler::add(const Printed& printed, Operands operands, std::int64_t items, bool finds_end) {
  const std::string text = live_text(printed.text, operands, items, finds_end);
  add(out_.kernels.add(text, printed.needs), packed(printed.sizes, false), printed.blocks, printed.threads,
      std::move(operands));
}

void NodeCompiler::expression(Expression e, Operands operands) {
  if (e.shape.elements() == 0) return;
  common::PrintOptions options;
  const auto all = common::operands_of(e);
  options.short_indices =
      std::all_of(all.begin(), all.end(), [&](const Strides* strides) { return has_short_indices(e.shape, *strides); });
  const common::PrintedKernel kernel = common::print_kernel(e, Dialect::cuda, "KERNEL", options);
  // Two elements for each thread of large values; a grid of a few waves for the largest.
  const std::int64_t blocks = (e.shape.elements() + k_threads - 1) / k_threads;
  const std::int64_t most = std::int64_t{32} * multiprocessors_;
  const std::string text = live_text(kernel.text, operands, live_items(e.shape, e.shape.elements()));
  add(out_.kernels.add(text), packed(kernel.sizes, options.short_indices),
      static_cast<std::uint64_t>(std::min(blocks, most)), k_threads, std::move(operands));
}

void NodeCompiler::fused_reduction(std::int32_t id) {
  Operands operands;
  const Expression e = node_expression(id, operands);
  const std::int64_t columns = e.shape[e.shape.rank() - 1], rows = e.shape.elements() / columns;
  common::PrintOptions options;
  options.most_shared_bytes = k_shared_bytes;
  const auto all = common::operands_of(e);
  options.short_indices =
      std::all_of(all.begin(), all.end(), [&](const Strides* strides) { return has_short_indices(e.shape, *strides); });
  const common::PrintedKernel kernel = common::print_row_kernel(e, "KERNEL", options);
  std::int64_t blocks = std::min(e.sum_rows > 0 ? rows / e.sum_rows : rows, k_most_rows);
  if (kernel.scratch_bytes > 0) {
    blocks = std::min(blocks, k_scratch_blocks * multiprocessors_);
    operands.push_back(workspace(blocks * kernel.scratch_bytes));
  }
  // Four columns for each thread, in whole warps.
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((columns + 3) / 4));
  const auto threads = static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 32, 256));
  const BlockNeeds needs{.shared_bytes = kernel.shared_bytes, .shares_rows = true};
  const std::string text = live_text(kernel.text, operands, live_items(e.shape, rows));
  add(out_.kernels.add_rows(text, needs), packed(kernel.sizes, options.short_indices),
      static_cast<std::uint64_t>(blocks), threads, std::move(operands));
}

bool NodeCompiler::library_product(const Node& node, ValueId c, BlasExtras extras, ValueId bias) {
  if (!blas_) return false;
  extras.tf32 = tf32_.has(node.inputs[0]) && tf32_.has(node.inputs[1]);
  const ProductForm form{type(node.inputs[0]).dtype, type(c).dtype};
  device::ProductShape shape = product_shape(node, c);
  if (!may_take_all_rows(node, c, shape, extras.tf32 || is_half(form.operands))) return false;
  const ValueId a = node.inputs[0];
  const bool is_aside = is_guarded(c), is_copied = begins_at_step(a);
  if (is_aside) shape.c_row = shape.n;
  if (is_copied) shape.a_row = shape.k, shape.a_column = 1;
  const std::shared_ptr<const BlasProduct> product = blas_->product(form, shape, extras);
  if (!product) return false;
  zero_tails(node, shape);
  if (!out_.product_workspace) out_.product_workspace = workspace(product->workspace_bytes());
  if (out_.product_workspace->bytes < product->workspace_bytes()) out_.product_workspace = workspace(k_blas_workspace);
  Launch launch;
  const Operand from = is_copied ? workspace(type(a).bytes()) : operand(a);
  const Operand to = is_aside ? workspace(type(c).bytes()) : operand(c);
  const Shape &of_a = type(a).shape, &of_c = type(c).shape;
  if (is_copied) move(type(a).dtype, of_a, {operand(a), 0, strides(a, of_a)}, {from, 0, common::dense_strides(of_a)});
  launch.operands = {from, operand(node.inputs[1]), to, *out_.product_workspace};
  if (extras.bias) launch.operands.push_back(operand(bias));
  launch.library = product;
  work_->launches.push_back(std::move(launch));
  if (is_aside) move(type(c).dtype, of_c, {to, 0, common::dense_strides(of_c)}, {operand(c), 0, strides(c, of_c)});
  return true;
}

bool NodeCompiler::compile(NodeWork& work, const BlasGroup& group) {
  work_ = &work;
  if (!stored_ahead(group.epilogue).empty()) return false;
  return library_product(graph().node(group.product), group.result, group.extras, group.bias);
}

void NodeCompiler::matmul(std::int32_t id) {
  const Node& node = graph().node(id);
  const ValueId c{id, 0};
  const Type& result = type(c);
  if (result.shape.elements() == 0) return;
  const std::int64_t items = result.shape.rank() == 2 ? live_items(result.shape, result.shape[0]) : 0;
  const ProductForm form{type(node.inputs[0]).dtype, result.dtype, node.inputs.size() > 2, items > 0};
  ProductSizes sizes{product_shape(node, c), node.attributes.get_or<bool>("transpose_a", false)};
  if (library_product(node, c)) return;
  const std::int64_t outputs = result.shape.elements(), k = std::max<std::int64_t>(sizes.shape.k, 1);
  const std::int64_t parts = product_parts(sizes.shape, multiprocessors_);
  sizes.part = (k + parts - 1) / parts;
  Operands operands{operand(node.inputs[0]), operand(node.inputs[1])};
  if (form.has_rows) operands.push_back(operand(node.inputs[2]));
  if (parts == 1 || is_half(result.dtype)) {
    sizes.part = k;
    operands.push_back(operand(c));
    return add(print_product(form, sizes), std::move(operands), 0, form.is_live);
  }
  // Sums of parts in workspace, densely; they are added up from the first to the last.
  const std::int64_t count = (k + sizes.part - 1) / sizes.part;
  const Operand sums = workspace(count * result.bytes());
  operands.push_back(sums);
  sizes.c_part = outputs;
  sizes.shape.c_row = sizes.shape.n;
  std::int64_t stride = sizes.shape.m * sizes.shape.n;
  for (std::size_t axis = sizes.shape.matrices.sizes.size(); axis-- > 0; stride *= sizes.shape.matrices.sizes[axis])
    sizes.shape.matrices.strides[2][axis] = stride;
  add(print_product(form, sizes), std::move(operands), 0, form.is_live);
  const Strides wanted = strides(c, result.shape);
  const bool is_dense = common::walk_of(result.shape, wanted) == common::Walk::dense;
  const Operand whole = is_dense ? operand(c) : workspace(result.bytes());
  add_reduction(Reduction::sum, result.dtype, {outputs, count, {{outputs}, {{1}}}, {{count}, {{outputs}}}}, sums,
                whole);
  if (is_dense) return;
  move(result.dtype, result.shape, {whole, 0, common::dense_strides(result.shape)}, {operand(c), 0, wanted});
}

void NodeCompiler::reduce(std::int32_t id) {
  const Node& node = graph().node(id);
  if (node.outputs[0].shape.elements() == 0) return;
  const Reduction kind = node.op == Op::reduce_sum   ? Reduction::sum
                         : node.op == Op::reduce_max ? Reduction::max
                                                     : Reduction::argmax;
  add_reduction(kind, type(node.inputs[0]).dtype, reduction_shape(node), operand(node.inputs[0]), operand({id, 0}));
}

// Sums over more elements than k_longest are made of partial sums, level by level: a fixed tree.
void NodeCompiler::add_reduction(Reduction kind, DType dtype, device::ReductionShape shape, Operand from,
                                 const Operand& to) {
  const std::int64_t items = live_items(graph().node(work_->node).outputs[0].shape, shape.outputs);
  while (kind != Reduction::argmax && shape.total > k_longest) {
    const std::int64_t chunks = (shape.total + k_longest - 1) / k_longest;
    if (kind == Reduction::sum && dtype != sum_dtype(dtype)) {
      const Operand part = workspace(shape.outputs * chunks * dtype_bytes(sum_dtype(dtype)));
      add(print_reduction(kind, dtype, {shape, chunks, k_longest, items}), {from, part}, 0, items > 0);
      from = part, dtype = sum_dtype(dtype);
    } else {
      const Operand part = workspace(shape.outputs * chunks * dtype_bytes(dtype));
      add(print_reduction(kind, dtype, {shape, chunks, k_longest, items}), {from, part}, 0, items > 0);
      from = part;
    }
    shape = {shape.outputs, chunks, {{shape.outputs}, {{1}}}, {{chunks}, {{shape.outputs}}}};
  }
  add(print_reduction(kind, dtype, {shape, 1, shape.total, items}), {from, to}, 0, items > 0);
}

void NodeCompiler::gather(std::int32_t id) {
  const Node& node = graph().node(id);
  const Type &table = type(node.inputs[0]), &out = node.outputs[0];
  add(print_gather(out.dtype, table.shape[0], row_size(table.shape), out.shape.elements()),
      {operand(node.inputs[0]), operand(node.inputs[1]), operand({id, 0})},
      live_items(out.shape, out.shape.elements()));
}

void NodeCompiler::scatter_add(std::int32_t id) {
  const Node& node = graph().node(id);
  const Type& out = node.outputs[0];
  const std::int64_t n = type(node.inputs[0]).shape.elements();
  const Operand indices = operand(node.inputs[0]), to = operand({id, 0});
  if (out.shape.elements() == 0) return;
  const Printed sum = print_scatter(out.dtype, out.shape[0], row_size(out.shape), n);
  fill_zero(out.dtype, out.shape, {to, 0, common::dense_strides(out.shape)});
  if (n == 0) return;
  const Operand links = workspace(2 * n * sizeof(std::int32_t));
  add(print_links(n), {indices, links});
  add(sum, {indices, operand(node.inputs[1]), links, to});
}

void NodeCompiler::pack_lengths(std::int32_t id) {
  const Node& node = graph().node(id);
  Operands operands{operand(node.inputs[0])};
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
    operands.push_back(operand({id, k}));
  add(print_pack_lengths(type(node.inputs[0]).shape.elements(), node.attributes.get<std::int64_t>("steps")),
      std::move(operands));
}

// The sum over ranks by the plan that hosts follow, too: messages of devices, and additions in the order of the
// micro-batches.
void NodeCompiler::all_reduce(std::int32_t id) {
  using Part = SumPlan::Part;
  const Node& node = graph().node(id);
  const auto n = [&](const char* name) { return node.attributes.get<std::int64_t>(name); };
  const Type& whole = node.outputs[0];
  const SumPlan plan = sum_plan(n("micro_batches"), static_cast<int>(n("rank")), static_cast<int>(n("ranks")),
                                whole.shape.elements());
  const Operand result = operand({id, 0});
  const Operand work = workspace(plan.work * dtype_bytes(whole.dtype));
  const auto at = [&](const Part& part) {
    Operand place = part.where == Part::Where::block  ? operand(node.inputs[part.block])
                    : part.where == Part::Where::work ? work
                                                      : result;
    device::skip(place, static_cast<std::int64_t>(part.at), whole.dtype);
    return place;
  };
  const auto run = [&](const std::vector<SumPlan::Stage>& stages) {
    for (const SumPlan::Stage& stage : stages) {
      Launch group;
      for (const bool sends : {true, false})
        for (const auto& [peer, part] : sends ? stage.send : stage.receive) {
          group.operands.push_back(at(part));
          group.transfers.push_back({sends, peer, part.n, whole.dtype});
        }
      if (!group.transfers.empty()) work_->launches.push_back(std::move(group));
      for (const auto& [left, right, sum] : stage.additions)
        add(print_addition(whole.dtype, static_cast<std::int64_t>(sum.n)), {at(left), at(right), at(sum)});
    }
  };
  run(plan.stages);
  if (plan.slice) {
    const Shape slice{static_cast<std::int64_t>(plan.slice->to.n)};
    move(whole.dtype, slice, {at(plan.slice->from), 0, {1}}, {at(plan.slice->to), 0, {1}});
  }
  run(plan.gather);
}

}  // namespace unroll::cuda
