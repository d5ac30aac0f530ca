// SPDX-License-Identifier: Apache-2.0
// What NVRTC and ptxas say of resident loops at the sizes they are for: registers, spills, shared memory, tensor cores.
// No device runs.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/conformance/cuda_compiler.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

using namespace unroll;

namespace {

// The least of its compute capability with that many multiprocessors: A100, H100, B200. Of a multiprocessor and block.
struct Architecture {
  const char* name;
  int arch, multiprocessors, shared_bytes;
};
constexpr Architecture k_architectures[] = {
    {"sm_80", 80, 108, 163 << 10}, {"sm_90a", 90, 132, 227 << 10}, {"sm_100", 100, 148, 227 << 10}};
constexpr int k_registers = 65536;  // of a multiprocessor

// Made up: three exchanges forward.
const TextCell k_text_cell{.name = "blend",
                           .states = {"h", "s"},
                           .step = "g = sigmoid(affine(x, h))\n"
                                   "n = tanh(layer_norm(affine(x, g * h)))\n"
                                   "s' = 0.5 * s + n\n"
                                   "h' = (1 - g) * h + g * n + 0.1 * s"};

std::shared_ptr<const Plan> planned(const std::string& cell, std::int64_t hidden, Precision precision, bool ends) {
  const testing::PlansForCuda backend;
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {100, 16, hidden}});
  const Value lengths = ends ? graph.input("lengths", {DType::i32, {16}}) : Value{};
  const RecurrentModelOptions model{.cell = cell, .hidden = hidden, .cells = {k_text_cell}};
  const Value y = recurrent_model(scope, x, model, {}, lengths).y;
  testing::output_gradients(scope, mean(square(y)));
  PlanOptions options;
  options.precision = precision;
  return plan(graph, backend, options);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

// The PTX of a source for the architecture, where inline PTX is to be seen.
std::string ptx_of(const cuda::Functions& f, const std::string& source, const Architecture& architecture) {
  return cuda::compile_image(f, source, {"--gpu-architecture=compute_" + std::string(architecture.name + 3), true});
}

void check_loop(const cuda::Functions& f, const cuda::Program& program, const cuda::WholeLoop& loop,
                const std::string& what, const Architecture& architecture, bool narrow) {
  cuda::Kernels only;
  only.add_loop(program.kernels.text(loop.kernel), program.kernels.has_rows(), true);
  const std::string source = only.source(), log = testing::ptxas_log(f, source, architecture.name);
  const int registers = testing::number_before(log, "k0", " registers");
  const int shared = testing::number_before(log, "k0", " bytes smem") + static_cast<int>(loop.shared_bytes);
  CHECK(testing::number_before(log, "k0", " bytes spill stores") == 0);
  CHECK(testing::number_before(log, "k0", " bytes spill loads") == 0);
  CHECK(testing::number_before(log, "k0", " bytes stack frame") == 0);
  CHECK(registers > 0);
  CHECK(registers * static_cast<int>(loop.threads) <= k_registers);  // so a multiprocessor has a block
  CHECK(shared <= architecture.shared_bytes);
  CHECK(static_cast<int>(loop.blocks) <= architecture.multiprocessors);
  int mma = 0;
  if (architecture.arch == 90) {
    const std::string ptx = ptx_of(f, source, architecture);
    mma = count(ptx, loop.what.find("wgmma") == std::string::npos ? "mma.sync.aligned.m16n8k16.row.col.f32.bf16"
                                                                  : "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16");
    CHECK((mma > 0) == narrow);
  }
  CHECK(log.find("serialized") == std::string::npos);  // wgmma that waits for each instruction
  std::printf("%s %s: %d registers, %d bytes of shared memory, %u blocks%s\n", what.c_str(), architecture.name,
              registers, shared, loop.blocks, mma > 0 ? (", " + std::to_string(mma) + " mma").c_str() : "");
}

// Two clusters of eight blocks for 16 rows, which keep the weights of small models.
constexpr Architecture k_clusters[] = {{"sm_90a", 90, 16, 227 << 10}, {"sm_100", 100, 16, 227 << 10}};

// A cluster passes the operand of each product but those of fused reductions.
void check_exchange(const cuda::Functions& f, const cuda::Program& program, const cuda::WholeLoop& loop,
                    const Architecture& architecture) {
  REQUIRE(loop.can_cluster());
  REQUIRE(!loop.buffers.empty());
  cuda::Kernels only;
  only.add_loop(program.kernels.text(loop.kernel), program.kernels.has_rows(), true);
  const std::string source = only.source(), ptx = ptx_of(f, source, architecture);
  CHECK(count(ptx, "st.shared::cluster.v4.u32") > 0);
  CHECK(count(ptx, "st.shared::cluster.u16") == 0);  // vectors only
  // In machine code such stores have generic addresses, as those to memory, which are of 4 bytes at most here.
  const std::string code = testing::machine_code(f, source, architecture.name);
  if (code.empty()) return;
  CHECK(count(code, "ST.E.128") >= static_cast<int>(loop.buffers.size()));
  CHECK(count(code, "UCGABAR_WAIT") == 2);  // before the first command and behind one
  CHECK((count(code, "HGMMA.64x8x16.F32.BF16") > 0) == (loop.what.find("wgmma") != std::string::npos));
  std::printf("  %d stores of 16 bytes to other blocks, %d HMMA, %d HGMMA in machine code\n", count(code, "ST.E.128"),
              count(code, "HMMA."), count(code, "HGMMA."));
}

void check_cell(const cuda::Functions& functions, const std::string& cell, std::int64_t hidden, Precision precision,
                const Architecture& architecture, bool ends = false, bool wgmma = false) {
  CAPTURE(cell);
  CAPTURE(hidden);
  CAPTURE(architecture.name);
  const bool narrow = precision == Precision::bf16, is_cluster = architecture.multiprocessors == 16;
  const cuda::LoopOptions options{.form = cuda::LoopForm::resident,
                                  .arch = architecture.arch,
                                  .multiprocessors = architecture.multiprocessors,
                                  .shared_bytes = static_cast<std::size_t>(architecture.shared_bytes),
                                  .shares_units = is_cluster,
                                  .uses_wgmma = wgmma};
  const cuda::Program program = cuda::compile_program(planned(cell, hidden, precision, ends),
                                                      architecture.multiprocessors, {}, nullptr, options);
  int loops = 0;
  for (const cuda::NodeWork& work : program.main->works) {
    if (!work.body) continue;
    CAPTURE(work.note);
    REQUIRE(work.whole);
    REQUIRE(work.whole->blocks > 0);
    ++loops;
    check_loop(functions, program, *work.whole,
               cell + " H" + std::to_string(hidden) + (ends ? " with lengths" : "") + (narrow ? " bf16" : " f32") +
                   (loops == 1 ? " forward" : " backward"),
               architecture, narrow);
    if (is_cluster) check_exchange(functions, program, *work.whole, architecture);
    CHECK((work.whole->what.find("wgmma") != std::string::npos) == (wgmma && loops == 1));
  }
  CHECK(loops == 2);
}

}  // namespace

TEST_CASE("resident loops of H 256, 512 and 768 keep all numbers in registers, and their weights fit") {
  cuda::Functions functions;
  if (!testing::has_compiler(functions)) return;
  constexpr int k_of_cell = 6;
  int n = 0;
  for (const std::string cell : {"lstm", "gru", "lnlstm", "blend"})
    for (const std::int64_t hidden : {256, 512, 768})
      for (const Precision precision : {Precision::f32, Precision::bf16}) {
        const int turn = n + n / k_of_cell;  // another architecture than the cell before
        ++n;
        for (int k = 0; k < 3; ++k)
          if (testing::is_compiled_for(turn, k)) check_cell(functions, cell, hidden, precision, k_architectures[k]);
      }
}

TEST_CASE("resident loops whose rows end keep all numbers in registers, too") {
  cuda::Functions functions;
  if (!testing::has_compiler(functions)) return;
  int turn = 0;
  for (const std::string cell : {"lstm", "lnlstm"})
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      ++turn;
      for (int k = 0; k < 3; ++k)
        if (testing::is_compiled_for(turn, k)) check_cell(functions, cell, 512, precision, k_architectures[k], true);
    }
}

TEST_CASE("loops whose blocks are a cluster store operands into the shared memory of all of them, by vectors") {
  cuda::Functions functions;
  if (!testing::has_compiler(functions)) return;
  int turn = 0;
  for (const std::string cell : {"rnn", "gru", "lstm"})
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      ++turn;
      for (int k = 0; k < 2; ++k)
        if (testing::is_compiled_for(3 * turn + 1 + (turn + k) % 2, 1))
          check_cell(functions, cell, 256, precision, k_clusters[k]);
    }
}

TEST_CASE("products of a cluster by wgmma keep weights and sums in registers") {
  cuda::Functions functions;
  if (!testing::has_compiler(functions)) return;
  for (const std::int64_t hidden : {128, 256})
    check_cell(functions, "lstm", hidden, Precision::bf16, k_clusters[0], /*ends=*/hidden == 128, /*wgmma=*/true);
}
