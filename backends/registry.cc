// SPDX-License-Identifier: Apache-2.0
#include "backends/registry.h"

#include <string>

#include "backends/common/own_options.h"
#include "core/support/nearest_name.h"
#include "unroll/error.h"

namespace unroll {

namespace {

struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const BackendOptions&);
  std::vector<BackendOption> (*options)();  // null: none
};
// All of them run on the host: they have one device.
constexpr BackendRow k_backends[] = {
    {"cpu", make_cpu_backend, cpu_options},
    {"onednn", make_onednn_backend, onednn_options},
    {"reference", make_reference_backend, nullptr},
    {"null", make_null_backend, nullptr},
};

bool is_profile(const std::string& name) { return name.find(':') != std::string::npos; }

const BackendRow& row_of(const std::string& name) {
  std::vector<std::string_view> names;
  for (const BackendRow& row : k_backends) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(ErrorKind::device, "make_backend", "unknown backend '" + name + "'", known_names(name, names));
}

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

std::vector<BackendOption> backend_options(const std::string& name) {
  if (is_profile(name)) return {};
  const BackendRow& row = row_of(name);
  return row.options ? row.options() : std::vector<BackendOption>();
}

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options) {
  common::check_own_options(name, backend_options(name), options);
  if (options.device != 0)
    throw Error(ErrorKind::device, name, "has one device; got index " + std::to_string(options.device), "Use index 0");
  return is_profile(name) ? make_profile_backend(name) : row_of(name).make(options);
}

}  // namespace unroll
