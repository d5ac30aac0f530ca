// SPDX-License-Identifier: Apache-2.0
#include "backends/registry.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "backends/common/specific_options.h"
#include "core/support/text/nearest_name.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr const char* k_device = "device";

struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const BackendOptions&);
  std::vector<BackendOption> (*options)();  // null: none
  std::vector<LibraryStatus> (*libraries)() = nullptr;  // null: none
  // Option set by a value without a name after the colon: "vulkan:1", "cpu:openblas". Null: none.
  const char* after_colon = nullptr;
  bool has_devices() const { return after_colon == k_device; }  // several devices; the other backends run on the host
};
constexpr BackendRow k_backends[] = {
    {"cpu", make_cpu_backend, cpu_options, nullptr, "products"},
    {"onednn", make_onednn_backend, onednn_options},
    {"reference", make_reference_backend, nullptr},
    {"vulkan", make_vulkan_backend, vulkan_options, nullptr, k_device},
    {"cuda", make_cuda_backend, cuda_options, cuda_libraries, k_device},
};

// A backend and its options: "vulkan:1", "vulkan:llvmpipe", "cpu:openblas", "cuda:1:loops=whole". A profile of that
// name has precedence, also with one letter mistyped: "cuda:sm_91" is no device.
struct Name {
  std::string backend, value;
  bool is_profile = false;
};
Name parse(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return {name, {}, false};
  const Name parts{name.substr(0, colon), name.substr(colon + 1), false};
  const auto profiles = list_profiles();
  const bool is_profile = std::any_of(profiles.begin(), profiles.end(), [&](const BackendStatus& profile) {
    return edit_distance(profile.name, name) <= 1;
  });
  const bool is_named = parts.value.find('=') != std::string::npos;
  const bool takes_it = std::any_of(std::begin(k_backends), std::end(k_backends), [&](const BackendRow& row) {
    return (row.after_colon || is_named) && row.name == parts.backend;
  });
  if (takes_it && !is_profile) return parts;
  return {name, {}, true};
}

// Parses the text after the colon, "1:loops=whole", into options.
void add_options(const BackendRow& row, const std::string& text, BackendOptions& options) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    if (part.empty() || (equals == std::string::npos && !row.after_colon))
      throw Error(ErrorKind::usage, row.name, "'" + part + "' is no option", "Write NAME=VALUE");
    if (equals == std::string::npos) options.specific[row.after_colon] = part;
    else options.specific[part.substr(0, equals)] = part.substr(equals + 1);
    at = end + 1;
  }
}

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
      const auto backend = row.make({});
      const Capabilities& can = backend->describe();
      statuses.push_back({std::string(row.name), true, can.device, can.emulated});
    } catch (const Error& error) {
      statuses.push_back({std::string(row.name), false, error.what()});
    }
  }
  return statuses;
}

std::vector<LibraryStatus> list_libraries() {
  std::vector<LibraryStatus> all;
  for (const BackendRow& row : k_backends) {
    if (!row.libraries) continue;
    for (LibraryStatus& each : row.libraries()) all.push_back(std::move(each));
  }
  return all;
}

std::vector<BackendOption> backend_options(const std::string& name) {
  const Name parts = parse(name);
  if (parts.is_profile) return {};
  const BackendRow& row = row_of(parts.backend);
  return row.options ? row.options() : std::vector<BackendOption>();
}

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options) {
  const Name parts = parse(name);
  const BackendRow* const row = parts.is_profile ? nullptr : &row_of(parts.backend);
  BackendOptions with = options;
  if (row && name.find(':') != std::string::npos) add_options(*row, parts.value, with);
  common::check_specific_options(parts.backend, backend_options(name), with);
  if (options.device != 0 && !(row && row->has_devices()))
    throw Error(ErrorKind::device, name, "has one device; got index " + std::to_string(options.device), "Use index 0");
  if (!row) return make_profile_backend(name);
  return row->make(with);
}

}  // namespace unroll
