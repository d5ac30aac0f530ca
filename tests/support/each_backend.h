// SPDX-License-Identifier: Apache-2.0
// The backends that a test means when it means each of them. UNROLL_BACKENDS=reference,vulkan names others.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::testing {

// The names in UNROLL_BACKENDS, all of which must be there; empty: it is not set.
inline std::vector<std::string> backends_asked_for(const std::vector<std::string>& available) {
  std::vector<std::string> names;
  const char* const text = std::getenv("UNROLL_BACKENDS");
  std::istringstream parts(text ? text : "");
  for (std::string name; std::getline(parts, name, ',');) {
    if (std::find(available.begin(), available.end(), name) == available.end())
      throw std::runtime_error("UNROLL_BACKENDS names '" + name + "', which is not available");
    names.push_back(name);
  }
  return names;
}

// The available backends, the reference among them.
inline const std::vector<std::string>& computing_backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const BackendStatus& status : list_backends())
      if (status.available) list.push_back(status.name);
    const std::vector<std::string> asked_for = backends_asked_for(list);
    return asked_for.empty() ? list : asked_for;
  }();
  return names;
}

}  // namespace unroll::testing
