// SPDX-License-Identifier: Apache-2.0
// Functions and classes of a pickle. Those that make tensors have a row here; all others are left out, by name.
#include <algorithm>
#include <utility>

#include "frontends/checkpoint/read/budgets.h"
#include "frontends/checkpoint/read/pickle_machine.h"

namespace unroll::checkpoint {

using Kind = PickleValue::Kind;

// A storage has a type; a function is called by REDUCE.
struct PickleMachine::Global {
  std::string_view module, name;
  bool is_storage;
  Stored type;
  void (PickleMachine::*call)(const std::vector<ValueIndex>& arguments);
};
const PickleMachine::Global PickleMachine::k_globals[] = {
    {"collections", "OrderedDict", false, {}, &PickleMachine::ordered_dict},
    {"torch._utils", "_rebuild_tensor", false, {}, &PickleMachine::tensor},
    {"torch._utils", "_rebuild_tensor_v2", false, {}, &PickleMachine::tensor},
    {"torch._utils", "_rebuild_parameter", false, {}, &PickleMachine::parameter},
    {"torch._utils", "_rebuild_parameter_with_state", false, {}, &PickleMachine::parameter},
    {"torch._tensor", "_rebuild_from_type_v2", false, {}, &PickleMachine::typed_tensor},
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

void PickleMachine::global(std::string_view module, std::string_view name) {
  const auto* found = std::find_if(std::begin(k_globals), std::end(k_globals),
                                   [&](const Global& g) { return g.module == module && g.name == name; });
  if (found != std::end(k_globals)) {
    push({.kind = Kind::global, .integer = found - std::begin(k_globals)});
    return;
  }
  std::string text = std::string(module) + "." + std::string(name);
  if (text.size() > k_max_name_bytes) refuse("the pickle has a name of " + std::to_string(text.size()) + " bytes");
  if (skipped_.size() < k_max_skipped) skipped_.insert(std::move(text));
  push({.kind = Kind::object});
}

// ('storage', storage class, key, device, elements). Files before PyTorch 1.6 add None, or (key, offset, elements) of a
// part of the storage; they also have ('module', class, file, source text).
void PickleMachine::persistent_id() {
  const std::vector<ValueIndex> items = of_kind(pop(), Kind::sequence, "a persistent id").items;
  const bool is_class = items.size() == 4 && values_[items[0]].text == "module";
  if (is_class) {
    push({.kind = Kind::object});
    return;
  }
  const bool is_storage = (items.size() == 5 || items.size() == 6) && values_[items[0]].text == "storage";
  if (!is_storage) refuse("the pickle has a persistent id that is no storage");
  if (values_[items[1]].kind == Kind::object) {  // of a type without a row
    push({.kind = Kind::object});
    return;
  }
  const Global& global = k_globals[of_kind(items[1], Kind::global, "a storage").integer];
  if (!global.is_storage) refuse("the pickle is damaged: a storage has another type");
  TensorView view{.type = global.type,
                  .key = std::string(of_kind(items[2], Kind::text, "the key of a storage").text),
                  .count = integer_of(items[4], "the size of a storage"),
                  .sizes = {},
                  .strides = {}};
  if (items.size() == 6 && values_[items[5]].kind != Kind::other) {
    const auto& part = of_kind(items[5], Kind::sequence, "a part of a storage").items;
    if (part.size() != 3) refuse("the pickle is damaged: a part of a storage has another type");
    view.offset = integer_of(part[1], "the offset of a part of a storage");
  }
  if (view.count < 0 || view.offset < 0 || view.offset > view.count)
    refuse("the pickle is damaged: a storage has " + std::to_string(view.count) + " elements");
  storages_.emplace(view.key, view.type);
  views_.push_back(std::move(view));
  push({.kind = Kind::storage, .integer = static_cast<std::int64_t>(views_.size() - 1)});
}

void PickleMachine::reduce() {
  const PickleValue& tuple = of_kind(pop(), Kind::sequence, "the arguments of a call");
  const ValueIndex called = pop();
  if (values_[called].kind == Kind::object) {
    push({.kind = Kind::object});
    return;
  }
  call(called, tuple.items);
}

void PickleMachine::call(ValueIndex called, const std::vector<ValueIndex>& items) {
  constexpr std::size_t k_most = 7;
  if (items.size() > k_most) refuse("the pickle is damaged: a call has too many arguments");
  const std::vector<ValueIndex> arguments = items;
  const Global& global = k_globals[of_kind(called, Kind::global, "what is called").integer];
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

// (storage, offset, sizes, strides[, requires_grad, hooks[, metadata]])
void PickleMachine::tensor(const std::vector<ValueIndex>& arguments) {
  if (arguments.size() < 4 || arguments.size() == 5) refuse("the pickle is damaged: a tensor has other arguments");
  if (values_[arguments[0]].kind == Kind::object) {
    push({.kind = Kind::object});
    return;
  }
  TensorView view = views_[of_kind(arguments[0], Kind::storage, "a storage").integer];
  const std::int64_t offset = integer_of(arguments[1], "the offset of a tensor");
  if (offset < 0 || offset > view.count) refuse("the pickle is damaged: a tensor begins outside of its storage");
  view.offset += offset;
  view.sizes = integers_of(arguments[2], "the size of a tensor");
  view.strides = integers_of(arguments[3], "the strides of a tensor");
  if (arguments.size() == 7 && !values_[arguments[6]].items.empty())
    refuse("a tensor is conjugate or negated", "Save it with .clone() or .resolve_neg()");
  views_.push_back(std::move(view));
  push({.kind = Kind::tensor, .integer = static_cast<std::int64_t>(views_.size() - 1)});
}

// (tensor, requires_grad, hooks[, attributes])
void PickleMachine::parameter(const std::vector<ValueIndex>& arguments) {
  if (arguments.size() < 3 || arguments.size() > 4) refuse("the pickle is damaged: a parameter has other arguments");
  if (values_[arguments[0]].kind != Kind::object) of_kind(arguments[0], Kind::tensor, "a parameter");
  again(arguments[0]);
}

// (function, type, its arguments, attributes)
void PickleMachine::typed_tensor(const std::vector<ValueIndex>& arguments) {
  if (arguments.size() != 4) refuse("the pickle is damaged: a tensor has other arguments");
  if (values_[arguments[0]].kind != Kind::global) {
    push({.kind = Kind::object});
    return;
  }
  const bool is_again = k_globals[values_[arguments[0]].integer].call == &PickleMachine::typed_tensor;
  if (is_again) refuse("the pickle is damaged: a tensor has other arguments");
  call(arguments[0], of_kind(arguments[2], Kind::sequence, "the arguments of a call").items);
}

// An object gets its attributes: those of a dict, or of each dict in a tuple. A state dict has an attribute _metadata
// with the versions of its modules, which is ignored.
void PickleMachine::build() {
  const ValueIndex state = pop(), object = pop();
  stack_.push_back(object);
  if (values_[object].kind != Kind::object || object == state) return;
  const auto set = [&](ValueIndex dict) {
    if (values_[dict].kind != Kind::dict) return;
    const std::vector<ValueIndex> items = count_items(values_[dict].items);
    auto& to = values_[object].items;
    to.insert(to.end(), items.begin(), items.end());
  };
  set(state);
  if (values_[state].kind != Kind::sequence) return;
  const std::vector<ValueIndex> parts = count_items(values_[state].items);
  for (const ValueIndex part : parts) set(part);
}

}  // namespace unroll::checkpoint
