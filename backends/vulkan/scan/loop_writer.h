// SPDX-License-Identifier: Apache-2.0
// Writes the shader of a whole loop. Sizes and strides are constants of it. A word of shared memory holds one element.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "backends/vulkan/scan/loops.h"

namespace unroll::vulkan {

class LoopWriter {
 public:
  LoopWriter(const LoopStep& step, const LoopTiling& tiling, const LoopOperands& operands, const Setting& setting,
             const Limits& limits)
      : s_(step), t_(tiling), o_(operands), limits_(limits), c_(options(tiling, operands, setting)) {}
  Words write();

  Term load(const LoopPlace& place, Term at, DType dtype);
  void store(const LoopPlace& place, Term at, Term value, DType dtype);
  Term u(std::int64_t n) { return c_.u(static_cast<std::uint32_t>(n)); }
  // `number` * stride; strides of nothing cost nothing.
  Term times(Term number, std::int64_t stride) { return stride == 1 ? number : number * u(stride); }

 private:
  static ModuleOptions options(const LoopTiling& t, const LoopOperands& o, const Setting& setting) {
    ModuleOptions options = module_options(setting, o.count);
    options.local_size = t.local_size;
    return options;
  }
  bool shares_rows() const { return s_.rows > 0; }
  std::int64_t words(const LoopStep::Array& array) const {
    return shares_rows() ? array.row_words * t_.rows : array.words;
  }
  void place_arrays();
  Term shared_at(const LoopPlace& place);
  Term operand_at(const LoopPlace& place);
  void enter(), leave();  // states from and to memory
  void states(const std::function<void(std::size_t state, Term element, Term outside)>& each);
  Term live(Term step, std::uint32_t which);  // rows of a step; 1: of all before it
  Term last_parity(Term row);                 // of the state that a row has in the end
  void step(Term number);
  void item(const LoopItem& item);
  void pointwise(const LoopItem& item);
  void terms(Term first, std::int64_t count, const std::function<void(Term k)>& add);
  std::vector<Local> parts(const LoopProduct& p, const std::vector<Local>& sums,
                           const std::function<void(Term k)>& add);
  void product(const LoopItem& item);
  void rows(const LoopItem& item);

  const LoopStep& s_;
  const LoopTiling& t_;
  const LoopOperands& o_;
  const Limits& limits_;
  Code c_;
  Shared memory_;
  std::vector<std::int64_t> state_at_, local_at_, carry_at_;  // first words; of a state, which has two in turn
  Term lane_, group_, first_row_, valid_rows_, begin_, end_, parity_, step_;
  Term position_;  // of a packed loop: rows of all steps before this one
  std::set<int> written_;  // arrays since the last barrier
};

}  // namespace unroll::vulkan
