// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/packed_matmul.h"

#include <optional>

#include "unroll/ir/ops.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

std::size_t bytes_of(DType dtype, Index elements) { return elements * dtype_bytes(dtype); }

Matmul columns_of(Matmul matmul, const ColumnSplit::Product& split, Range units) {
  matmul.n = split.groups * (units.end - units.begin);
  if (split.apart) matmul.c_stride = matmul.n;
  return matmul;
}

// Bytes of the packed shares of all workers, one after the other.
std::size_t packed_bytes_of_parts(const Matmul& matmul, const ColumnSplit::Product& split, int parts) {
  std::size_t sum = 0;
  for (int worker = 0; worker < parts; ++worker)
    sum += packed_bytes(columns_of(matmul, split, units_of(worker, parts, split.units)));
  return sum;
}

}  // namespace

PackedMatmul::PackedMatmul(const Matmul& matmul, const Operands& operands, int parts)
    : matmul_(matmul),
      at_(operands),
      packed_(packed_bytes(matmul)),
      scratch_bytes_(aligned(packed_scratch_bytes(matmul))),
      scratch_(parts * scratch_bytes_) {}

PackedMatmul::PackedMatmul(const Matmul& matmul, const Operands& operands, const ColumnSplit::Product& split, int parts)
    : matmul_(matmul),
      at_(operands),
      split_(split),
      packed_(packed_bytes_of_parts(matmul, split, parts)),
      scratch_bytes_(aligned(packed_scratch_bytes(matmul))),
      scratch_(parts * scratch_bytes_) {
  std::size_t packed = 0;
  for (int worker = 0; worker < parts; ++worker) {
    const Range units = units_of(worker, parts, split.units);
    const Matmul own = columns_of(matmul, split, units);
    const Index before = split.apart ? matmul.m * split.groups * units.begin : units.begin;
    own_.push_back({units, own, packed, bytes_of(matmul.result, before)});
    packed += packed_bytes(own);
  }
}

void PackedMatmul::pack(const Frame& frame, const Worker& worker) {
  if (own_.empty()) return run_pack(matmul_, at_.b.in(frame), packed_.data(), worker);
  const Own& own = own_[worker.index];
  run_pack_columns(matmul_, at_.b.in(frame), split_.groups, own.units, packed_.data() + own.packed);
}

void PackedMatmul::run(const Frame& frame, const Worker& worker) {
  const Index rows = frame.rows.of(matmul_.m);
  std::byte* const scratch = scratch_of(worker);
  if (own_.empty()) {
    std::optional<Matmul> fewer;  // a copy, which most calls need not make
    if (rows != matmul_.m) fewer.emplace(matmul_).m = rows;
    const Block block = run_packed(fewer ? *fewer : matmul_, at_.a.in(frame), packed_.data(), at_.c.in(frame), worker,
                                   scratch);
    if (epilogue_) epilogue_->resolve(frame, worker).run(block);
    return;
  }
  const Own& own = own_[worker.index];
  run_packed(first_rows(own.matmul, rows), at_.a.in(frame), packed_.data() + own.packed, at_.c.in(frame) + own.c,
             Worker{}, scratch);
}

std::string PackedMatmul::implementation() const {
  if (own_.empty()) return "matmul, packed once per scan" + (epilogue_ ? epilogue_->name() : "");
  return "matmul of own columns" + std::string(split_.apart ? " apart" : "") + ", packed once per scan";
}

std::vector<Access> PackedMatmul::accesses() const {
  if (own_.empty() || split_.units == 0) return {};
  const auto size = static_cast<Index>(dtype_bytes(matmul_.result));
  const auto offset = static_cast<Index>(at_.c.offset);
  const Owner owner{split_.units, split_.apart ? offset : offset % (split_.units * size), size, split_.apart};
  return {{at_.a, bytes_of(matmul_.dtype, (matmul_.m - 1) * matmul_.a_stride + matmul_.k)},
          {at_.c, bytes_of(matmul_.result, matmul_.m * matmul_.c_stride), owner, true}};
}

Matmul matmul_of(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  const Type &a = view.graph().type(node.inputs[0]), &b = view.graph().type(node.inputs[1]);
  Matmul m = make_matmul(a, b, node.attributes.get<bool>("transpose_a"), node.attributes.get<bool>("transpose_b"));
  m.result = node.outputs[0].dtype;
  // Only single matrices have a row stride; strides of batches follow from the shape.
  if (a.shape.rank() > 2) return m;
  const auto read = [&](const ValueId& id, Index& stride, std::shared_ptr<const WindowRows>& windows) {
    if (view.storage(id).viewed.rank() > 0)
      windows = std::make_shared<const WindowRows>(view.viewed(id), view.strides(id), view.graph().type(id).shape[0]);
    else if (!view.storage(id).strides.empty()) stride = view.strides(id)[0];
  };
  read(node.inputs[0], m.a_stride, m.a_windows);
  read(node.inputs[1], m.b_stride, m.b_windows);
  return m;
}

bool is_constant_matmul(const Plan& plan, std::int32_t id) {
  const Node& node = plan.graph->node(id);
  if (node.op != Op::matmul || node.inputs.size() > 2 || node.attributes.get<bool>("transpose_a")) return false;
  const Type& type = plan.graph->type(node.inputs[1]);
  return plan.graph->node(node.inputs[1].node).op == Op::constant && type.shape.rank() == 2 &&
         type.shape.elements() > 0;
}

bool is_packed_matmul(const PlanView& view, std::int32_t id, const ScanForm& form) {
  return form.product(id) && matmul_of(view, id).single();
}

std::unique_ptr<PackedMatmul> make_packed_matmul(const PlanView& view, std::int32_t id, const ColumnSplit* split) {
  const Node& node = view.graph().node(id);
  const PackedMatmul::Operands operands{view.ref(node.inputs[0]), view.ref(node.inputs[1]), view.ref(ValueId{id, 0})};
  if (!split) return std::make_unique<PackedMatmul>(matmul_of(view, id), operands, view.parts);
  return std::make_unique<PackedMatmul>(matmul_of(view, id), operands, split->product(id), view.parts);
}

}  // namespace unroll::cpu
