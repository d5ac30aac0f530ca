// SPDX-License-Identifier: Apache-2.0
// Capabilities of a backend, which guide the passes, and its answers to claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "unroll/support/types.h"

namespace unroll {

// Size limits by which passes choose between equivalent plans. Results agree within rounding errors for all values. The
// defaults suit a core with 32 KiB of L1 and 1 to 2 MiB of L2 cache.
struct Tuning {
  // Limits of fused reductions. At most one worker runs each row.
  std::int64_t fewest_rows = 4;  // reductions over fewer rows are not fused
  std::int64_t summed_result_bytes = 4 << 20;  // above this size, row sums of a shared result are fused into its group
  // Limits of loops. A value over all steps above these sizes goes through memory, not through a cache.
  std::int64_t hoisted_reduction_bytes = 2 << 20;  // a row reduction with a larger operand stays in the loop
  std::int64_t deferred_summand_bytes = 1 << 20;   // a larger summand is reduced over the batch in each step
  // False if each reduction costs a separate dispatch: large summands then stay outside the loop.
  bool sums_in_steps = true;
  // Compute elementwise values that only a loop reads, slice by slice, in its steps. This saves their memory.
  bool operands_in_steps = false;
  // Run matmuls a^T b of one matrix a and its row sums in parallel. Their results then never overlap other operands in
  // memory.
  bool joins_products = false;
  // Minimum rows or steps at which concatenated matmuls (h U_f, h U_n -> h [U_f U_n]) justify copying the weights.
  std::int64_t fewest_product_rows = 32;  // outside loops
  std::int64_t fewest_product_steps = 4;  // in loops
};

// The form of a loop over T steps with sequence lengths: row b runs the steps t < lengths[b] (in reverse the last one
// first). After its steps a row keeps its states, and its rows of the outputs are zero.
//   masked    live[t,b] = t < lengths[b] is another sequence, and the step selects: all rows run all steps
//   packed    rows are sorted by length, sequences packed: step t runs the first batch_sizes[t] rows, [T*B,...] in all;
//             matmuls outside the loop count their rows (matmul with three operands)
//   restored  the scan takes lengths i32[B] as its last input, attribute `lengths`, and its step selects nothing: a
//             kernel may stop a row early. Rows are independent in every such scan of a plan
// In each form, a mask that resets states is a sequence of the loop, and the step selects.
enum class LengthsForm : std::uint8_t { masked, packed, restored };

struct Capabilities {
  std::string name = {};    // "cpu"
  std::string device = {};  // description of the device
  bool runs = true;         // false: a profile, which plans and compiles for a device, but allocates and runs nothing
  bool emulated = false;    // a driver emulates the device slowly on the host's processor, for tests
  std::vector<DType> dtypes = {};
  bool deterministic = true;  // bit-identical results for any number of threads
  // Results below the smallest normal number of their dtype may be flushed to zero, in some or all nodes.
  bool flushes_denormals = false;
  LengthsForm lengths = LengthsForm::masked;  // for loops with independent rows; other loops are masked
  bool fuses = false;     // wants elementwise groups as `fused` nodes
  int max_fused_ops = 48;  // maximum ops of a fused node: their values must fit the registers or tiles of a kernel
  bool groups_rows = false;  // wants reductions over rows, and their elementwise neighbors, as `fused_reduction` nodes
  // a result of a fused reduction may reuse the memory of an operand of its shape that nothing reads later
  bool rows_in_place = false;
  bool one_arena = false; // executables (except one_thread ones) share one arena, sized for the largest, and take turns
  // Reads strided operands in elementwise, move and matmul nodes (matmul: strided rows only), and writes strided
  // elementwise results. Otherwise every Storage is dense.
  bool views = false;
  // With views: an operand [M,K] of a matmul outside of loops may have rows and columns of several strides each, as
  // windows have. Storage::viewed has their sizes.
  bool windows_as_rows = false;
  // Number of branches of a fork, or of steps of a loop without states, that run at the same time, each in separate
  // memory. 1: plans have no forks.
  int lanes = 1;
  int threads = 1;  // host threads that work on a run; plans do not depend on it
  std::size_t alignment = 64;            // of arena offsets, in bytes: a power of two, at least 64
  std::size_t largest_buffer_range = 0;  // bytes of the largest value that a kernel can address; 0: no limit
  std::size_t memory_bytes = 0;          // device memory available to a run; 0: a run uses host memory
  std::vector<WeightFormat> weights = {WeightFormat::f32};  // supported formats of constants
  Tuning tuning = {};
};

// The answer of Backend::claim: true if the backend runs a composite or gradient node as one kernel.
struct Claim {
  bool yes = false;
  // For a gradient: number of opaque bytes that the forward node must save. The forward node then gets the attribute
  // saved_bytes and one more output, b8 [saved_bytes]. The gradient gets the same attribute. After its cotangents it
  // reads all outputs of the forward node, the saved bytes last.
  std::size_t saved_bytes = 0;
  std::size_t saving_scratch_bytes = 0;  // for a gradient: scratch bytes of its forward node, replacing that node's own
  std::size_t scratch_bytes = 0;         // arena bytes needed while the node runs, at plan.scratch_offset
  // Storage format of matmul operands and saved values in the kernel; becomes the attribute `format` unless f32.
  DType format = DType::f32;
  bool tf32 = false;  // with format f32: matmuls round their operands to tf32; becomes the attribute `tf32`
  std::string reason = {};               // if not claimed: why
};

}  // namespace unroll
