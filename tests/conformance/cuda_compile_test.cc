// SPDX-License-Identifier: Apache-2.0
// NVRTC compiles the kernels of all conformance cases for three architectures, where it is installed. No device runs.
#include <doctest/doctest.h>

#include <cstdio>
#include <iterator>
#include <memory>
#include <string>

#include "tests/conformance/cuda_compiler.h"
#include "tests/support/cases.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using testing::has_compiler;
using testing::is_compiled_for;
using testing::k_compiled_for;
using testing::number_before;
using testing::PlansForCuda;
using testing::ptxas_log;

TEST_CASE("NVRTC compiles the kernels of all cases for sm_80, sm_90a and sm_100 in turn") {
  cuda::Functions functions;
  if (!has_compiler(functions)) return;
  const PlansForCuda backend;
  cuda::Kernels kernels[std::size(k_compiled_for)];
  int plans = 0, refused = 0, turn = 0;
  for (const testing::Case& c : testing::all_cases())
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      // Loops of f32 keep their weights where they can; those of f64 are whole.
      const cuda::LoopOptions loops{cuda::LoopForm::resident, 90, 132, 227 << 10};
      cuda::Kernels& all = kernels[static_cast<std::size_t>(turn++) % std::size(kernels)];
      try {
        const auto planned = plan(*testing::build_case(c, dtype), backend);
        all = cuda::compile_program(planned, 132, all, nullptr, loops).kernels;
        ++plans;
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::unsupported);
        ++refused;
      }
    }
  CHECK(plans > 100);
  std::printf("%d plans, %d refused\n", plans, refused);
  for (int of = 0; of < 3; ++of) {
    const std::string source = kernels[of].source();
    for (int architecture = 0; architecture < 3; ++architecture) {
      if (!is_compiled_for(of, architecture)) continue;
      const char* const name = k_compiled_for[architecture];
      std::printf("%s: %d kernels, %zu KiB of source\n", name, kernels[of].count(), source.size() >> 10);
      std::string failure;
      try {
        CHECK(cuda::compile_image(functions, source, {std::string("--gpu-architecture=") + name}).size() > 1000);
      } catch (const Error& error) {
        failure = error.what();
      }
      CAPTURE(name);
      CHECK(failure == "");
    }
  }
}

TEST_CASE("kernels of whole loops keep all numbers in registers, and two of their blocks fit a multiprocessor") {
  cuda::Functions functions;
  if (!has_compiler(functions)) return;
  constexpr int k_registers = 65536, k_shared_bytes = 100 << 10;  // of a multiprocessor of sm_86, which has the least
  const PlansForCuda backend;
  int turn = 0;
  for (const char* cell : {"rnn", "gru", "lstm", "lnlstm", "peephole_lstm", "indrnn"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      ++turn;
      Graph graph;
      Scope scope(graph);
      const Value x = graph.input("x", {DType::f32, {100, 32, 256}});
      const Value y = recurrent_model(scope, x, {.cell = cell, .hidden = 256}).y;
      testing::output_gradients(scope, mean(square(y)));
      PlanOptions options;
      options.precision = dtype == DType::bf16 ? Precision::bf16 : Precision::f32;
      const cuda::Program program =
          cuda::compile_program(plan(graph, backend, options), 132, {}, nullptr, {.form = cuda::LoopForm::whole});
      const std::string source = program.kernels.source();
      for (int number = 0; number < 3; ++number) {
        if (!is_compiled_for(turn, number)) continue;
        const std::string architecture = k_compiled_for[number];
        const std::string log = ptxas_log(functions, source, architecture);
        int loops = 0;
        for (int k = 0; k < program.kernels.count(); ++k) {
          const std::string name = cuda::Kernels::name(k);
          if (source.find("struct " + name + "_sizes { long long commands") == std::string::npos) continue;
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
          if (architecture == "sm_90a")
            std::printf("%s %s %s: %d registers, %d bytes of shared memory\n", cell, dtype_name(dtype).data(),
                        name.c_str(), registers, shared);
        }
        CHECK(loops == 2);
      }
      // A compiler left out loops that wait by loads that are not volatile.
      const std::string ptx = cuda::compile_image(functions, source, {"--gpu-architecture=compute_90", true});
      int waits = 0;
      for (std::size_t at = 0; (at = ptx.find("ld.acquire.gpu", at)) != std::string::npos; ++at) ++waits;
      CHECK(waits >= 2);
    }
}
