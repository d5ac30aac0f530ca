// SPDX-License-Identifier: Apache-2.0
// NVRTC compiles the kernels of all conformance cases for three architectures, where it is installed. No device runs.
#include <doctest/doctest.h>

#include <cctype>
#include <cstdio>
#include <memory>
#include <string>

#include "backends/cuda/context.h"
#include "backends/cuda/library/compiler.h"
#include "backends/cuda/program.h"
#include "core/passes/forwarding_backend.h"
#include "tests/support/cases.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/autodiff.h"
#include "unroll/error.h"
#include "unroll/model.h"
#include "unroll/ops.h"
#include "unroll/run.h"

using namespace unroll;

namespace {

// Plans as the backend would.
class PlansForCuda final : public ForwardingBackend {
 public:
  PlansForCuda() : ForwardingBackend(make_backend("cuda:sm_90")) {}
  const Capabilities& describe() const override { return capabilities_; }

 private:
  Capabilities capabilities_ = cuda::capabilities_of({"a device", 90, 132, 13000, 13000, std::size_t{80} << 30, true});
};

bool has_compiler(cuda::Functions& functions) {
  cuda::libraries().compiler[2] = "/usr/local/cuda/lib64/libnvrtc.so";
  try {
    cuda::open_compiler(functions);
    return true;
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return false;
  }
}

// What ptxas says of each kernel of a module.
std::string ptxas_log(const cuda::Functions& f, const std::string& source, const std::string& architecture) {
  nvrtcProgram program = nullptr;
  cuda::check(f, f.compiler.CreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr), "creating");
  const std::string target = "--gpu-architecture=" + architecture;
  const char* const options[] = {target.c_str(), "--std=c++17", "--ptxas-options=-v"};
  const nvrtcResult compiled = f.compiler.CompileProgram(program, 3, options);
  std::size_t n = 0;
  cuda::check(f, f.compiler.GetProgramLogSize(program, &n), "the size of a log");
  std::string log(n, '\0');
  cuda::check(f, f.compiler.GetProgramLog(program, log.data()), "a log");
  f.compiler.DestroyProgram(&program);
  cuda::check(f, compiled, "compiling");
  return log;
}

// The number before `word` in what the log says of a kernel; -1: it is not there.
int number_before(const std::string& log, const std::string& kernel, const std::string& word) {
  const std::size_t begin = log.find("Function properties for " + kernel + "\n");
  const std::size_t at = begin == std::string::npos ? begin : log.find(word, begin);
  if (at == std::string::npos) return -1;
  std::size_t first = at;
  while (first > 0 && std::isdigit(static_cast<unsigned char>(log[first - 1]))) --first;
  return first == at ? -1 : std::stoi(log.substr(first, at - first));
}

}  // namespace

TEST_CASE("NVRTC compiles the kernels of all cases for sm_80, sm_90a and sm_100") {
  cuda::Functions functions;
  if (!has_compiler(functions)) return;
  const PlansForCuda backend;
  cuda::Kernels kernels;
  int plans = 0, refused = 0;
  for (const testing::Case& c : testing::all_cases())
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      try {
        const auto planned = plan(*testing::build_case(c, dtype), backend);
        kernels = cuda::compile_program(planned, 132, std::move(kernels), nullptr, /*whole_loops=*/true).kernels;
        ++plans;
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::unsupported);
        kernels = {};
        ++refused;
      }
    }
  CHECK(plans > 100);
  const std::string source = kernels.source();
  std::printf("%d plans, %d refused, %d kernels, %zu KiB of source\n", plans, refused, kernels.count(),
              source.size() >> 10);
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    std::string failure;
    try {
      CHECK(cuda::compile_image(functions, source, {std::string("--gpu-architecture=") + architecture}).size() > 1000);
    } catch (const Error& error) {
      failure = error.what();
    }
    CAPTURE(architecture);
    CHECK(failure == "");
  }
}

TEST_CASE("kernels of whole loops keep all numbers in registers, and two of their blocks fit a multiprocessor") {
  cuda::Functions functions;
  if (!has_compiler(functions)) return;
  constexpr int k_registers = 65536, k_shared_bytes = 100 << 10;  // of a multiprocessor of sm_86, which has the least
  const PlansForCuda backend;
  for (const char* cell : {"rnn", "gru", "lstm", "lnlstm", "peephole_lstm", "indrnn"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Graph graph;
      Scope scope(graph);
      const Value x = graph.input("x", {DType::f32, {100, 32, 256}});
      const Value y = recurrent_model(scope, x, {.cell = cell, .hidden = 256}).y;
      testing::output_gradients(scope, mean(square(y)));
      PlanOptions options;
      options.precision = dtype == DType::bf16 ? Precision::bf16 : Precision::f32;
      const cuda::Program program = cuda::compile_program(plan(graph, backend, options), 132, {}, nullptr, true);
      const std::string source = program.kernels.source();
      for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
        const std::string log = ptxas_log(functions, source, architecture);
        int loops = 0;
        for (int k = 0; k < program.kernels.count(); ++k) {
          const std::string name = cuda::Kernels::name(k);
          if (source.find(name + "_wait(") == std::string::npos) continue;
          ++loops;
          CAPTURE(cell);
          CAPTURE(architecture);
          CAPTURE(name);
          const int registers = number_before(log, name, " registers");
          const int shared = number_before(log, name, " bytes smem");
          CHECK(number_before(log, name, " bytes spill stores") == 0);
          CHECK(number_before(log, name, " bytes stack frame") == 0);
          CHECK(registers > 0);
          CHECK(shared > 0);
          CHECK(2 * registers * static_cast<int>(cuda::k_loop_threads) <= k_registers);
          CHECK(2 * shared <= k_shared_bytes);
          if (std::string(architecture) == "sm_90a")
            std::printf("%s %s %s: %d registers, %d bytes of shared memory\n", cell, dtype_name(dtype).data(),
                        name.c_str(), registers, shared);
        }
        CHECK(loops == 2);
      }
    }
}
