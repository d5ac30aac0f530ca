// SPDX-License-Identifier: Apache-2.0
// The stack machine of a pickle. Values are stored in an arena and refer to each other by index. A dict may therefore
// be filled after it was stored in the memo, as pickles do.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/checkpoint/read/tensor_view.h"

namespace unroll::checkpoint {

using ValueIndex = std::uint32_t;

struct PickleValue {
  enum class Kind : std::uint8_t { other, integer, text, sequence, dict, global, storage, tensor, object };
  Kind kind = Kind::other;  // other: None, a bool or a float. object: of a class or function that is not known
  std::int64_t integer = 0;       // also: row of the table of globals, index in `views`, 1 for True
  std::string_view text = {};     // in the pickle
  std::vector<ValueIndex> items = {};  // of a dict, and the attributes of an object: key, value, key, value, ...
};

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> pickle, const std::string& file);

  ValueIndex run();  // the value that the pickle describes
  const PickleValue& value(ValueIndex index) const { return values_[index]; }
  const TensorView& view(std::int64_t place) const { return views_[place]; }
  std::size_t end() const { return at_; }  // offset behind the pickle, after run()
  const std::map<std::string, Stored>& storages() const { return storages_; }  // by key
  const std::set<std::string>& skipped() const { return skipped_; }  // names of unknown classes and functions
  [[noreturn]] void refuse(const std::string& what, std::string_view next = {}) const;

 private:
  struct Opcode;
  struct Global;
  static const Opcode k_opcodes[];
  static const Global k_globals[];

  // Reading
  std::span<const std::byte> take(std::uint64_t bytes);
  std::uint64_t number(int bytes);  // little-endian
  std::string_view line();
  // The stack
  ValueIndex push(PickleValue value);
  void push_text(std::uint64_t n_bytes);
  ValueIndex pop();
  std::vector<ValueIndex> pop_to_mark();
  void push_sequence(std::vector<ValueIndex> items);
  void remember(std::uint64_t place);
  void recall(std::uint64_t place);
  void again(ValueIndex value);  // pushes a value that exists
  void append(std::vector<ValueIndex> items);
  void set_items(std::vector<ValueIndex> items);
  // Opcodes with more to do
  void global(std::string_view module, std::string_view name);
  void persistent_id();
  void reduce();
  void call(ValueIndex called, const std::vector<ValueIndex>& items);
  void build();
  void long_integer(std::uint64_t bytes);
  // Implementations of the globals, called with the arguments of REDUCE.
  void ordered_dict(const std::vector<ValueIndex>& arguments);
  void tensor(const std::vector<ValueIndex>& arguments);
  void parameter(const std::vector<ValueIndex>& arguments);
  void typed_tensor(const std::vector<ValueIndex>& arguments);
  void not_called(const std::vector<ValueIndex>& arguments);

  std::int64_t integer_of(ValueIndex index, const char* what) const;
  std::vector<std::int64_t> integers_of(ValueIndex index, const char* what) const;
  const std::vector<ValueIndex>& count_items(const std::vector<ValueIndex>& items);
  const PickleValue& of_kind(ValueIndex index, PickleValue::Kind kind, const char* what) const;

  std::span<const std::byte> pickle_;
  std::string file_;
  std::size_t at_ = 0, n_copied_ = 0;
  std::vector<PickleValue> values_;
  std::vector<TensorView> views_;  // of tensors and, without sizes, of storages
  std::vector<ValueIndex> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint64_t, ValueIndex> memo_;
  std::map<std::string, Stored> storages_;
  std::set<std::string> skipped_;
};

}  // namespace unroll::checkpoint
