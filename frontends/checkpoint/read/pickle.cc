// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/pickle.h"

#include <set>

#include "frontends/checkpoint/read/budgets.h"
#include "frontends/checkpoint/read/pickle_machine.h"

namespace unroll::checkpoint {

namespace {

// Collects the tensors below a value. A pickle may contain a value many times, even within itself. Depth and visits are
// therefore bounded, a value within itself is not visited again, and a value without tensors is visited once, so that
// nested lists of one list cost no time.
class Walk {
  using Kind = PickleValue::Kind;

 public:
  explicit Walk(const PickleMachine& machine) : machine_(machine) {}

  void visit(ValueIndex index, const std::string& name, int depth) {
    const PickleValue& value = machine_.value(index);
    if (value.kind == Kind::tensor) return add(name, value);
    if (!has_items(value) || without_tensors_.contains(index)) return;
    const std::size_t n_before = found_.size();
    n_visits_ += 1 + value.items.size();
    if (n_visits_ > k_max_values || depth > k_max_depth || name.size() > k_max_name_bytes)
      machine_.refuse("dicts and lists are nested too deeply at '" + name.substr(0, 100) + "'");
    if (!path_.insert(index).second) return;
    const bool is_list = value.kind == Kind::sequence, is_module = value.kind == Kind::object && has_parameters(value);
    for (std::size_t i = 0; i < value.items.size(); i += is_list ? 1 : 2) {
      const ValueIndex child = value.items[i + (is_list ? 0 : 1)];
      if (machine_.value(child).kind != Kind::tensor && !has_items(machine_.value(child))) continue;
      if (is_module && !is_part_of_module(machine_.value(value.items[i]).text)) continue;
      const std::string key = is_module ? "" : is_list ? std::to_string(i) : key_text(value.items[i], i / 2);
      visit(child, key.empty() || name.empty() ? name + key : name + "." + key, depth + 1);
    }
    path_.erase(index);
    if (found_.size() == n_before) without_tensors_.insert(index);
  }
  std::vector<NamedView> take() { return std::move(found_); }

 private:
  static bool has_items(const PickleValue& value) {
    return value.kind == Kind::sequence || value.kind == Kind::dict || value.kind == Kind::object;
  }
  // The attributes of torch.nn.Module that make up its state dict.
  static bool is_part_of_module(std::string_view attribute) {
    return attribute == "_parameters" || attribute == "_buffers" || attribute == "_modules";
  }
  bool has_parameters(const PickleValue& object) const {
    for (std::size_t i = 0; i < object.items.size(); i += 2)
      if (machine_.value(object.items[i]).text == "_parameters") return true;
    return false;
  }
  // A key that is neither text nor an integer is named by its place.
  std::string key_text(ValueIndex index, std::size_t place) const {
    const PickleValue& key = machine_.value(index);
    if (key.kind == Kind::integer) return std::to_string(key.integer);
    if (key.kind != Kind::text) return "[" + std::to_string(place) + "]";
    if (key.text.size() > k_max_name_bytes) machine_.refuse("a key of a dict is too long");
    return std::string(key.text);
  }
  void add(const std::string& name, const PickleValue& value) {
    if (name.empty()) machine_.refuse("the file holds one tensor without a name");
    if (!names_.insert(name).second) machine_.refuse("the file has two tensors '" + name.substr(0, 100) + "'");
    if (names_.size() > k_max_tensors)
      machine_.refuse("the file has more than " + std::to_string(k_max_tensors) + " tensors");
    found_.push_back({name, machine_.view(value.integer)});
  }

  const PickleMachine& machine_;
  std::vector<NamedView> found_;
  std::set<std::string> names_;
  std::set<ValueIndex> without_tensors_, path_;  // path_: the values around the one that is visited
  std::size_t n_visits_ = 0;
};

}  // namespace

PickleTensors read_pickle(std::span<const std::byte> pickle, const std::string& file) {
  PickleMachine machine(pickle, file);
  const ValueIndex root = machine.run();
  Walk walk(machine);
  walk.visit(root, "", 0);
  return {walk.take(), machine.skipped(), machine.storages(), machine.end()};
}

}  // namespace unroll::checkpoint
