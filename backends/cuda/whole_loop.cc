// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/program.h"

namespace unroll::cuda {

namespace {

constexpr std::size_t k_part_bytes = 47 << 10;  // of all parts: 48 KiB are there without asking
constexpr std::size_t k_copy_words = 3;           // from, to, bytes
constexpr std::string_view k_head = "extern \"C\" __global__ void KERNEL(", k_last = "KERNEL_sizes n)";

// The barrier is that of cooperative groups: block 0 adds what takes the count of all blocks to the highest bit.
constexpr std::string_view k_begin = R"(struct KERNEL_sizes { long long commands; };
__device__ inline void KERNEL_wait(unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned before = atomicAdd(arrived, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1u) : 1u);
    while (((before ^ __ldcv(arrived)) & 0x80000000u) == 0u) {}
    __threadfence();
  }
  __syncthreads();
}
__device__ void KERNEL_copy(unsigned block, unsigned blocks, const char* from, char* to, long long bytes) {
  const long long step = (long long)blocks * blockDim.x, first = (long long)block * blockDim.x + threadIdx.x;
  if ((((long long)from | (long long)to | bytes) & 3) == 0)
    for (long long i = first; i < bytes / 4; i += step) ((unsigned*)to)[i] = ((const unsigned*)from)[i];
  else
    for (long long i = first; i < bytes; i += step) to[i] = from[i];
}
)";
// The words of the next command are on their way while this one runs.
constexpr std::string_view k_commands = R"(
extern "C" __global__ void KERNEL(const long long* table, unsigned* arrived, KERNEL_sizes n) {
  __shared__ long long command[WORDS];
  const int thread = int(threadIdx.x);
  long long next = thread < WORDS ? table[thread] : 0;
  for (long long c = 0; c < n.commands; ++c) {
    if (thread < WORDS) command[thread] = next;
    __syncthreads();
    if (thread < WORDS && c + 1 < n.commands) next = table[(c + 1) * WORDS + thread];
    const unsigned blocks = unsigned(command[1]);
    const long long* const a = command + 3;
    for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
      switch (int(command[0])) {
)";
constexpr std::string_view k_end = R"(      }
      __syncthreads();
    }
    if (command[2] != 0) KERNEL_wait(arrived);
    else __syncthreads();
  }
}
)";

// Types of the pointers that a kernel takes: "const float*".
std::vector<std::string> pointer_types(const std::string& text) {
  const std::size_t begin = text.find(k_head) + k_head.size(), end = text.find(k_last, begin);
  std::vector<std::string> types;
  for (std::size_t at = begin, comma; (comma = text.find(',', at)) < end; at = comma + 1)
    types.push_back(text.substr(at, text.rfind('*', comma) + 1 - at));
  return types;
}

// The kernel as a function of the number of its block, and the case that calls it.
void add_part(const std::string& text, int number, std::string& parts, std::string& cases) {
  const std::string name = "KERNEL_part" + std::to_string(number);
  std::string part = replaced(text, k_head, "__device__ void KERNEL(unsigned unroll_block, unsigned unroll_grid, ");
  part = replaced(std::move(part), k_last, "const KERNEL_sizes& n)");
  part = replaced(std::move(part), "blockIdx.x", "unroll_block");
  part = replaced(std::move(part), "gridDim.x", "unroll_grid");
  parts += replaced(std::move(part), "KERNEL", name);
  cases += "        case " + std::to_string(number) + ": " + name + "(block, blocks";
  const std::vector<std::string> types = pointer_types(text);
  for (std::size_t k = 0; k < types.size(); ++k) cases += ", (" + types[k] + ")a[" + std::to_string(k) + "]";
  cases += ", *(const " + name + "_sizes*)(a + " + std::to_string(types.size()) + ")); break;\n";
}

// Of the functions that row kernels reduce with.
std::size_t reduction_bytes(const std::string& text) {
  if (text.find("unroll_row_") == std::string::npos) return 0;
  constexpr std::size_t k_words = 1024, k_kinds = 2;
  return k_kinds * k_words * (text.find("double") == std::string::npos ? 4 : 4 + 8);
}

}  // namespace

std::optional<WholeLoop> whole_loop(Kernels& kernels, const PlanProgram& body) {
  WholeLoop loop;
  loop.words = k_loop_head + k_copy_words;
  std::string parts, cases;
  std::size_t shared = 0, reductions = 0;
  for (const NodeWork& work : body.works) {
    if (work.body) return std::nullopt;
    for (const Launch& launch : work.launches) {
      if (launch.kernel < 0) return std::nullopt;
      const std::size_t words = (launch.sizes.size() + 7) / 8;
      loop.words = std::max(loop.words, k_loop_head + launch.operands.size() + words);
      const auto [part, is_new] = loop.parts.try_emplace(launch.kernel, static_cast<int>(loop.parts.size()));
      if (!is_new) continue;
      const BlockNeeds& needs = kernels.needs(launch.kernel);
      if (needs.threads != 0 && needs.threads != k_loop_threads) return std::nullopt;
      shared += needs.shared_bytes;
      reductions = std::max(reductions, reduction_bytes(kernels.text(launch.kernel)));
      add_part(kernels.text(launch.kernel), part->second, parts, cases);
    }
  }
  if (loop.parts.empty() || loop.words > k_loop_threads || shared + reductions > k_part_bytes) return std::nullopt;
  cases += "        default: KERNEL_copy(block, blocks, (const char*)a[0], (char*)a[1], a[2]);\n";
  const std::string commands = replaced(std::string(k_commands), "WORDS", std::to_string(loop.words));
  loop.kernel = kernels.add(std::string(k_begin) + parts + commands + cases + std::string(k_end));
  return loop;
}

}  // namespace unroll::cuda
