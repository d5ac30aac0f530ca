// SPDX-License-Identifier: Apache-2.0
// One call per node. It makes all decisions from shapes and strides at compile time; a run only resolves pointers.
#include <algorithm>
#include <array>

#include "backends/cpu/gemm/openblas.h"
#include "backends/cpu/program/elementwise_call.h"
#include "backends/cpu/program/packed_matmul.h"
#include "backends/cpu/program/program.h"
#include "backends/cpu/program/simple_call.h"
#include "backends/cpu/program/state.h"
#include "core/support/text/counted.h"
#include "unroll/ir/strided_read.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

const std::int32_t* ints_at(const Ref& ref, const Frame& f) { return reinterpret_cast<const std::int32_t*>(ref.in(f)); }

struct At {
  const PlanView& view;
  const Node& node;
  std::int32_t id;
  std::size_t& scratch;  // bytes required so far

  Ref in(std::size_t i) const { return view.ref(node.inputs[i]); }
  const Type& type(std::size_t i) const { return view.graph().type(node.inputs[i]); }
  ValueId out_id(std::int32_t k = 0) const { return {id, k}; }
  Ref out(std::int32_t k = 0) const { return view.ref(out_id(k)); }
  const Type& out_type() const { return node.outputs[0]; }
  void want_scratch(std::size_t bytes) const { scratch = std::max(scratch, bytes); }
};

// ---- elementwise and fused

class ElementwiseCall : public Call {
 public:
  ElementwiseCall(ElementwiseNode node, int parts)
      : program_(node.source),
        pointers_(std::move(node.inputs), std::move(node.results), parts),
        n_instructions_(node.source.instructions.size()) {}
  void run(const Frame& frame, const Worker& worker) override {
    const auto& own = pointers_.resolve(frame, worker);
    program_.run(own.inputs, own.results, worker, frame.rows);
  }
  std::string implementation() const override { return "tiles, " + counted(n_instructions_, "op"); }

 private:
  Elementwise program_;
  ElementwisePointers pointers_;
  std::size_t n_instructions_;
};

std::unique_ptr<Call> make_elementwise(const At& at) {
  return std::make_unique<ElementwiseCall>(elementwise_node(at.view, at.id), at.view.parts);
}

// ---- movement: each is a copy from one strided layout to another

// A copy that a packed scan may shorten: then it goes row by row (axis 0).
struct RowCopy {
  Copy all, row;
  Index src_row = 0, dst_row = 0;  // bytes

  RowCopy(DType dtype, const Shape& shape, const Strides& src, const Strides& dst)
      : all(make_copy(dtype, shape, src, dst)),
        row(make_copy(dtype, shape.rank() > 0 ? shape.with(0, 1) : shape, src, dst)) {
    src_row = src[0] * static_cast<Index>(dtype_bytes(dtype));
    dst_row = dst[0] * static_cast<Index>(dtype_bytes(dtype));
  }
  void run(const std::byte* from, std::byte* to, const Rows& rows, const Worker& worker) const {
    if (rows.live == rows.all) return run_copy(all, from, to, worker);
    const Range mine = worker.share(rows.live);
    for (Index r = mine.begin; r < mine.end; ++r) run_copy(row, from + r * src_row, to + r * dst_row, Worker{});
  }
};

std::unique_ptr<Call> make_plain_copy(const At& at, const Shape& shape, const Strides& src, std::int64_t src_start,
                                      const Strides& dst) {
  const std::size_t skip = src_start * dtype_bytes(at.out_type().dtype);
  const Ref from{at.in(0).base, at.in(0).offset + skip}, to = at.out();
  if (from == to) return nullptr;  // a view
  const RowCopy copy(at.out_type().dtype, shape, src, dst);
  return simple("copy", [=](const Frame& f, const Worker& worker) { copy.run(from.in(f), to.in(f), f.rows, worker); });
}

std::unique_ptr<Call> make_reshape(const At& at) {
  const Shape& x = at.type(0).shape;
  return make_plain_copy(at, x, at.view.strides(at.node.inputs[0]), 0, dense_strides(x));
}
std::unique_ptr<Call> make_strided(const At& at) {
  const auto read = strided_read(at.node, at.type(0).shape, at.view.strides(at.node.inputs[0]));
  Strides src{};
  std::ranges::copy(read->strides, src.begin());
  return make_plain_copy(at, at.out_type().shape, src, read->start, at.view.strides(at.out_id()));
}

std::unique_ptr<Call> make_pad(const At& at) {
  const Strides dst = at.view.strides(at.out_id());
  const std::size_t axis = at.node.attributes.get<std::int64_t>("axis");
  const RowCopy copy(at.out_type().dtype, at.type(0).shape, at.view.strides(at.node.inputs[0]), dst);
  const std::int64_t start = at.node.attributes.get<std::int64_t>("low") * dst[axis];
  const std::size_t skip = start * dtype_bytes(at.out_type().dtype);
  const Ref from = at.in(0), to = at.out();
  const Type type = at.out_type();
  return simple("fill and copy", [=](const Frame& f, const Worker& worker) {
    run_fill(type.dtype, 0, f.rows.of(type.shape.elements()), to.in(f), worker);
    worker.sync();
    copy.run(from.in(f), to.in(f) + skip, f.rows, worker);
  });
}

std::unique_ptr<Call> make_concat(const At& at) {
  struct Piece {
    RowCopy copy;
    Ref from, to;
  };
  std::vector<Piece> pieces;
  const Strides dst = at.view.strides(at.out_id());
  const int axis = static_cast<int>(at.node.attributes.get<std::int64_t>("axis"));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < at.node.inputs.size(); ++i) {
    const Shape& shape = at.type(i).shape;
    const std::size_t skip = start * dst[axis] * dtype_bytes(at.out_type().dtype);
    const Ref to{at.out().base, at.out().offset + skip};
    start += shape[axis];
    const Strides src = at.view.strides(at.node.inputs[i]);
    if (at.in(i) == to && src == dst) continue;  // its producer wrote it in place
    if (shape.elements() > 0) pieces.push_back({RowCopy(at.out_type().dtype, shape, src, dst), at.in(i), to});
  }
  if (pieces.empty()) return nullptr;
  return simple("copy of " + std::to_string(pieces.size()), [pieces](const Frame& f, const Worker& worker) {
    for (const Piece& p : pieces) p.copy.run(p.from.in(f), p.to.in(f), f.rows, worker);
  });
}

// ---- matmul and reductions

// Few rows use other kernels than many, with separate scratch.
void want_scratch_of_any_count(const At& at, const Matmul& matmul) {
  constexpr Index k_few_rows = 16;
  for (Index rows = 1; rows < k_few_rows; ++rows)
    at.want_scratch(matmul_scratch_bytes(first_rows(matmul, rows), at.view.parts));
}

class OpenBlasCall final : public Call {
 public:
  OpenBlasCall(const OpenBlas& blas, const Matmul& matmul, Ref a, Ref b, Ref c)
      : blas_(blas), matmul_(matmul), a_(a), b_(b), c_(c) {}
  void prepare() override { blas_.use_one_thread(); }  // another user of the library may have changed it
  void run(const Frame& f, const Worker& worker) override {
    run_openblas(blas_, matmul_, a_.in(f), b_.in(f), c_.in(f), worker);
  }
  std::string implementation() const override { return "matmul by OpenBLAS"; }

 private:
  const OpenBlas& blas_;
  Matmul matmul_;
  Ref a_, b_, c_;
};

std::unique_ptr<Call> make_matmul_call(const At& at) {
  const Matmul m = matmul_of(at.view, at.id);
  at.want_scratch(matmul_scratch_bytes(m, at.view.parts));
  const Ref a = at.in(0), b = at.in(1), c = at.out();
  const bool counted = at.node.inputs.size() > 2;
  if (at.view.state.blas && at.view.whole && !counted && is_for_openblas(m))
    return std::make_unique<OpenBlasCall>(*at.view.state.blas, m, a, b, c);
  if (counted || at.view.packed) want_scratch_of_any_count(at, m);
  if (counted) {  // the number of rows is known only at run time
    const Ref rows = at.in(2);
    return simple("matmul of counted rows", [=](const Frame& f, const Worker& worker) {
      run_matmul(first_rows(m, *ints_at(rows, f)), a.in(f), b.in(f), c.in(f), f.scratch, worker);
    });
  }
  if (at.view.packed)
    return simple("matmul of live rows", [=](const Frame& f, const Worker& worker) {
      run_matmul(first_rows(m, f.rows.of(m.m)), a.in(f), b.in(f), c.in(f), f.scratch, worker);
    });
  return simple("matmul",
                [=](const Frame& f, const Worker& worker) {
                  run_matmul(m, a.in(f), b.in(f), c.in(f), f.scratch, worker);
                });
}

std::unique_ptr<Call> make_reduce_call(const At& at) {
  const Reduce reduce = make_reduce(at.node.op, at.type(0), at.node.attributes.get<Ints>("axes"));
  at.want_scratch(reduce_scratch_bytes(reduce, at.view.parts));
  const Ref x = at.in(0), y = at.out();
  return simple("reduce", [=](const Frame& f, const Worker& worker) {
    Reduce live = reduce;
    if (!live.first_reduced) live.dims[0] = f.rows.of(live.dims[0]);
    run_reduce(live, x.in(f), y.in(f), f.scratch, worker);
  });
}

std::unique_ptr<Call> make_argmax_call(const At& at) {
  const Argmax argmax = make_argmax(at.type(0), static_cast<int>(at.node.attributes.get<std::int64_t>("axis")));
  const Ref x = at.in(0), y = at.out();
  return simple("argmax", [=](const Frame& f, const Worker& worker) {
    Argmax live = argmax;
    live.outer = f.rows.of(live.outer);
    run_argmax(live, x.in(f), reinterpret_cast<std::int32_t*>(y.in(f)), worker);
  });
}

// ---- indexing and sources

std::unique_ptr<Call> make_gather(const At& at) {
  const Shape& table = at.type(0).shape;
  const std::int64_t rows = table[0], n = at.type(1).shape.elements();
  const std::int64_t row_bytes = table.removed(0).elements() * static_cast<std::int64_t>(dtype_bytes(at.type(0).dtype));
  const Ref from = at.in(0), indices = at.in(1), to = at.out();
  return simple("gather", [=](const Frame& f, const Worker& worker) {
    run_gather(ints_at(indices, f), f.rows.of(n), rows, row_bytes, from.in(f), to.in(f), worker);
  });
}
std::unique_ptr<Call> make_scatter_add(const At& at) {
  const std::int64_t n = at.type(0).shape.elements(), rows = at.out_type().shape[0];
  const std::int64_t row = at.out_type().shape.removed(0).elements();
  const DType dtype = at.out_type().dtype;
  const Ref indices = at.in(0), updates = at.in(1), to = at.out();
  return simple("scatter-add", [=](const Frame& f, const Worker& worker) {
    run_scatter_add(dtype, ints_at(indices, f), n, rows, row, updates.in(f), to.in(f), worker);
  });
}
std::unique_ptr<Call> make_iota(const At& at) {
  const Shape shape = at.out_type().shape;
  const int axis = static_cast<int>(at.node.attributes.get<std::int64_t>("axis"));
  const Ref to = at.out();
  return simple("iota", [=](const Frame& f, const Worker& worker) {
    run_iota(shape, axis, reinterpret_cast<std::int32_t*>(to.in(f)), worker);
  });
}
std::unique_ptr<Call> make_pack_lengths(const At& at) {
  const std::int64_t batch = at.type(0).shape[0], steps = at.node.attributes.get<std::int64_t>("steps");
  // An unread result has no storage; the kernel writes it to memory of the call.
  std::array<Ref, 6> refs;
  std::array<bool, 6> read{};
  auto unread = std::make_shared<std::vector<std::int32_t>>();
  for (std::size_t k = 0; k < refs.size(); ++k) {
    const ValueId id = at.out_id(static_cast<std::int32_t>(k));
    read[k] = at.view.storage(id).place != Storage::Place::none;
    if (read[k]) refs[k] = at.view.ref(id);
  }
  const std::size_t most = std::max(steps * batch, std::max(steps, batch)) + 1;
  unread->resize(most * refs.size());
  const Ref lengths = at.in(0);
  return simple("counting sort", [=](const Frame& f, const Worker& worker) {
    std::array<std::int32_t*, 6> to{};
    for (std::size_t k = 0; k < to.size(); ++k)
      to[k] = read[k] ? reinterpret_cast<std::int32_t*>(refs[k].in(f)) : unread->data() + k * most;
    run_pack_lengths(ints_at(lengths, f), batch, steps, {to[0], to[1], to[2], to[3], to[4], to[5]}, worker);
  });
}
std::unique_ptr<Call> make_random_uniform(const At& at) {
  const std::int64_t rng_stream = at.node.attributes.get<std::int64_t>("rng_stream");
  const std::int64_t n = at.out_type().shape.elements();
  const bool stepped = at.node.inputs.size() > 1;
  const Ref key = at.in(0), step = stepped ? at.in(1) : Ref{}, to = at.out();
  return simple("philox", [=](const Frame& f, const Worker& worker) {
    run_random_uniform(ints_at(key, f), stepped ? ints_at(step, f) : nullptr, rng_stream, n,
                       reinterpret_cast<float*>(to.in(f)), worker);
  });
}

using Maker = std::unique_ptr<Call> (*)(const At&);
struct MakerRow {
  Op op;
  Maker make;
};
constexpr MakerRow k_makers[] = {
    {Op::reshape, make_reshape},       {Op::slice, make_strided},
    {Op::transpose, make_strided},     {Op::broadcast, make_strided},
    {Op::windows, make_strided},
    {Op::pad, make_pad},               {Op::concat, make_concat},
    {Op::matmul, make_matmul_call},    {Op::reduce_sum, make_reduce_call},
    {Op::reduce_max, make_reduce_call}, {Op::argmax, make_argmax_call},
    {Op::gather, make_gather},         {Op::scatter_add, make_scatter_add},
    {Op::iota, make_iota},             {Op::random_uniform, make_random_uniform},
    {Op::pack_lengths, make_pack_lengths},
    {Op::fused, make_elementwise},
};

}  // namespace

ElementwiseNode elementwise_node(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  const Shape& shape = node.outputs[0].shape;
  ElementwiseNode made;
  made.source = node.op == Op::fused ? common::expression_of_body(*node.body)
                                     : common::expression_of_node(view.graph(), node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    made.inputs.push_back(view.ref(node.inputs[i]));
    made.source.inputs[i].strides = view.strides(node.inputs[i], shape);
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId result{id, static_cast<std::int32_t>(k)};
    made.results.push_back(view.ref(result));
    made.source.results[k].strides = view.strides(result);
    made.source.results[k].apart = view.is_apart(made.results[k], made.inputs);
  }
  return made;
}

ElementwisePointers::ElementwisePointers(std::vector<Ref> inputs, std::vector<Ref> results, int parts)
    : inputs_(std::move(inputs)), results_(std::move(results)), of_part_(parts) {
  for (Own& own : of_part_) {
    own.inputs.resize(inputs_.size());
    own.results.resize(results_.size());
  }
}
const ElementwisePointers::Own& ElementwisePointers::resolve(const Frame& frame, const Worker& worker) {
  Own& own = of_part_[worker.index];
  for (std::size_t i = 0; i < inputs_.size(); ++i) own.inputs[i] = inputs_[i].in(frame);
  for (std::size_t i = 0; i < results_.size(); ++i) own.results[i] = results_[i].in(frame);
  return own;
}

std::unique_ptr<Call> make_call(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes) {
  const Node& node = view.graph().node(id);
  if (node.op == Op::input || node.op == Op::constant) return nullptr;
  if (node.op == Op::all_reduce) return make_all_reduce(view, id);
  if (view.make_claimed && node.attributes.get_or<bool>("claimed", false)) return view.make_claimed(view, id);
  if (node.op == Op::fused_reduction) return make_fused_reduction(view, id, scratch_bytes);
  const At at{view, node, id, scratch_bytes};
  if (is_elementwise(node.op)) return make_elementwise(at);
  for (const MakerRow& row : k_makers)
    if (row.op == node.op) return row.make(at);
  throw Error(ErrorKind::unsupported, "cpu", "no kernel for " + std::string(op_info(node.op).name));
}

ConstantProduct::ConstantProduct(const PlanView& view, std::int32_t id) {
  const Matmul m = matmul_of(view, id);
  const Node& constant = view.graph().node(view.graph().node(id).inputs[1].node);
  weights_ = view.state.weights.get(constant.attributes.get<std::shared_ptr<const Tensor>>("value"), m,
                                    format_of(m, view.plan.weights));
  scratch_bytes_ = aligned(packed_scratch_bytes(m));
  scratch_ = std::make_shared<Bytes>(scratch_bytes_ * view.parts);
}
Block ConstantProduct::run(const Matmul& matmul, const void* a, void* c, const Worker& worker) const {
  return run_weights(matmul, a, *weights_, c, worker, scratch_->data() + worker.index * scratch_bytes_);
}
std::string ConstantProduct::name() const {
  const bool plain = weights_->format == WeightFormat::f32;
  return "matmul, packed once" + (plain ? "" : std::string(", ") + weight_kernels(weights_->format).name);
}

std::unique_ptr<Call> make_constant_matmul(const PlanView& view, std::int32_t id) {
  const Matmul m = matmul_of(view, id);
  const ConstantProduct product(view, id);
  const Ref a = view.ref(view.graph().node(id).inputs[0]), c = view.ref(ValueId{id, 0});
  if (view.packed)
    return simple(product.name(), [=](const Frame& f, const Worker& worker) {
      product.run(first_rows(m, f.rows.of(m.m)), a.in(f), c.in(f), worker);
    });
  return simple(product.name(),
                [=](const Frame& f, const Worker& worker) { product.run(m, a.in(f), c.in(f), worker); });
}

}  // namespace unroll::cpu
