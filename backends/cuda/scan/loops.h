// SPDX-License-Identifier: Apache-2.0
// Loops as one launch. The blocks of a cooperative kernel stay for all steps; a table in memory has the commands of the
// loop in order, and the blocks of the grid wait for each other where a command touches what an earlier one did. The
// kernel has the text of those of the body as functions, so a loop runs what its steps would, without a launch for
// each.
//
// In a resident loop each block owns units and rows: it keeps the columns of its units of every weight in shared memory
// or registers for all steps, and computes what follows elementwise for its units only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/device/joined.h"
#include "backends/device/lowering.h"

namespace unroll::cuda {

struct PlanProgram;
struct Program;

enum class LoopForm : std::uint8_t { steps, whole, resident };
struct LoopOptions {
  LoopForm form = LoopForm::steps;
  int arch = 0;                          // compute capability: 90 for 9.0
  int multiprocessors = 1;
  std::size_t shared_bytes = 48 << 10;   // of a block, at most
  bool shares_units = false;             // also where one block could have all units of its rows
  bool passes_shared = true;             // within a cluster through shared memory, where a loop allows it
  bool uses_wgmma = false;               // for products in 16 bits of operands that are passed so
};

// A kernel of the body as a function of the loop's kernel.
struct LoopPart {
  int number = 0;
  bool is_fixed = false;  // it has a number of blocks of its own, of as many threads as the loop
};

struct ExchangeWidth {  // of a buffer (exchange_buffers.h)
  std::int64_t columns = 0;
  std::size_t readers = 0;  // products
};

inline constexpr unsigned k_portable_cluster = 8;  // on any device that has clusters
inline constexpr unsigned k_most_cluster = 16;     // where it allows more
struct WholeLoop {
  int kernel = -1;
  std::size_t words = 0;               // of a command: k_loop_head, then its arguments
  unsigned threads = 0;                // of a block
  unsigned blocks = 0;                 // of a resident loop; 0: as many as its commands have
  unsigned group_blocks = 0;           // of a resident loop: that have the same rows, one behind the other
  std::size_t shared_bytes = 0;        // of a block, asked for at the launch
  std::size_t static_bytes = 0;        // of a block besides, at most
  std::map<int, LoopPart> parts = {};  // of a kernel of the body; a copy has the number behind them
  device::Operands weights = {};       // of the body: their addresses come before the commands
  std::vector<ExchangeWidth> buffers = {};  // of exchanges
  std::string what = {};               // for reports
  // True if the blocks of a group may be a cluster, which waits by hardware (compute capability 9.0).
  bool can_cluster() const { return group_blocks > 1 && group_blocks <= k_most_cluster; }
};
inline constexpr unsigned k_loop_threads = 128, k_resident_threads = 256;
// Words: the number of the part, how many blocks, which blocks wait for each other afterwards (Wait), and in packed
// loops where the number of rows of the step is; 0: the command has rows anyway.
inline constexpr std::size_t k_loop_head = 4;
// Before the addresses and commands of a table: counters of arrivals, of the grid and of each group of blocks, in lines
// of 128 bytes.
inline constexpr std::size_t k_counter_words = 16;

// The access of a kernel to an operand: bytes [offset, offset + bytes). With `row_bytes` element (row, unit) lies at
// offset + row * row_bytes + unit * width / units, and the block that owns the unit and the row touches it; without
// units any block that has the row; without both any block.
struct UnitAccess {
  std::size_t operand = 0, offset = 0, bytes = 0;
  bool writes = false;
  std::size_t row_bytes = 0, width = 0, rows = 0, units = 0;
};

// Use of exchange buffers (exchange_buffers.h) by a command of a resident loop. Its sizes are words: for the buffer
// that it reads, then for each that it writes.
struct ExchangeUse {
  int reads = -1;
  std::vector<int> writes = {};
  struct Piece {  // columns of an operand of a product, which lies at one of these accesses
    int buffer;
    std::int64_t first, columns;
    std::size_t element;  // bytes, in memory
    std::vector<std::size_t> accesses;
    bool only_there;
  };
  std::vector<Piece> pieces = {};
};

// Extras of a part of a resident loop. A product: how its function gets the weight, which stays in the
// blocks. A row kernel: rows, or sums of rows, that a group of blocks computes, and all of them.
struct ResidentPart {
  std::string prologue;   // functions and statements that load it
  std::string variables;  // statements in the kernel before its loop
  std::string parameter, argument;  // of the function, where the weight is in registers
  std::int64_t own_rows = 0, all_rows = 0;
};

// Prints the kernel of a loop with this body. None where the body has loops, transfers or products of cuBLASLt, or
// kernels that do not fit into blocks of loop.threads: `reason` then says so. `body_kernels` are those of its works.
struct LoopText {
  const Kernels& body_kernels;
  const PlanProgram& body;
  std::map<int, ResidentPart> resident = {};  // parts of resident loops, by kernel
  std::string types = {}, begin = {};  // before the parts; statements before the commands
};
bool print_loop(const LoopText& text, WholeLoop& loop, Kernels& kernels, std::string& reason);

// Compiles the loop `scan` of a plan as a resident one: its body, with works whose launches are parts of one kernel.
// Without a loop in the result it says why.
struct ResidentLoop {
  std::shared_ptr<PlanProgram> body;
  std::optional<WholeLoop> loop;
  std::string reason;
};
ResidentLoop compile_resident(Program& out, const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                              const device::LoopOutputs& outputs, const LoopOptions& options);

}  // namespace unroll::cuda
