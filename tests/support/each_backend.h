// SPDX-License-Identifier: Apache-2.0
// The backends that a test means when it means each of them.
#pragma once

#include <string>
#include <vector>

#include "unroll/backend.h"

namespace unroll::testing {

// Available backends that compute, the reference among them.
inline const std::vector<std::string>& computing_backends() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const BackendStatus& status : list_backends())
      if (status.available && status.name != "null") list.push_back(status.name);
    return list;
  }();
  return names;
}

}  // namespace unroll::testing
