// SPDX-License-Identifier: Apache-2.0
// Named attributes of nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "unroll/support/tensor.h"
#include "unroll/support/types.h"

namespace unroll {

using Ints = std::vector<std::int64_t>;
using Attribute = std::variant<std::int64_t, double, bool, std::string, Ints, DType, std::shared_ptr<const Tensor>>;

// Named attributes, sorted by name. `get` throws Error(graph) when the name is missing or the attribute has another
// type.
class UNROLL_API Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> list) : map_(list) {}

  template <class T> const T& get(std::string_view name) const;
  template <class T> T get_or(std::string_view name, T fallback) const;
  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  void set(std::string name, Attribute value) { map_.insert_or_assign(std::move(name), std::move(value)); }
  void erase(std::string_view name);
  const std::map<std::string, Attribute, std::less<>>& all() const { return map_; }
  // Compares tensors by content.
  friend UNROLL_API bool operator==(const Attributes& a, const Attributes& b);

 private:
  std::map<std::string, Attribute, std::less<>> map_;
};

}  // namespace unroll
