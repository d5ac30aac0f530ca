// SPDX-License-Identifier: Apache-2.0
// Matmul groups: each worker runs the epilogue on the blocks of the matmul that it has just computed.
#include <algorithm>
#include <functional>
#include <optional>

#include "backends/cpu/gemm/openblas.h"
#include "backends/cpu/gemm/weights.h"
#include "backends/cpu/program/elementwise_call.h"
#include "backends/cpu/program/state.h"
#include "core/support/text/counted.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

// Returns the strides of `shape` read as [m, n], if possible.
std::optional<Strides> matrix_strides(const Shape& shape, const Strides& strides, Index m, Index n) {
  const Index sizes[] = {n, m};
  Strides result{};
  int axis = shape.rank();
  for (int k = 0; k < 2; ++k) {
    Index joined = 1;
    for (; axis > 0 && joined < sizes[k]; --axis) {
      const Index size = shape[axis - 1], stride = strides[axis - 1];
      if (size == 1) continue;
      Index& own = result[1 - k];
      if (joined > 1 && stride != own * joined) return std::nullopt;
      if (joined == 1) own = stride;
      joined *= size;
    }
    if (joined != sizes[k]) return std::nullopt;
  }
  return result;
}

bool read_as_matrix(Expression& source, Index m, Index n) {
  const auto change = [&](auto& operands) {
    return std::all_of(operands.begin(), operands.end(), [&](auto& operand) {
      const auto strides = matrix_strides(source.shape, operand.strides, m, n);
      if (strides) operand.strides = *strides;
      return strides.has_value();
    });
  };
  if (!change(source.inputs) || !change(source.results)) return false;
  source.shape = {m, n};
  return true;
}

// True if the epilogue overwrites memory that other workers may still read for the matmul.
bool writes_over_operands(const PlanView& view, const ProductGroup& group) {
  const std::size_t first_output = k_first_input + view.graph().inputs().size();
  const auto lies_at = [&](const Ref& ref) {  // an output may be bound to its donor's memory
    if (ref.base == k_scratch || ref.base < first_output) return ref.base;
    const int donor = view.plan.donors[ref.base - first_output];
    return donor < 0 ? ref.base : k_first_input + static_cast<std::uint32_t>(donor);
  };
  const auto overlap = [&](const Access& a, const Access& b) {
    return lies_at(a.ref) == lies_at(b.ref) && a.ref.offset < b.ref.offset + b.bytes &&
           b.ref.offset < a.ref.offset + a.bytes;
  };
  const auto product = accesses_of_node(view, group.product), epilogue = accesses_of_node(view, group.epilogue);
  return std::any_of(product.begin(), product.end(), [&](const Access& read) {
    return !read.writes && std::any_of(epilogue.begin(), epilogue.end(), [&](const Access& written) {
      return written.writes && overlap(read, written);
    });
  });
}

// True if a worker computes all gates of its rows at once.
bool has_all_gates(const PlanView& view, const ProductGroup& group) {
  if (group.gates == 1) return true;
  const Matmul m = matmul_of(view, group.product);
  if (is_constant_matmul(view.plan, group.product))
    return view.parts == 1 || (format_of(m, view.plan.weights) == WeightFormat::f32 &&
                               computes_whole_rows_packed(m, view.parts));
  if (view.whole) return computes_whole_rows(m, view.parts);
  // In a packed scan later steps have fewer rows, and with fewer rows the workers share columns.
  return view.packed ? view.parts == 1 : computes_whole_rows_packed(m, view.parts);
}

class ProductGroupCall final : public Call {
 public:
  using Product = std::function<void(const Frame&, const Worker&, const Epilogue&)>;
  ProductGroupCall(std::string name, BlockEpilogue epilogue, Product product)
      : name_(std::move(name)), epilogue_(std::move(epilogue)), product_(std::move(product)) {}
  void run(const Frame& frame, const Worker& worker) override {
    product_(frame, worker, epilogue_.resolve(frame, worker));
  }
  std::string implementation() const override { return name_ + epilogue_.name(); }

 private:
  std::string name_;
  BlockEpilogue epilogue_;
  Product product_;
};

}  // namespace

BlockEpilogue::BlockEpilogue(ElementwiseNode node, Index gates, int parts)
    : program_(node.source, /*matrix=*/true),
      pointers_(std::move(node.inputs), std::move(node.results), parts),
      n_instructions_(node.source.instructions.size()),
      gates_(gates) {}
Epilogue BlockEpilogue::resolve(const Frame& frame, const Worker& worker) {
  const auto& own = pointers_.resolve(frame, worker);
  return {program_, own.inputs, own.results, gates_};
}
std::string BlockEpilogue::name() const { return ", " + counted(n_instructions_, "op") + " on its blocks"; }

std::optional<BlockEpilogue> block_epilogue(const PlanView& view, const ProductGroup& group) {
  ElementwiseNode node = elementwise_node(view, group.epilogue);
  if (!read_as_matrix(node.source, group.m, group.units) || !has_all_gates(view, group) ||
      writes_over_operands(view, group))
    return std::nullopt;
  return BlockEpilogue(std::move(node), group.gates, view.parts);
}

std::unique_ptr<Call> make_product_group(const PlanView& view, const ProductGroup& group, std::size_t& scratch_bytes) {
  const Node& product = view.graph().node(group.product);
  const Matmul m = matmul_of(view, group.product);
  if (!m.single() || m.n < 2 || m.k == 0 || product.inputs.size() > 2) return nullptr;
  if (view.state.blas && is_for_openblas(m)) return nullptr;
  auto epilogue = block_epilogue(view, group);
  if (!epilogue) return nullptr;
  const Ref a = view.ref(product.inputs[0]), c = view.ref(ValueId{group.product, 0});
  const auto call = [&](std::string name, ProductGroupCall::Product run) {
    return std::make_unique<ProductGroupCall>(std::move(name), std::move(*epilogue), std::move(run));
  };
  if (is_constant_matmul(view.plan, group.product)) {
    const ConstantProduct weights(view, group.product);
    return call(weights.name(), [=](const Frame& f, const Worker& worker, const Epilogue& then) {
      then.run(weights.run(m, a.in(f), c.in(f), worker));
    });
  }
  const Ref b = view.ref(product.inputs[1]);
  scratch_bytes = std::max(scratch_bytes, matmul_scratch_bytes(m, view.parts));
  return call("matmul", [=](const Frame& f, const Worker& worker, const Epilogue& then) {
    run_matmul(m, a.in(f), b.in(f), c.in(f), f.scratch, worker, then);
  });
}

}  // namespace unroll::cpu
