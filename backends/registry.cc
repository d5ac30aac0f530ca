// SPDX-License-Identifier: Apache-2.0
#include "backends/registry.h"

#include <string>

#include "core/support/nearest_name.h"
#include "unroll/error.h"

namespace unroll {

namespace {

struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const BackendOptions&);
};
constexpr BackendRow k_backends[] = {
    {"cpu", make_cpu_backend},
    {"onednn", make_onednn_backend},
    {"reference", make_reference_backend},
    {"null", make_null_backend},
};

}  // namespace

std::vector<BackendStatus> list_backends() {
  std::vector<BackendStatus> statuses;
  for (const BackendRow& row : k_backends) {
    try {
      statuses.push_back({std::string(row.name), true, row.make({})->describe().device});
    } catch (const Error& error) {
      statuses.push_back({std::string(row.name), false, error.what()});
    }
  }
  return statuses;
}

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options) {
  std::vector<std::string_view> names;
  for (const BackendRow& row : k_backends) {
    if (row.name == name) return row.make(options);
    names.push_back(row.name);
  }
  throw Error(ErrorKind::device, "make_backend", "unknown backend '" + name + "'", known_names(name, names));
}

}  // namespace unroll
