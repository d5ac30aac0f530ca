// SPDX-License-Identifier: Apache-2.0
// `unroll doctor`: lists the capabilities of this build and machine, and the reasons for absent backends.
#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>

#include "frontends/cli/bench/self_test.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/model/model.h"
#include "unroll/parallel/communicator.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/libraries.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

struct DoctorArguments {
  bool no_self_test = false;
  bool json = false;
};

void add_options(CLI::App& app, DoctorArguments& o) {
  group(app, "Output");
  add_flag(app, "--no-self-test", o.no_self_test, "Skip the libraries, the self-test and the roofline measurement.");
  add_json(app, o.json);
  add_examples(app,
               "  unroll doctor\n"
               "  unroll doctor --no-self-test --json");
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> names;
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) names.emplace_back("sse4.2");
  if (__builtin_cpu_supports("avx")) names.emplace_back("avx");
  if (__builtin_cpu_supports("avx2")) names.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) names.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) names.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) names.emplace_back("avx512vnni");
#elif defined(__aarch64__)
  names.emplace_back("neon");
#endif
  return names;
}

std::int64_t usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
}

std::int64_t memory_bytes(int pages_of) {
  return static_cast<std::int64_t>(sysconf(pages_of)) * sysconf(_SC_PAGESIZE);
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("g++ {}", __VERSION__);
#endif
}

ReportList cache_rows(const std::vector<Cache>& caches, bool as_json) {
  ReportList rows;
  for (const Cache& cache : caches) {
    Report row;
    row.add("name", cache.name);
    if (as_json) row.add("bytes", cache.bytes);
    else row.add("bytes", bytes_text(cache.bytes));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Returns the options after the name of a backend of this machine: "cpu:schedule=rows".
ReportList option_rows(const std::vector<BackendStatus>& backends) {
  ReportList rows;
  for (const BackendStatus& status : backends) {
    if (!status.available || status.name.find(':') != std::string::npos) continue;
    for (const BackendOption& option : backend_options(status.name)) {
      const std::string values = option.values.empty() ? "text" : fmt::format("{}", fmt::join(option.values, ", "));
      rows.push_back(Report().add("option", status.name + ":" + option.name).add("values", values)
                         .add("meaning", option.what));
    }
  }
  return rows;
}

// Returns the libraries that backends open at run time, each with its version, or with the missing part and the fix.
ReportList library_rows(bool as_json) {
  ReportList rows;
  for (const LibraryStatus& status : list_libraries()) {
    Report row;
    if (as_json) {
      row.add("backend", status.backend).add("library", status.name).add("use", status.use);
      row.add("available", status.available);
    } else {  // its purpose would not fit the line
      row.add("library", status.backend + ": " + status.name);
      row.add("available", status.available ? "present" : "absent");
    }
    rows.push_back(row.add("detail", status.detail));
  }
  return rows;
}

int execute(const DoctorArguments& options) {
  Report report;
  report.add("version", UNROLL_VERSION).add("compiler", compiler()).add("cpu_features", cpu_features());
  report.add("cores", usable_cores());
  const std::int64_t total = memory_bytes(_SC_PHYS_PAGES), free = memory_bytes(_SC_AVPHYS_PAGES);
  if (options.json) {
    report.add("memory_bytes", total).add("memory_free_bytes", free);
  } else {
    report.add("memory", fmt::format("{}, {} free", bytes_text(total),
                                     bytes_text(free)));
  }
  const std::vector<Cache> caches = data_caches();
  report.add("caches", cache_rows(caches, options.json));
  ReportList backends;
  const std::vector<BackendStatus> statuses = backends_of_machine();
  for (const BackendStatus& status : statuses) {
    Report row;
    row.add("name", status.name);
    if (options.json) row.add("available", status.available);
    else row.add("available", status.available ? "present" : "absent");
    backends.push_back(row.add("detail", status.detail));
  }
  std::vector<std::string> cells{"rnn", "gru", "lstm"};
  for (std::string& name : cell_names()) cells.push_back(std::move(name));
  report.add("cells", cells).add("backends", backends);
  report.add("backend_options", option_rows(statuses));
  if (options.no_self_test) {
    report.print(options.json);
    return 0;
  }
  Activity busy("testing the backends");
  const SelfTest test = self_test(options.json);
  busy.say("measuring the roofline");
  // Loading the libraries takes too long for a doctor without self-test.
  if (ReportList libraries = library_rows(options.json); options.json || !libraries.empty())
    report.add("libraries", std::move(libraries));
  const std::vector<std::string> mpi = mpi_libraries();
  if (options.json || !mpi.empty()) report.add("mpi", mpi);
  else report.add("mpi", "absent: neither Open MPI 4 nor MPICH 4 is installed (docs/scaling.md)");
  report.add("self_test", test.backends).add("roofline", roofline(caches, options.json));
  busy.finish();
  report.print(options.json);
  if (test.failed.empty()) return 0;
  throw Error(ErrorKind::differ, "doctor", "the self-test failed: " + test.failed,
              "Use another backend; run `unroll compare` to find the first node that differs");
}

}  // namespace

const Command doctor_command = command<DoctorArguments>(
    k_machine, "doctor", "Show what this build and machine support, and test it.", add_options, execute);

}  // namespace unroll::cli
