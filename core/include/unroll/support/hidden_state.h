// SPDX-License-Identifier: Apache-2.0
// State of a class whose type is private to its source file. It is moved, not copied.
#pragma once

#include <memory>
#include <utility>

namespace unroll {

template <class State>
struct DeleteState {
  void (*end)(State*) = nullptr;
  void operator()(State* state) const { end(state); }
};
template <class State>
using HiddenState = std::unique_ptr<State, DeleteState<State>>;

template <class State, class... Arguments>
HiddenState<State> hidden_state(Arguments&&... arguments) {
  return {new State{std::forward<Arguments>(arguments)...}, {[](State* state) { delete state; }}};
}

}  // namespace unroll
