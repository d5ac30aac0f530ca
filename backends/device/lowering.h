// SPDX-License-Identifier: Apache-2.0
// From the nodes of a plan to kernels of a device: where operands lie, and the nodes that only move elements. Backends
// that record kernels derive from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/expression.h"
#include "backends/device/axes.h"
#include "backends/device/joined.h"
#include "unroll/passes/backend.h"

namespace unroll::device {

struct PackedBody;

// Bytes of a value: of one of the plan's places, or of the executable's workspace.
struct Operand {
  Storage storage = {};
  std::size_t bytes = 0;
  bool workspace = false;  // storage.offset is then in the workspace
  std::size_t element = 4;  // bytes of an element: 1 for b8
  std::size_t before = 0;   // bytes before the value that are bound too
  bool previous = false;    // of the step before
  ValueId value = {};       // that it is, or a part of it
};
using Operands = std::vector<Operand>;

// Throws Error(unsupported) of the backend.
[[noreturn]] void refuse(const char* backend, const std::string& what);
// Refuses what passes should have replaced: composites, gradients, scans with masks, and packed ones unless the
// backend runs them.
void require_lowered(const char* backend, const Node& node, bool runs_packed = false);

int axis_of(const Node& node);
// The operand without its first elements.
void skip(Operand& operand, std::int64_t elements, DType dtype);
std::size_t aligned(std::size_t bytes);  // to 256 bytes
// Appends an input to an expression and returns its register. The registers behind it become one more.
std::size_t append_input(common::Expression& e, const common::Expression::Input& input);

// The matrices of a product: c [m, n] = a [m, k] b [k, n], strides in elements, and the axes before them.
struct ProductShape {
  std::int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
  Axes matrices;  // strides of a, b, c
  bool has_rows;  // a third operand counts the rows of a that are there
};
// A reduction: each of `outputs` results has `total` elements of the operand along the reduced axes.
struct ReductionShape {
  std::int64_t outputs, total;
  Axes kept, reduced;
};

class Lowering {
 public:
  Lowering(const Plan& plan, std::size_t& workspace_bytes) : plan_(plan), workspace_bytes_(workspace_bytes) {}
  virtual ~Lowering() = default;
  Operand workspace(std::size_t bytes);
  // The plan is the body of packed loop `scan` of `outer`: its kernels run on the rows of the step. Outputs that are
  // other values too are stored where these are computed or read. Returns the others, for move_output. `runs`: true for
  // nodes with work of their own; without it, all that write.
  std::vector<int> set_packed(const Plan& outer, std::int32_t scan, const common::Hazards& hazards, StatePlaces& states,
                              const std::function<bool(std::int32_t)>& runs = {});
  std::vector<int> stored_ahead(std::int32_t node) const;  // outputs of the body that the node stores besides

 protected:
  const Graph& graph() const { return *plan_.graph; }
  const Type& type(ValueId id) const { return graph().type(id); }
  const Storage& storage(ValueId id) const { return plan_.storage[id.node][id.output]; }
  bool is_stored(ValueId id) const;
  Operand operand(ValueId id);  // workspace when it is not stored
  common::Strides strides(ValueId id, const Shape& shape) const;  // of a value read as if it had that shape

  // An elementwise expression: operands are the inputs, then the results.
  virtual void expression(common::Expression expression, Operands operands) = 0;
  // The expression of an elementwise or fused node, or of a fused reduction, with the strides of the operands, which
  // are appended. Its results are those that are kept, then those that are stored in a second place.
  common::Expression node_expression(std::int32_t node, Operands& operands);
  void keep_results(std::int32_t node, common::Expression& e, Operands& operands);
  // Appends results that are parts of concatenations too. `register_of`: of an output of the node.
  void add_parts(const std::vector<JoinedConcat>& concats, std::int32_t node,
                 const std::function<std::uint16_t(std::int32_t)>& register_of, common::Expression& e,
                 Operands& operands);
  // Elements of `from` at `from_offset` to `to` at `to_offset`, over a shape, with strides; offsets in elements.
  struct Side {
    Operand operand;
    std::int64_t offset = 0;
    common::Strides strides = {};
  };
  void move(DType dtype, const Shape& shape, const Side& from, const Side& to);
  void fill_zero(DType dtype, const Shape& shape, const Side& to);
  void move_node(std::int32_t id);  // reshape and strided reads
  void concat(std::int32_t id);
  void pad(std::int32_t id);

  ProductShape product_shape(const Node& node, ValueId c) const;
  ReductionShape reduction_shape(const Node& node) const;  // reduce_sum, reduce_max, argmax

  // stored_twice.cc. Appends what a node stores in a second place to the results of its expression.
  struct Passed {
    std::uint16_t from;  // register
    int output;
  };
  void add_ahead(std::int32_t node, common::Expression& e, Operands& operands);
  // The inputs of the body that the node stores. Those that it does not read become inputs of its expression.
  std::vector<Passed> pass_through(std::int32_t node, common::Expression& e, Operands& operands,
                                   std::vector<int>& gates);
  void store_passed(const std::vector<Passed>& passed, common::Expression& e, Operands& operands) const;
  void move_output(int output);
  // Copies initial state `state` of a packed loop to both of its copies.
  common::Expression first_states(std::int32_t scan, std::size_t state, Operands& operands);
  // Takes the final rows of a state of a packed loop from its copies. Operands: rows of steps, initial state, copies,
  // final state. Sizes: elements, elements of a row, steps, elements from copy to copy, reverse.
  struct FinalState {
    DType dtype;
    Operands operands;
    std::vector<std::int64_t> sizes;
  };
  std::vector<FinalState> final_states(std::int32_t scan, const Operand& rows);
  Operand output_operand(int output) const;  // of the body

  const Plan& plan_;
  std::shared_ptr<const PackedBody> packed_;    // null: the plan is no body of a packed loop
  std::vector<std::pair<ValueId, int>> ahead_;  // values, and the outputs of the body that get them too
  struct Through {
    std::int32_t node;
    ValueId input;
    int output;
  };
  std::vector<Through> through_;  // inputs of the body that nodes store as outputs

 private:
  std::int32_t reader_of(ValueId value, const std::function<bool(std::int32_t)>& works) const;

  std::size_t& workspace_bytes_;
};

}  // namespace unroll::device
