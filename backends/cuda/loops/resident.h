// SPDX-License-Identifier: Apache-2.0
// Loops whose blocks keep the weights of their units for all steps: which products, and how they are shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/cuda/loops/units.h"
#include "backends/cuda/program.h"
#include "backends/device/joined.h"
#include "unroll/plan/scan_form.h"

namespace unroll::cuda {

// How a product is computed: fused multiply-adds in f32, or tensor cores (mma.sync, PTX ISA: "Matrix Fragments") with
// sums in f32.
enum class ProductKind : std::uint8_t { fma, bf16, f16, tf32 };

// [m, k] by a weight to [m, gates * units]. The weights are the rows of the tiles of tensor cores: gates of 16 units by
// k. The columns are 8 rows of the state. Warps share the sum over k: each has `slice` terms, and what follows adds up
// the sums of the warps in order.
struct ResidentProduct {
  std::int32_t node = -1;
  std::int32_t weight = -1;      // input of the body
  bool transposed = false;       // the weight is [n, k]
  std::int64_t m = 0, n = 0, k = 0, gates = 1, units = 0;
  std::int64_t row = 0;          // from row to row of the operand, in elements
  ValueId a = {};                // the operand
  DType a_dtype = DType::f32;    // of the operand in memory
  ProductKind kind = ProductKind::fma;
  std::int32_t rounding = -1;    // node between `a` and the product that the product computes as it loads
  bool only_rounded = false;     // nothing else reads that node
  bool vectors = false;          // rows of `a` begin at multiples of 16 bytes and have whole vectors
  const device::Joined* joined = nullptr;  // what follows in the same part; null: it is stored

  // Filled by plan_resident.
  std::int64_t own = 0, columns = 0;       // units of a block; columns of its weights, padded
  std::int64_t slice = 0, slices = 0;      // terms of a warp, and warps with some
  std::int64_t tile_rows = 0;              // rows at a time
  std::int64_t lanes = 0;                  // fma: of a warp along the columns
  bool in_registers = false;
  std::int64_t fragments = 0;              // tensor cores: of a warp, of 16 bytes a thread
  std::size_t shared_at = 0, shared_bytes = 0;  // of the weights

  bool is_tensor() const { return kind != ProductKind::fma; }
  std::int64_t terms() const { return kind == ProductKind::tf32 ? 16 : is_tensor() ? 32 : 4; }  // loaded at a time
  std::int64_t pitch() const { return columns + 4; }  // of a row of sums
  std::size_t sums_bytes() const { return static_cast<std::size_t>(slices * tile_rows * pitch()) * sizeof(float); }
};

struct ResidentPlan {
  UnitMap map;
  std::vector<ResidentProduct> products;
  std::size_t sums_at = 0, shared_bytes = 0;  // of a block
  std::string reason;  // why there is none
  std::string what() const;
};

// Of the loop `scan` of a plan, with the hazards of its body. `joined` must outlive the result. `static_bytes` of the
// shared memory of a block are in use for other things.
ResidentPlan plan_resident(const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                           const std::vector<device::Joined>& joined, const LoopOptions& options,
                           std::size_t static_bytes = 0);

// The kernel of a product and what follows it, by units; operand 0 is the product's. `printer` reads the sums s0, s1
// and so on of its gates. Both texts hold UNROLL_LOOP for the name of the loop's kernel.
std::string print_resident_product(const ResidentPlan& plan, int number, const UnitPrinter& printer,
                                   std::int64_t live_rows = 0);
// How blocks get the weight, whose address is word `number` of the table.
ResidentPart print_resident_weight(const ResidentPlan& plan, int number);
}  // namespace unroll::cuda
