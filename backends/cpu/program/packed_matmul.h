// SPDX-License-Identifier: Apache-2.0
// A matmul by a constant of a scan: packed before the loop, in one share per worker, which stays in its core's L2.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/program/columns.h"
#include "backends/cpu/program/elementwise_call.h"
#include "backends/cpu/program/plan_view.h"

namespace unroll::cpu {

class PackedMatmul final : public Call {
 public:
  struct Operands {
    Ref a, b, c;
  };
  // Divided again for each number of rows, see run_packed.
  PackedMatmul(const Matmul& matmul, const Operands& operands, int parts);
  // Each worker computes the columns of its units. With `apart` these lie side by side in the result, one worker's
  // after the other's.
  PackedMatmul(const Matmul& matmul, const Operands& operands, const ColumnSplit::Product& split, int parts);

  // Adds an epilogue on the rows and columns of each worker. Not supported for columns of units.
  void add(BlockEpilogue epilogue) { epilogue_ = std::move(epilogue); }
  void pack(const Frame& frame, const Worker& worker);
  void run(const Frame& frame, const Worker& worker) override;
  std::string implementation() const override;
  std::size_t held_bytes() const override { return packed_.size() + scratch_.size(); }
  std::vector<Access> accesses() const override;

 private:
  struct Own {
    Range units;
    Matmul matmul;
    std::size_t packed = 0;  // bytes
    std::size_t c = 0;
  };
  Matmul matmul_;
  Operands at_;
  ColumnSplit::Product split_ = {};
  std::vector<Own> own_;  // per worker; empty unless by columns
  std::optional<BlockEpilogue> epilogue_ = {};
  Bytes packed_;
  std::size_t scratch_bytes_;  // per worker
  Bytes scratch_;
  std::byte* scratch_of(const Worker& worker) {
    return scratch_.data() + worker.index * scratch_bytes_;
  }
};

std::unique_ptr<PackedMatmul> make_packed_matmul(const PlanView& body, std::int32_t node, const ColumnSplit* split);

}  // namespace unroll::cpu
