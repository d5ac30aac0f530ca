// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/pickle_machine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "frontends/checkpoint/read/budgets.h"
#include "unroll/support/error.h"
#include "unroll/support/types.h"

namespace unroll::checkpoint {

using Kind = PickleValue::Kind;

namespace {

constexpr std::string_view k_save_again =
    "Save a state dict of tensors: torch.save(model.state_dict(), FILE); or as safetensors";

}  // namespace

struct PickleMachine::Opcode {
  unsigned char code;
  void (*run)(PickleMachine& m);
};
// Without STOP, which ends the run.
const PickleMachine::Opcode PickleMachine::k_opcodes[] = {
    {0x80, [](PickleMachine& m) {  // PROTO
       const std::uint64_t protocol = m.number(1);
       if (protocol < 2 || protocol > 5)
         m.refuse("the pickle has protocol " + std::to_string(protocol) + "; 2 to 5 are read",
                  "Save it with torch.save and its default pickle_protocol");
     }},
    {'(', [](PickleMachine& m) { m.marks_.push_back(m.stack_.size()); }},                        // MARK
    {0x95, [](PickleMachine& m) { m.number(8); }},                                          // FRAME
    {'c', [](PickleMachine& m) {                                                                 // GLOBAL
       const std::string_view module = m.line(), name = m.line();
       m.global(module, name);
     }},
    {0x93, [](PickleMachine& m) {  // STACK_GLOBAL
       const ValueIndex name = m.pop(), module = m.pop();
       m.global(m.of_kind(module, Kind::text, "a module").text, m.of_kind(name, Kind::text, "a name").text);
     }},
    {0x94, [](PickleMachine& m) { m.remember(m.memo_.size()); }},                                // MEMOIZE
    {'q', [](PickleMachine& m) { m.remember(m.number(1)); }},                                    // BINPUT
    {'r', [](PickleMachine& m) { m.remember(m.number(4)); }},                                    // LONG_BINPUT
    {'h', [](PickleMachine& m) { m.recall(m.number(1)); }},                                      // BINGET
    {'j', [](PickleMachine& m) { m.recall(m.number(4)); }},                                      // LONG_BINGET
    {')', [](PickleMachine& m) { m.push_sequence({}); }},                                        // EMPTY_TUPLE
    {']', [](PickleMachine& m) { m.push_sequence({}); }},                                        // EMPTY_LIST
    {0x8f, [](PickleMachine& m) { m.push_sequence({}); }},                                       // EMPTY_SET
    {'}', [](PickleMachine& m) { m.push({.kind = Kind::dict}); }},                               // EMPTY_DICT
    {'t', [](PickleMachine& m) { m.push_sequence(m.pop_to_mark()); }},                           // TUPLE
    {'l', [](PickleMachine& m) { m.push_sequence(m.pop_to_mark()); }},                           // LIST
    {0x91, [](PickleMachine& m) { m.push_sequence(m.pop_to_mark()); }},                          // FROZENSET
    {0x85, [](PickleMachine& m) { m.push_sequence({m.pop()}); }},                                // TUPLE1
    {0x86, [](PickleMachine& m) {                                                                // TUPLE2
       const ValueIndex b = m.pop(), a = m.pop();
       m.push_sequence({a, b});
     }},
    {0x87, [](PickleMachine& m) {  // TUPLE3
       const ValueIndex c = m.pop(), b = m.pop(), a = m.pop();
       m.push_sequence({a, b, c});
     }},
    {'a', [](PickleMachine& m) { m.append({m.pop()}); }},        // APPEND
    {'e', [](PickleMachine& m) { m.append(m.pop_to_mark()); }},  // APPENDS
    {0x90, [](PickleMachine& m) { m.append(m.pop_to_mark()); }},  // ADDITEMS
    {'s', [](PickleMachine& m) {                                 // SETITEM
       const ValueIndex value = m.pop(), key = m.pop();
       m.set_items({key, value});
     }},
    {'u', [](PickleMachine& m) { m.set_items(m.pop_to_mark()); }},  // SETITEMS
    {'X', [](PickleMachine& m) { m.push_text(m.number(4)); }},   // BINUNICODE
    {0x8c, [](PickleMachine& m) { m.push_text(m.number(1)); }},  // SHORT_BINUNICODE
    {0x8d, [](PickleMachine& m) { m.push_text(m.number(8)); }},  // BINUNICODE8
    {'U', [](PickleMachine& m) { m.push_text(m.number(1)); }},   // SHORT_BINSTRING
    {'T', [](PickleMachine& m) { m.push_text(m.number(4)); }},   // BINSTRING
    {'C', [](PickleMachine& m) { m.push_text(m.number(1)); }},   // SHORT_BINBYTES
    {'B', [](PickleMachine& m) { m.push_text(m.number(4)); }},   // BINBYTES
    {0x8e, [](PickleMachine& m) { m.push_text(m.number(8)); }},  // BINBYTES8
    {0x96, [](PickleMachine& m) { m.push_text(m.number(8)); }},  // BYTEARRAY8
    {'J', [](PickleMachine& m) {  // BININT
       m.push({.kind = Kind::integer, .integer = static_cast<std::int32_t>(m.number(4))});
     }},
    {'K', [](PickleMachine& m) {  // BININT1
       m.push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(m.number(1))});
     }},
    {'M', [](PickleMachine& m) {  // BININT2
       m.push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(m.number(2))});
     }},
    {0x8a, [](PickleMachine& m) { m.long_integer(m.number(1)); }},  // LONG1
    {0x8b, [](PickleMachine& m) { m.long_integer(m.number(4)); }},  // LONG4
    {'G', [](PickleMachine& m) {                         // BINFLOAT
       m.take(8);
       m.push({});
     }},
    {'N', [](PickleMachine& m) { m.push({}); }},   // NONE
    {0x88, [](PickleMachine& m) { m.push({.integer = 1}); }},  // NEWTRUE
    {0x89, [](PickleMachine& m) { m.push({}); }},  // NEWFALSE
    {'Q', [](PickleMachine& m) { m.persistent_id(); }},  // BINPERSID
    {'R', [](PickleMachine& m) { m.reduce(); }},         // REDUCE
    {'b', [](PickleMachine& m) { m.build(); }},          // BUILD
    {0x81, [](PickleMachine& m) {                        // NEWOBJ
       m.pop();
       m.pop();
       m.push({.kind = Kind::object});
     }},
    {0x92, [](PickleMachine& m) {  // NEWOBJ_EX
       m.pop();
       m.pop();
       m.pop();
       m.push({.kind = Kind::object});
     }},
    {'0', [](PickleMachine& m) { m.pop(); }},          // POP
    {'1', [](PickleMachine& m) { m.pop_to_mark(); }},  // POP_MARK
    {'2', [](PickleMachine& m) {                       // DUP
       const ValueIndex top = m.pop();
       m.stack_.push_back(top);
       m.again(top);
     }},
};

PickleMachine::PickleMachine(std::span<const std::byte> pickle, const std::string& file)
    : pickle_(pickle), file_(file) {}

void PickleMachine::refuse(const std::string& what, std::string_view next) const {
  throw Error(ErrorKind::input_file, file_, what, next.empty() ? k_save_again : next);
}

ValueIndex PickleMachine::run() {
  constexpr auto k_stop = std::byte{'.'};
  std::array<const Opcode*, 256> by_code{};
  for (const Opcode& opcode : k_opcodes) by_code[opcode.code] = &opcode;
  while (true) {
    const std::byte code = take(1)[0];
    if (code == k_stop) return pop();
    const Opcode* opcode = by_code[static_cast<std::size_t>(code)];
    if (!opcode)
      refuse("the pickle has opcode " + std::to_string(static_cast<int>(code)) + " at byte " +
             std::to_string(at_ - 1) + ", which a state dict does not need");
    opcode->run(*this);
  }
}

std::span<const std::byte> PickleMachine::take(std::uint64_t bytes) {
  if (bytes > pickle_.size() - at_) refuse("the pickle ends too early");
  at_ += bytes;
  return pickle_.subspan(at_ - bytes, bytes);
}

std::uint64_t PickleMachine::number(int bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, take(static_cast<std::uint64_t>(bytes)).data(), bytes);
  return value;
}

std::string_view PickleMachine::line() {
  const std::string_view rest(reinterpret_cast<const char*>(pickle_.data()) + at_, pickle_.size() - at_);
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) refuse("the pickle ends too early");
  at_ += end + 1;
  return rest.substr(0, end);
}

ValueIndex PickleMachine::push(PickleValue value) {
  if (values_.size() >= k_max_values)
    refuse("the pickle has more than " + std::to_string(k_max_values) + " values");
  values_.push_back(std::move(value));
  stack_.push_back(static_cast<ValueIndex>(values_.size() - 1));
  return stack_.back();
}

ValueIndex PickleMachine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("the pickle is damaged: its stack is empty");
  const ValueIndex top = stack_.back();
  stack_.pop_back();
  return top;
}

std::vector<ValueIndex> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse("the pickle is damaged: a mark is missing");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<ValueIndex> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleMachine::push_text(std::uint64_t n_bytes) {
  const auto bytes = take(n_bytes);
  push({.kind = Kind::text, .text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
}

void PickleMachine::push_sequence(std::vector<ValueIndex> items) {
  push({.kind = Kind::sequence, .items = std::move(items)});
}

void PickleMachine::remember(std::uint64_t place) {
  const ValueIndex top = pop();
  stack_.push_back(top);
  if (memo_.size() >= k_max_values) refuse("the memo of the pickle has too many values");
  memo_[place] = top;
}

void PickleMachine::recall(std::uint64_t place) {
  const auto found = memo_.find(place);
  if (found == memo_.end()) refuse("the pickle is damaged: it reads a value that it has not stored");
  again(found->second);
}

void PickleMachine::again(ValueIndex value) {
  if (stack_.size() >= k_max_values) refuse("the stack of the pickle has too many values");
  stack_.push_back(value);
}

const PickleValue& PickleMachine::of_kind(ValueIndex index, Kind kind, const char* what) const {
  if (values_[index].kind != kind) refuse(std::string("the pickle is damaged: ") + what + " has another type");
  return values_[index];
}

// An object may be a subclass of list or dict. Items of a list that an unknown function made are left out.
void PickleMachine::append(std::vector<ValueIndex> items) {
  const ValueIndex list = pop();
  stack_.push_back(list);
  if (values_[list].kind == Kind::object) return;
  of_kind(list, Kind::sequence, "a list");
  auto& to = values_[list].items;
  to.insert(to.end(), items.begin(), items.end());
}

void PickleMachine::set_items(std::vector<ValueIndex> items) {
  if (items.size() % 2 != 0) refuse("the pickle is damaged: a key has no value");
  const ValueIndex dict = pop();
  stack_.push_back(dict);
  if (values_[dict].kind != Kind::object) of_kind(dict, Kind::dict, "a dict");
  auto& to = values_[dict].items;
  to.insert(to.end(), items.begin(), items.end());
}

// A list may be read many times; this bounds the total number of items.
const std::vector<ValueIndex>& PickleMachine::count_items(const std::vector<ValueIndex>& items) {
  n_copied_ += items.size();
  if (n_copied_ > k_max_values) refuse("the pickle has more than " + std::to_string(k_max_values) + " values");
  return items;
}

// Larger integers are no sizes: seeds, identifiers.
void PickleMachine::long_integer(std::uint64_t bytes) {
  if (bytes > 8) {
    take(bytes);
    push({});
    return;
  }
  std::uint64_t value = number(static_cast<int>(bytes));
  if (bytes > 0 && bytes < 8 && value >> (8 * bytes - 1) & 1) value |= ~std::uint64_t{0} << (8 * bytes);
  push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(value)});
}

std::int64_t PickleMachine::integer_of(ValueIndex index, const char* what) const {
  return of_kind(index, Kind::integer, what).integer;
}

std::vector<std::int64_t> PickleMachine::integers_of(ValueIndex index, const char* what) const {
  std::vector<std::int64_t> numbers;
  if (of_kind(index, Kind::sequence, what).items.size() > Shape::k_max_rank)
    refuse("a tensor has more than 6 dimensions");
  for (const ValueIndex item : of_kind(index, Kind::sequence, what).items) numbers.push_back(integer_of(item, what));
  return numbers;
}

}  // namespace unroll::checkpoint
