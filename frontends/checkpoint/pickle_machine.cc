// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/pickle_machine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "frontends/checkpoint/budgets.h"
#include "unroll/support/error.h"
#include "unroll/support/types.h"

namespace unroll::checkpoint {

using Kind = PickleValue::Kind;

namespace {

constexpr std::string_view k_save_again =
    "Save a state dict of tensors: torch.save(model.state_dict(), FILE); or as safetensors";

}  // namespace

// Globals by name: a storage has a type; a function is called by REDUCE.
struct PickleMachine::Global {
  std::string_view module, name;
  bool is_storage;
  Stored type;
  void (PickleMachine::*call)(const std::vector<ValueIndex>& arguments);
};
const PickleMachine::Global PickleMachine::k_globals[] = {
    {"collections", "OrderedDict", false, {}, &PickleMachine::ordered_dict},
    {"torch._utils", "_rebuild_tensor_v2", false, {}, &PickleMachine::tensor},
    {"torch._utils", "_rebuild_parameter", false, {}, &PickleMachine::parameter},
    {"torch", "FloatStorage", true, Stored::f32, &PickleMachine::not_called},
    {"torch", "DoubleStorage", true, Stored::f64, &PickleMachine::not_called},
    {"torch", "HalfStorage", true, Stored::f16, &PickleMachine::not_called},
    {"torch", "BFloat16Storage", true, Stored::bf16, &PickleMachine::not_called},
    {"torch", "LongStorage", true, Stored::i64, &PickleMachine::not_called},
    {"torch", "IntStorage", true, Stored::i32, &PickleMachine::not_called},
    {"torch", "ShortStorage", true, Stored::i16, &PickleMachine::not_called},
    {"torch", "CharStorage", true, Stored::i8, &PickleMachine::not_called},
    {"torch", "ByteStorage", true, Stored::u8, &PickleMachine::not_called},
    {"torch", "BoolStorage", true, Stored::b8, &PickleMachine::not_called},
};

struct PickleMachine::Opcode {
  unsigned char code;
  void (*run)(PickleMachine& m);
};
// Without STOP, which ends the run.
const PickleMachine::Opcode PickleMachine::k_opcodes[] = {
    {0x80, [](PickleMachine& m) {  // PROTO
       const std::uint64_t protocol = m.number(1);
       if (protocol < 2 || protocol > 3)
         m.refuse("the pickle has protocol " + std::to_string(protocol) + "; 2 and 3 are read",
                  "Save it with torch.save and its default pickle_protocol");
     }},
    {'(', [](PickleMachine& m) { m.marks_.push_back(m.stack_.size()); }},                        // MARK
    {'c', [](PickleMachine& m) { m.global(); }},                                                 // GLOBAL
    {'q', [](PickleMachine& m) { m.remember(m.number(1)); }},                                    // BINPUT
    {'r', [](PickleMachine& m) { m.remember(m.number(4)); }},                                    // LONG_BINPUT
    {'h', [](PickleMachine& m) { m.recall(m.number(1)); }},                                      // BINGET
    {'j', [](PickleMachine& m) { m.recall(m.number(4)); }},                                      // LONG_BINGET
    {')', [](PickleMachine& m) { m.push_sequence({}); }},                                        // EMPTY_TUPLE
    {']', [](PickleMachine& m) { m.push_sequence({}); }},                                        // EMPTY_LIST
    {'}', [](PickleMachine& m) { m.push({.kind = Kind::dict}); }},                               // EMPTY_DICT
    {'t', [](PickleMachine& m) { m.push_sequence(m.pop_to_mark()); }},                           // TUPLE
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
    {'s', [](PickleMachine& m) {                                 // SETITEM
       const ValueIndex value = m.pop(), key = m.pop();
       m.set_items({key, value});
     }},
    {'u', [](PickleMachine& m) { m.set_items(m.pop_to_mark()); }},  // SETITEMS
    {'X', [](PickleMachine& m) {                                    // BINUNICODE
       const auto bytes = m.take(m.number(4));
       m.push({.kind = Kind::text, .text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
     }},
    {'J', [](PickleMachine& m) {  // BININT
       m.push({.kind = Kind::integer, .integer = static_cast<std::int32_t>(m.number(4))});
     }},
    {'K', [](PickleMachine& m) {  // BININT1
       m.push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(m.number(1))});
     }},
    {'M', [](PickleMachine& m) {  // BININT2
       m.push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(m.number(2))});
     }},
    {0x8a, [](PickleMachine& m) { m.long_integer(); }},  // LONG1
    {'G', [](PickleMachine& m) {                         // BINFLOAT
       m.take(8);
       m.push({});
     }},
    {'N', [](PickleMachine& m) { m.push({}); }},   // NONE
    {0x88, [](PickleMachine& m) { m.push({}); }},  // NEWTRUE
    {0x89, [](PickleMachine& m) { m.push({}); }},  // NEWFALSE
    {'Q', [](PickleMachine& m) { m.persistent_id(); }},  // BINPERSID
    {'R', [](PickleMachine& m) { m.reduce(); }},         // REDUCE
    {'b', [](PickleMachine& m) { m.build(); }},          // BUILD
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
  if (stack_.size() >= k_max_values) refuse("the stack of the pickle has too many values");
  stack_.push_back(found->second);
}

const PickleValue& PickleMachine::of_kind(ValueIndex index, Kind kind, const char* what) const {
  if (values_[index].kind != kind) refuse(std::string("the pickle is damaged: ") + what + " has another type");
  return values_[index];
}

void PickleMachine::append(std::vector<ValueIndex> items) {
  const ValueIndex list = pop();
  stack_.push_back(list);
  of_kind(list, Kind::sequence, "a list");
  auto& to = values_[list].items;
  to.insert(to.end(), items.begin(), items.end());
}

void PickleMachine::set_items(std::vector<ValueIndex> items) {
  if (items.size() % 2 != 0) refuse("the pickle is damaged: a key has no value");
  const ValueIndex dict = pop();
  stack_.push_back(dict);
  of_kind(dict, Kind::dict, "a dict");
  auto& to = values_[dict].items;
  to.insert(to.end(), items.begin(), items.end());
}

// A list may be read many times; this bounds the total number of items.
const std::vector<ValueIndex>& PickleMachine::count_items(const std::vector<ValueIndex>& items) {
  n_copied_ += items.size();
  if (n_copied_ > k_max_values) refuse("the pickle has more than " + std::to_string(k_max_values) + " values");
  return items;
}

void PickleMachine::global() {
  const std::string_view module = line(), name = line();
  const auto* found = std::find_if(std::begin(k_globals), std::end(k_globals),
                                   [&](const Global& g) { return g.module == module && g.name == name; });
  if (found == std::end(k_globals))
    refuse("the pickle uses " + in_quotes(std::string(module) + "." + std::string(name)) +
           "; only tensors in dicts are read, and nothing is executed");
  push({.kind = Kind::global, .integer = found - std::begin(k_globals)});
}

// ('storage', storage class, key, device, elements)
void PickleMachine::persistent_id() {
  const PickleValue& id = of_kind(pop(), Kind::sequence, "a persistent id");
  if (id.items.size() != 5) refuse("the pickle has a persistent id that is no storage");
  const std::vector<ValueIndex> items = id.items;
  if (of_kind(items[0], Kind::text, "a persistent id").text != "storage")
    refuse("the pickle has a persistent id that is no storage");
  const Global& global = k_globals[of_kind(items[1], Kind::global, "a storage").integer];
  if (!global.is_storage) refuse("the pickle is damaged: a storage has another type");
  TensorView view{.type = global.type,
                  .key = std::string(of_kind(items[2], Kind::text, "the key of a storage").text),
                  .count = integer_of(items[4], "the size of a storage"),
                  .sizes = {},
                  .strides = {}};
  if (view.count < 0) refuse("the pickle is damaged: a storage has " + std::to_string(view.count) + " elements");
  views_.push_back(std::move(view));
  push({.kind = Kind::storage, .integer = static_cast<std::int64_t>(views_.size() - 1)});
}

void PickleMachine::reduce() {
  const PickleValue& tuple = of_kind(pop(), Kind::sequence, "the arguments of a call");
  constexpr std::size_t k_most = 7;
  if (tuple.items.size() > k_most) refuse("the pickle is damaged: a call has too many arguments");
  const std::vector<ValueIndex> arguments = tuple.items;
  const Global& global = k_globals[of_kind(pop(), Kind::global, "what is called").integer];
  (this->*global.call)(arguments);
}

void PickleMachine::not_called(const std::vector<ValueIndex>&) { refuse("the pickle is damaged: it calls a storage"); }

// OrderedDict(), or OrderedDict([(key, value), ...])
void PickleMachine::ordered_dict(const std::vector<ValueIndex>& arguments) {
  PickleValue dict{.kind = Kind::dict};
  if (arguments.size() > 1) refuse("the pickle is damaged: an OrderedDict has several arguments");
  if (!arguments.empty())
    for (const ValueIndex pair : count_items(of_kind(arguments[0], Kind::sequence, "an OrderedDict").items)) {
      const auto& items = of_kind(pair, Kind::sequence, "an item of an OrderedDict").items;
      if (items.size() != 2) refuse("the pickle is damaged: an item of an OrderedDict is no pair");
      dict.items.insert(dict.items.end(), items.begin(), items.end());
    }
  push(std::move(dict));
}

// (storage, offset, sizes, strides, requires_grad, hooks[, metadata])
void PickleMachine::tensor(const std::vector<ValueIndex>& arguments) {
  if (arguments.size() < 6 || arguments.size() > 7) refuse("the pickle is damaged: a tensor has other arguments");
  TensorView view = views_[of_kind(arguments[0], Kind::storage, "a storage").integer];
  view.offset = integer_of(arguments[1], "the offset of a tensor");
  view.sizes = integers_of(arguments[2], "the size of a tensor");
  view.strides = integers_of(arguments[3], "the strides of a tensor");
  if (arguments.size() == 7 && !values_[arguments[6]].items.empty())
    refuse("a tensor is conjugate or negated", "Save it with .clone() or .resolve_neg()");
  views_.push_back(std::move(view));
  push({.kind = Kind::tensor, .integer = static_cast<std::int64_t>(views_.size() - 1)});
}

// (tensor, requires_grad, hooks)
void PickleMachine::parameter(const std::vector<ValueIndex>& arguments) {
  if (arguments.size() != 3) refuse("the pickle is damaged: a parameter has other arguments");
  of_kind(arguments[0], Kind::tensor, "a parameter");
  stack_.push_back(arguments[0]);
}

// A state dict has an attribute _metadata with the versions of its modules. It is ignored.
void PickleMachine::build() {
  of_kind(pop(), Kind::dict, "the attributes of an object");
  const ValueIndex object = pop();
  stack_.push_back(object);
  of_kind(object, Kind::dict, "an object with attributes");
}

void PickleMachine::long_integer() {
  const std::uint64_t bytes = number(1);
  if (bytes > 8) refuse("the pickle has an integer of " + std::to_string(bytes) + " bytes");
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
