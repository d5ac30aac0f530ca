// SPDX-License-Identifier: Apache-2.0
// Backend-specific options (BackendOptions::specific): reading a value, and checks against the known names and values.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/text/nearest_name.h"
#include "unroll/passes/backend.h"
#include "unroll/support/error.h"

namespace unroll::common {

// Returns the value, or an empty text if the option is absent.
inline std::string_view specific_option(const BackendOptions& options, const std::string& name) {
  const auto at = options.specific.find(name);
  return at == options.specific.end() ? std::string_view() : std::string_view(at->second);
}

// Throws Error(usage), which lists the known names or values, for an unknown one.
inline void check_specific_options(std::string_view backend, std::span<const BackendOption> known,
                              const BackendOptions& options) {
  for (const auto& [name, value] : options.specific) {
    const auto option =
        std::find_if(known.begin(), known.end(), [&given = name](const BackendOption& o) { return o.name == given; });
    if (option == known.end()) {
      std::vector<std::string_view> names;
      for (const BackendOption& o : known) names.push_back(o.name);
      throw Error(ErrorKind::usage, backend, "has no option '" + name + "'",
                  names.empty() ? "It takes no options of its own" : known_names(name, names));
    }
    const auto& values = option->values;
    if (values.empty() || std::find(values.begin(), values.end(), value) != values.end()) continue;
    throw Error(ErrorKind::usage, backend, "option '" + name + "' cannot be '" + value + "'",
                known_names(value, std::vector<std::string_view>(values.begin(), values.end())));
  }
}

// The option of backends with a machine model.
inline BackendOption predict_option() {
  return {"predict", {"false", "true"},
          "Measure the machine for about a second, so that reports contain predicted times."};
}

}  // namespace unroll::common
