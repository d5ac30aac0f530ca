// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/pickle.h"

#include <set>

#include "frontends/checkpoint/budgets.h"
#include "frontends/checkpoint/pickle_machine.h"

namespace unroll::checkpoint {

namespace {

// Collects the tensors below a value. A pickle may contain a value many times, even within itself. Depth and visits are
// therefore bounded, and a value without tensors is visited once, so that nested lists of one list cost no time.
class Walk {
  using Kind = PickleValue::Kind;

 public:
  explicit Walk(const PickleMachine& machine) : machine_(machine) {}

  void visit(ValueIndex index, const std::string& name, int depth) {
    const PickleValue& value = machine_.value(index);
    if (value.kind == Kind::tensor) return add(name, value);
    if (value.kind != Kind::sequence && value.kind != Kind::dict) return;
    if (without_tensors_.contains(index)) return;
    const std::size_t n_before = found_.size();
    n_visits_ += 1 + value.items.size();
    if (n_visits_ > k_max_values || depth > k_max_depth || name.size() > k_max_name_bytes)
      machine_.refuse("dicts and lists are nested too deeply at '" + name.substr(0, 100) + "'");
    const bool is_dict = value.kind == Kind::dict;
    for (std::size_t i = 0; i < value.items.size(); i += is_dict ? 2 : 1) {
      const ValueIndex child = value.items[i + (is_dict ? 1 : 0)];
      const Kind kind = machine_.value(child).kind;
      if (kind != Kind::tensor && kind != Kind::sequence && kind != Kind::dict) continue;
      const std::string key = is_dict ? key_text(value.items[i]) : std::to_string(i);
      visit(child, name.empty() ? key : name + "." + key, depth + 1);
    }
    if (found_.size() == n_before) without_tensors_.insert(index);
  }
  std::vector<NamedView> take() { return std::move(found_); }

 private:
  std::string key_text(ValueIndex index) const {
    const PickleValue& key = machine_.value(index);
    if (key.kind == Kind::integer) return std::to_string(key.integer);
    if (key.kind != Kind::text) machine_.refuse("a key of a dict is neither text nor an integer");
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
  std::set<ValueIndex> without_tensors_;
  std::size_t n_visits_ = 0;
};

}  // namespace

std::vector<NamedView> read_pickle(std::span<const std::byte> pickle, const std::string& file) {
  PickleMachine machine(pickle, file);
  const ValueIndex root = machine.run();
  Walk walk(machine);
  walk.visit(root, "", 0);
  return walk.take();
}

}  // namespace unroll::checkpoint
