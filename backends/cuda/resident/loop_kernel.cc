// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/program/program.h"

namespace unroll::cuda {

namespace {

constexpr std::size_t k_static_bytes = 48 << 10;  // of a kernel, with the words of a command
constexpr std::size_t k_copy_words = 3;         // from, to, bytes
constexpr std::string_view k_head = k_kernel_head, k_last = k_kernel_last;

constexpr std::string_view k_begin = R"(struct KERNEL_sizes { long long commands, clustered; };
__device__ void KERNEL_copy(unsigned block, unsigned blocks, const char* from, char* to, long long bytes) {
  const long long step = (long long)blocks * blockDim.x, first = (long long)block * blockDim.x + threadIdx.x;
  if ((((long long)from | (long long)to | bytes) & 3) == 0)
    for (long long i = first; i < bytes / 4; i += step) ((unsigned*)to)[i] = ((const unsigned*)from)[i];
  else
    for (long long i = first; i < bytes; i += step) to[i] = from[i];
}
)";
// The table has the addresses of WEIGHTS weights before the commands. The words of the next command are on their way
// while this one runs. Steps without rows are the first or the last ones: nobody waits for what they leave out.
constexpr std::string_view k_commands = R"(
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
KERNEL(const long long* table, unsigned* arrived, KERNEL_sizes n) {
  __shared__ long long command[WORDS];
  const int thread = int(threadIdx.x);
VARIABLES  const long long* const commands = table + WEIGHTS;
  long long next = thread < WORDS ? commands[thread] : 0;
  for (long long c = 0; c < n.commands; ++c) {
    if (thread < WORDS) command[thread] = next;
    __syncthreads();
    if (thread < WORDS && c + 1 < n.commands) next = commands[(c + 1) * WORDS + thread];
    const unsigned blocks = command[3] != 0 && *(const int*)command[3] == 0 ? 0u : unsigned(command[1]);
    const long long* const a = command + 4;
    for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
      switch (int(command[0])) {
)";
constexpr std::string_view k_end = R"(      }
      __syncthreads();
    }
    const int wait = blocks == 0u ? 0 : int(command[2]);
    if (wait == 2) unroll_wait(arrived, 0u, gridDim.x);
CLUSTER    else if (wait == 1)
      unroll_wait(arrived + (blockIdx.x / GROUPu + 1u) * LINEu, blockIdx.x / GROUPu * GROUPu, GROUPu);
    else __syncthreads();
  }
}
)";

constexpr std::string_view k_cluster_wait =
    "    else if (wait == 1 && n.clustered != 0) unroll_cluster_wait(GROUPu);\n";

// Types of the pointers that a kernel takes: "const float*".
std::vector<std::string> pointer_types(const std::string& text) {
  const std::size_t begin = text.find(k_head) + k_head.size(), end = text.find(k_last, begin);
  std::vector<std::string> types;
  for (std::size_t at = begin, comma; (comma = text.find(',', at)) < end; at = comma + 1)
    types.push_back(text.substr(at, text.rfind('*', comma) + 1 - at));
  return types;
}

// The kernel as a function of the number of its block, and the case that calls it. In row kernels of a resident loop,
// the blocks of a group take its rows in turn.
void add_part(const std::string& text, const ResidentPart& resident, const WholeLoop& loop, int number,
              std::string& parts, std::string& cases) {
  const std::string name = "KERNEL_part" + std::to_string(number);
  const std::string how = resident.parameter.empty() ? "__device__ void" : "__device__ __forceinline__ void";
  std::string part = replaced(
      text, k_head, how + " KERNEL(unsigned unroll_block, unsigned unroll_grid, " + resident.parameter);
  part = replaced(std::move(part), k_last, "const KERNEL_sizes& n)");
  part = replaced(std::move(part), "blockIdx.x", "unroll_block");
  part = replaced(std::move(part), "gridDim.x", "unroll_grid");
  parts += replaced(std::move(part), "KERNEL", name);
  std::string arguments = "block, blocks";
  cases += "        case " + std::to_string(number) + ":\n          ";
  if (resident.own_rows > 0) {
    const std::string group = std::to_string(loop.group_blocks) + "u", own = std::to_string(resident.own_rows) + "u";
    cases += "for (unsigned row = block % " + group + "; row < " + own + "; row += " + group + ") ";
    arguments = "block / " + group + " * " + own + " + row, " + std::to_string(resident.all_rows) + "u";
  }
  if (!resident.argument.empty()) arguments += ", " + resident.argument;
  const std::vector<std::string> types = pointer_types(text);
  for (std::size_t k = 0; k < types.size(); ++k) arguments += ", (" + types[k] + ")a[" + std::to_string(k) + "]";
  cases += name + "(" + arguments + ", *(const " + name + "_sizes*)(a + " + std::to_string(types.size()) +
           "));\n          break;\n";
}

// Shared memory of the functions that row kernels reduce with.
std::size_t reduction_bytes(const std::string& text) {
  if (text.find("unroll_row_") == std::string::npos) return 0;
  constexpr std::size_t k_words = 1024, k_kinds = 2;
  return k_kinds * k_words * (text.find("double") == std::string::npos ? 4 : 4 + 8);
}

std::string op_text(const PlanProgram& body, const NodeWork& work) {
  return "%" + std::to_string(work.node) + " " + std::string(op_info(body.plan->graph->node(work.node).op).name);
}

}  // namespace

bool print_loop(const LoopText& text, WholeLoop& loop, Kernels& kernels, std::string& reason) {
  loop.words = k_loop_head + k_copy_words;
  std::string parts = text.types, cases, variables = text.begin;
  std::size_t shared = 0, reductions = 0;
  for (const NodeWork& work : text.body.works) {
    if (work.body) return reason = op_text(text.body, work) + " is a loop in a step", false;
    for (const Launch& launch : work.launches) {
      if (launch.kernel < 0) return reason = op_text(text.body, work) + " is a call of a library", false;
      const std::size_t words = (launch.sizes.size() + 7) / 8;
      loop.words = std::max(loop.words, k_loop_head + launch.operands.size() + words);
      const auto [part, is_new] =
          loop.parts.try_emplace(launch.kernel, LoopPart{static_cast<int>(loop.parts.size()), false});
      if (!is_new) continue;
      const BlockNeeds& needs = text.body_kernels.needs(launch.kernel);
      if (needs.threads != 0 && needs.threads != loop.threads)
        return reason = op_text(text.body, work) + " needs blocks of " + std::to_string(needs.threads) + " threads",
               false;
      part->second.is_fixed = needs.shares_rows || needs.threads != 0;
      shared += needs.shared_bytes;
      reductions = std::max(reductions, reduction_bytes(text.body_kernels.text(launch.kernel)));
      const auto resident = text.resident.find(launch.kernel);
      const ResidentPart how = resident == text.resident.end() ? ResidentPart{} : resident->second;
      parts += how.prologue, variables += how.variables;
      add_part(text.body_kernels.text(launch.kernel), how, loop, part->second.number, parts, cases);
    }
  }
  if (loop.parts.empty()) return reason = "a step has no work", false;
  if (loop.words > loop.threads) return reason = "a command has " + std::to_string(loop.words) + " words", false;
  loop.static_bytes = shared + reductions + loop.words * sizeof(std::int64_t);
  if (loop.static_bytes > k_static_bytes)
    return reason =
        "rows of its fused reductions need " + std::to_string(shared + reductions) + " bytes of shared memory",
           false;
  cases += "        default: KERNEL_copy(block, blocks, (const char*)a[0], (char*)a[1], a[2]);\n";
  std::string commands = replaced(std::string(k_commands), "WORDS", std::to_string(loop.words));
  commands = replaced(std::move(commands), "WEIGHTS", std::to_string(loop.weights.size()));
  commands = replaced(std::move(commands), "VARIABLES", variables);
  commands = replaced(std::move(commands), "THREADS, BLOCKS",
                      std::to_string(loop.threads) + ", " + (loop.blocks == 0 ? "2" : "1"));
  std::string end = replaced(std::string(k_end), "CLUSTER", loop.can_cluster() ? std::string(k_cluster_wait) : "");
  end = replaced(std::move(end), "GROUP", std::to_string(std::max(loop.group_blocks, 1u)));
  end = replaced(std::move(end), "LINE", std::to_string(2 * k_counter_words));
  const std::string all = std::string(k_begin) + parts + commands + cases + end;
  loop.kernel = kernels.add_loop(replaced(all, "UNROLL_LOOP", "KERNEL"), text.body_kernels.has_rows(),
                                 !text.resident.empty());
  return true;
}

}  // namespace unroll::cuda
