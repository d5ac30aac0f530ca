// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/kernels/code.h"

#include <bit>

#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr std::uint32_t k_scope_device = 1, k_scope_workgroup = 2;
constexpr std::uint32_t k_acquire_release_workgroup = 0x108, k_buffers = 0x40;
constexpr std::uint32_t k_num_workgroups = 24, k_workgroup_id = 26;

// The instruction of an operator for each kind; 0: none.
struct Row {
  std::uint16_t boolean, i32, u32, f32;
  bool compares;
};
std::uint16_t of(Spv op) { return static_cast<std::uint16_t>(op); }

enum class Operator { add, sub, mul, div, mod, less, less_equal, greater, greater_equal, equal, unequal, both, either,
                      exclusive, left, right };
Row row(Operator o) {
  switch (o) {
    case Operator::add: return {0, of(Spv::i_add), of(Spv::i_add), of(Spv::f_add), false};
    case Operator::sub: return {0, of(Spv::i_sub), of(Spv::i_sub), of(Spv::f_sub), false};
    case Operator::mul: return {0, of(Spv::i_mul), of(Spv::i_mul), of(Spv::f_mul), false};
    case Operator::div: return {0, of(Spv::s_div), of(Spv::u_div), of(Spv::f_div), false};
    case Operator::mod: return {0, 0, of(Spv::u_mod), 0, false};
    case Operator::less: return {0, of(Spv::s_less), of(Spv::u_less), of(Spv::f_less), true};
    case Operator::less_equal: return {0, of(Spv::s_less_equal), of(Spv::u_less_equal), of(Spv::f_less_equal), true};
    case Operator::greater: return {0, of(Spv::s_greater), of(Spv::u_greater), of(Spv::f_greater), true};
    case Operator::greater_equal:
      return {0, of(Spv::s_greater_equal), of(Spv::u_greater_equal), of(Spv::f_greater_equal), true};
    case Operator::equal: return {of(Spv::logical_equal), of(Spv::i_equal), of(Spv::i_equal), of(Spv::f_equal), true};
    case Operator::unequal:
      return {of(Spv::logical_not_equal), of(Spv::i_not_equal), of(Spv::i_not_equal), of(Spv::f_not_equal), true};
    case Operator::both: return {of(Spv::logical_and), of(Spv::bit_and), of(Spv::bit_and), 0, false};
    case Operator::either: return {of(Spv::logical_or), of(Spv::bit_or), of(Spv::bit_or), 0, false};
    case Operator::exclusive: return {of(Spv::logical_not_equal), of(Spv::bit_xor), of(Spv::bit_xor), 0, false};
    case Operator::left: return {0, of(Spv::shift_left), of(Spv::shift_left), 0, false};
    case Operator::right: return {0, of(Spv::shift_right_signed), of(Spv::shift_right), 0, false};
  }
  return {};
}

Term apply(Operator o, Term a, Term b) {
  const Row r = row(o);
  const std::uint16_t ops[] = {r.boolean, r.i32, r.u32, r.f32};
  const std::uint16_t op = ops[static_cast<int>(a.kind)];
  const bool shift = o == Operator::left || o == Operator::right;
  if (op == 0 || (a.kind != b.kind && !shift))
    throw Error(ErrorKind::internal, "vulkan", "a shader combines kinds that do not go together");
  return a.code->binary(static_cast<Spv>(op), r.compares ? Kind::boolean : a.kind, a, b);
}

}  // namespace

Term Local::get() const {
  return {code, code->module_.emit(Spv::load, code->module_.type(kind), {pointer}), kind};
}
void Local::set(Term value) const { code->module_.emit_plain(Spv::store, {pointer, value.id}); }
Term Shared::get(Term index) const {
  const Id at = code->module_.shared_word(array, kind, index.id);
  return {code, code->module_.emit(Spv::load, code->module_.type(kind), {at}), kind};
}
void Shared::set(Term index, Term value) const {
  code->module_.emit_plain(Spv::store, {code->module_.shared_word(array, kind, index.id), value.id});
}

Term Quad::at(int component) const {
  return {code, code->module_.emit(Spv::composite_extract, code->module_.type(Kind::f32),
                                   {id, static_cast<Id>(component)}),
          Kind::f32};
}
Quad SharedQuads::get(Term index) const {
  const Id at = code->module_.shared_quad(array, index.id);
  return {code, code->module_.emit(Spv::load, code->module_.quad(), {at})};
}
void SharedQuads::set(Term index, const std::array<Term, 4>& values) const {
  const Id made = code->module_.emit(Spv::composite_construct, code->module_.quad(),
                                     {values[0].id, values[1].id, values[2].id, values[3].id});
  code->module_.emit_plain(Spv::store, {code->module_.shared_quad(array, index.id), made});
}

Code::Code(const ModuleOptions& options)
    : module_(options), local_size_(options.local_size), exchanges_(options.coherent >= 0), live_(options.live) {
  if (!live_) return;
  const int n = static_cast<int>(live_->operands.size());
  const Term at = push(1 + n), before = live_->reverse ? at + u(2) : at - u(2);
  rows_ = load(1 + n, at);
  const Term first = load(1 + n, at + u(1));
  Term first_before;
  for (const LiveRows::Operand& each : live_->operands)
    if (each.previous && !rows_before_.code) {
      rows_before_ = load(1 + n, before);
      first_before = load(1 + n, before + u(1));
    }
  int next = live_->param + live_->by_rows;
  for (int k = 0; k < n; ++k) {
    const LiveRows::Operand& each = live_->operands[k];
    base_.push_back(push(1 + k));
    bounds_.emplace_back();
    if (each.is_plain()) continue;
    const Term row = parameter(next), skipped = parameter(next + 1);
    next += 2;
    if (each.moves) base_.back() = base_.back() + (each.previous ? first_before : first) * row;
    if (each.guards) bounds_.back() = {rows_ * row, skipped};
  }
}

Term Code::parameter(int index) { return load(0, push(0) + u(static_cast<std::uint32_t>(index))); }
Term Code::base(int operand) { return live_ ? base_[operand] : push(1 + operand); }
void Code::guard(int operand, Term index, const std::function<void()>& store) {
  if (!live_ || !live_->operands[operand].guards) return store();
  const auto& [end, skipped] = bounds_[operand];
  when(index + skipped < end, store);
}
Term Code::live_items(Term all) { return has_live_rows() ? rows_ * parameter(live_->param) : all; }

Term Code::f(float value) { return bits(Kind::f32, std::bit_cast<std::uint32_t>(value)); }

Term Code::group_index() {
  const Term x{this, module_.builtin(k_workgroup_id, 0)}, y{this, module_.builtin(k_workgroup_id, 1)};
  const Term width{this, module_.builtin(k_num_workgroups, 0)};
  return y * width + x;
}
Term Code::global_index() { return group_index() * u(local_size_) + local_index(); }

Term Code::load(int buffer, Term index, Kind kind) {
  const Id word = module_.emit(Spv::load, module_.type(Kind::u32), {module_.buffer_word(buffer, index.id)});
  return as(kind, {this, word, Kind::u32});
}
void Code::store(int buffer, Term index, Term value) {
  module_.emit_plain(Spv::store, {module_.buffer_word(buffer, index.id), as(Kind::u32, value).id});
}
Term Code::load_truth(int buffer, Term byte) {
  const Term word = load(buffer, byte >> u(2));
  return ((word >> ((byte & u(3)) << u(3))) & u(0xff)) != u(0);
}
void Code::store_truth(int buffer, Term byte, Term value) {
  const Id at = module_.buffer_word(buffer, (byte >> u(2)).id);
  const Term shift = (byte & u(3)) << u(3);
  const Id device = u(k_scope_device).id, relaxed = u(0).id, word = module_.type(Kind::u32);
  module_.emit(Spv::atomic_and, word, {at, device, relaxed, unary(Spv::bit_not, Kind::u32, u(0xff) << shift).id});
  module_.emit(Spv::atomic_or, word, {at, device, relaxed, (convert(Kind::u32, value) << shift).id});
}

Local Code::local(Term start) {
  const Local made{this, module_.variable(start.kind), start.kind};
  made.set(start);
  return made;
}
Term Code::load_half(int buffer, Term index) {
  const Id half = module_.emit(Spv::load, module_.half(), {module_.buffer_half(buffer, index.id)});
  return {this, module_.emit(Spv::u_convert, module_.type(Kind::u32), {half}), Kind::u32};
}
void Code::store_half(int buffer, Term index, Term value) {
  const Id half = module_.emit(Spv::u_convert, module_.half(), {value.id});
  module_.emit_plain(Spv::store, {module_.buffer_half(buffer, index.id), half});
}
void Code::barrier() {
  const Id scope = u(k_scope_workgroup).id;
  const std::uint32_t memory = k_acquire_release_workgroup | (exchanges_ ? k_buffers : 0);
  module_.emit_plain(Spv::control_barrier, {scope, scope, u(memory).id});
}

void Code::when(Term condition, const std::function<void()>& then) {
  const Id inside = module_.new_id(), after = module_.new_id();
  module_.emit_plain(Spv::selection_merge, {after, 0});
  module_.emit_plain(Spv::branch_conditional, {condition.id, inside, after});
  module_.emit_plain(Spv::label, {inside});
  then();
  module_.emit_plain(Spv::branch, {after});
  module_.emit_plain(Spv::label, {after});
}

void Code::loop(Term from, Term to, Term step, const std::function<void(Term i)>& body) {
  const Local counter = local(from);
  repeat([&] { return counter.get() < to; },
         [&] {
           const Term now = counter.get();
           body(now);
           counter.set(now + step);
         });
}

void Code::repeat(const std::function<Term()>& goes_on, const std::function<void()>& body) {
  const Id head = module_.new_id(), test = module_.new_id(), inside = module_.new_id(), next = module_.new_id(),
           after = module_.new_id();
  module_.emit_plain(Spv::branch, {head});
  module_.emit_plain(Spv::label, {head});
  module_.emit_plain(Spv::loop_merge, {after, next, 0});
  module_.emit_plain(Spv::branch, {test});
  module_.emit_plain(Spv::label, {test});
  module_.emit_plain(Spv::branch_conditional, {goes_on().id, inside, after});
  module_.emit_plain(Spv::label, {inside});
  body();
  module_.emit_plain(Spv::branch, {next});
  module_.emit_plain(Spv::label, {next});
  module_.emit_plain(Spv::branch, {head});
  module_.emit_plain(Spv::label, {after});
}

Term Code::select(Term condition, Term yes, Term no) {
  return {this, module_.emit(Spv::select, module_.type(yes.kind), {condition.id, yes.id, no.id}), yes.kind};
}
Term Code::as(Kind kind, Term value) {
  if (value.kind == kind) return value;
  return {this, module_.emit(Spv::bitcast, module_.type(kind), {value.id}), kind};
}
Term Code::convert(Kind kind, Term value) {
  if (value.kind == kind) return value;
  if (value.kind == Kind::boolean)
    return select(value, kind == Kind::f32 ? f(1) : bits(kind, 1), zero(kind));
  if (kind == Kind::f32) return unary(value.kind == Kind::i32 ? Spv::s_to_f : Spv::u_to_f, kind, value);
  if (value.kind == Kind::f32 && kind == Kind::i32) return unary(Spv::f_to_s, kind, value);
  throw Error(ErrorKind::internal, "vulkan", "a shader converts kinds that it cannot");
}
Term Code::call(Ext function, const std::vector<Term>& operands) {
  std::vector<Id> ids;
  for (const Term& operand : operands) ids.push_back(operand.id);
  return {this, module_.emit(function, operands[0].kind, ids), operands[0].kind};
}

std::pair<Term, Term> Code::wide_product(Term a, Term b) {
  const Spv op = a.kind == Kind::i32 ? Spv::s_mul_extended : Spv::u_mul_extended;
  const Id both = module_.emit(op, module_.pair(a.kind), {a.id, b.id}), type = module_.type(a.kind);
  return {{this, module_.emit(Spv::composite_extract, type, {both, 0}), a.kind},
          {this, module_.emit(Spv::composite_extract, type, {both, 1}), a.kind}};
}
std::pair<Term, Term> Code::sum_with_carry(Term a, Term b) {
  const Id both = module_.emit(Spv::i_add_carry, module_.pair(Kind::u32), {a.id, b.id});
  const Id type = module_.type(Kind::u32);
  return {{this, module_.emit(Spv::composite_extract, type, {both, 0}), Kind::u32},
          {this, module_.emit(Spv::composite_extract, type, {both, 1}), Kind::u32}};
}

void Code::contract(const std::function<void()>& code) {
  const bool before = std::exchange(contracts_, true);
  code();
  contracts_ = before;
}
Term Code::binary(Spv op, Kind result, Term a, Term b) {
  const Id id = module_.emit(op, module_.type(result), {a.id, b.id});
  if (!contracts_ && (op == Spv::f_add || op == Spv::f_sub || op == Spv::f_mul)) module_.no_contraction(id);
  return {this, id, result};
}
Term Code::unary(Spv op, Kind result, Term a) { return {this, module_.emit(op, module_.type(result), {a.id}), result}; }

Term operator+(Term a, Term b) { return apply(Operator::add, a, b); }
Term operator-(Term a, Term b) { return apply(Operator::sub, a, b); }
Term operator*(Term a, Term b) { return apply(Operator::mul, a, b); }
Term operator/(Term a, Term b) { return apply(Operator::div, a, b); }
Term operator%(Term a, Term b) { return apply(Operator::mod, a, b); }
Term operator<(Term a, Term b) { return apply(Operator::less, a, b); }
Term operator<=(Term a, Term b) { return apply(Operator::less_equal, a, b); }
Term operator>(Term a, Term b) { return apply(Operator::greater, a, b); }
Term operator>=(Term a, Term b) { return apply(Operator::greater_equal, a, b); }
Term operator==(Term a, Term b) { return apply(Operator::equal, a, b); }
Term operator!=(Term a, Term b) { return apply(Operator::unequal, a, b); }
Term operator&(Term a, Term b) { return apply(Operator::both, a, b); }
Term operator|(Term a, Term b) { return apply(Operator::either, a, b); }
Term operator^(Term a, Term b) { return apply(Operator::exclusive, a, b); }
Term operator<<(Term a, Term b) { return apply(Operator::left, a, b); }
Term operator>>(Term a, Term b) { return apply(Operator::right, a, b); }
Term operator-(Term a) {
  return a.code->unary(a.kind == Kind::f32 ? Spv::f_negate : Spv::s_negate, a.kind, a);
}
Term operator!(Term a) { return a.code->unary(Spv::logical_not, Kind::boolean, a); }

}  // namespace unroll::vulkan
