// SPDX-License-Identifier: Apache-2.0
// Loops whose blocks keep the weights of their units for all steps: which products, and how they are shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/cuda/program/program.h"
#include "backends/cuda/scan/exchange_buffers.h"
#include "backends/cuda/scan/units.h"
#include "backends/device/joined.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cuda {

// Arithmetic of a product: fused multiply-adds in f32, or tensor cores (mma.sync, PTX ISA: "Matrix Fragments") with
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
  int buffer = -1;               // that has the operand; -1: each block reads it from memory

  // Filled by plan_resident.
  std::int64_t own = 0, columns = 0;       // units of a block; columns of its weights, padded
  std::int64_t slice = 0, slices = 0;      // terms of a warp, and warps with some
  std::int64_t tile_rows = 0;              // rows at a time
  std::int64_t lanes = 0;                  // fma: of a warp along the columns
  bool in_registers = false;
  bool is_wgmma = false;                   // two warpgroups share the sum; the operand is in a buffer
  std::int64_t fragments = 0;              // tensor cores: of a warp, of 16 bytes a thread
  std::size_t shared_at = 0, shared_bytes = 0;  // of the weights

  bool is_tensor() const { return kind != ProductKind::fma; }
  std::int64_t terms() const { return kind == ProductKind::tf32 ? 16 : is_tensor() ? 32 : 4; }  // loaded at a time
  std::int64_t pitch() const { return columns + 4; }  // of a row of sums
  std::size_t sums_bytes() const { return slices * tile_rows * pitch() * sizeof(float); }
};

struct ResidentPlan {
  UnitMap map;
  std::vector<ResidentProduct> products;
  std::vector<ExchangeBuffer> buffers = {};
  std::size_t sums_at = 0, shared_bytes = 0;  // of a block
  std::string reason;  // why there is none
  std::string what() const;
  std::vector<ExchangeWidth> widths() const;  // of the buffers
};

// Nodes of a step that other nodes compute.
struct JoinedNodes {
  std::vector<device::Joined> products;
  std::vector<device::JoinedConcat> concats;
};

// Plans the loop `scan` of a plan, with the hazards of its body. `joined` must outlive the result. `static_bytes` of
// the shared memory of a block are in use for other things.
ResidentPlan plan_resident(const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                           const JoinedNodes& joined, const LoopOptions& options, std::size_t static_bytes = 0);

// The kernel of a product and what follows it, by units; operand 0 is the product's. `printer` reads the sums s0, s1
// and so on of its gates. Both texts hold UNROLL_LOOP for the name of the loop's kernel.
std::string print_resident_product(const ResidentPlan& plan, int number, const UnitPrinter& printer,
                                   std::int64_t live_rows = 0);
// Prints the load of the weight, whose address is word `number` of the table.
ResidentPart print_resident_weight(const ResidentPlan& plan, int number);

// find_exchanges.cc
// Buffers for the products of a plan whose operands are computed by units; sets ResidentProduct::buffer.
std::vector<ExchangeBuffer> find_exchange_buffers(const Plan& body, const ScanForm& form,
                                                  const common::Hazards& hazards,
                                                  const std::vector<device::JoinedConcat>& concats,
                                                  std::vector<ResidentProduct>& products);

// A value, or some columns of it from `first` on, in a register of an expression.
struct ProducedValue {
  ValueId value;
  std::int64_t first;
  std::uint16_t from;
};
// Results of `e` that products of the loop read from buffers.
std::vector<PassedResult> passed_results(const ResidentPlan& plan, const Plan& body, const common::Expression& e,
                                         const std::vector<ProducedValue>& produced);
// Exchange buffers of a command with this expression. `first_access`: of the printer's accesses among those of the
// launch.
ExchangeUse exchange_use(const ResidentPlan& plan, const UnitPrinter& printer, std::size_t first_access);
std::vector<int> buffers_of(const std::vector<PassedResult>& passed);

// print_exchange.cc
// "struct UNROLL_LOOP_buffer0 { ... };" of each buffer, and the statements before the commands of the loop.
std::string print_buffers(const ResidentPlan& plan);
std::string print_begin(const ResidentPlan& plan);
// For a part that reads a buffer or passes results to some: "struct KERNEL_sizes { ... };", the statements behind
// print_owned, and those behind its last result, which the block sends to the others.
std::string print_exchange_sizes(bool reads, const std::vector<PassedResult>& passed);
std::string print_slots(const std::vector<PassedResult>& passed);
std::string print_sends(const ResidentPlan& plan, const std::vector<PassedResult>& passed, std::int64_t units);
// A kernel that computes an expression by units. Operands as the expression has them. `live_rows`: rows of one row of
// the batch, if a step runs on its first rows (for_live_rows); 0: on all.
std::string print_unit_kernel(const UnitPrinter& printer, const ResidentPlan& plan, std::int64_t live_rows = 0);

}  // namespace unroll::cuda
