// SPDX-License-Identifier: Apache-2.0
// The role of a tensor that outlives an update, and its name prefix. Graphs, device tensors and checkpoints share these
// names. Parameters keep their own names, which begin with none of the prefixes below.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unroll {

enum class TensorRole : std::uint8_t { parameter, slot, average, state, trainer, accumulated };

struct RolePrefix {
  TensorRole role;
  std::string_view text;
};
inline constexpr RolePrefix k_role_prefixes[] = {
    {TensorRole::slot, "optimizer."},            // optimizer.<slot>.<parameter>
    {TensorRole::average, "average."},           // average.<parameter>
    {TensorRole::state, "state."},               // state.<name>, carried from batch to batch
    {TensorRole::trainer, "trainer."},           // scalars and counters of the run
    {TensorRole::accumulated, "accumulated."}};  // sums over the batches of an update; not stored in files

constexpr TensorRole role_of(std::string_view name) {
  for (const RolePrefix& prefix : k_role_prefixes)
    if (name.starts_with(prefix.text)) return prefix.role;
  return TensorRole::parameter;
}

inline std::string name_in_role(TensorRole role, std::string_view name) {
  std::string text;
  for (const RolePrefix& prefix : k_role_prefixes)
    if (prefix.role == role) text = prefix.text;
  return text.append(name);
}
inline std::string slot_name(std::string_view slot, std::string_view parameter) {
  return name_in_role(TensorRole::slot, slot).append(".").append(parameter);
}
inline std::string average_name(std::string_view parameter) { return name_in_role(TensorRole::average, parameter); }
inline std::string state_name(std::string_view state) { return name_in_role(TensorRole::state, state); }
inline std::string state_name(std::size_t k) { return state_name(std::to_string(k)); }

}  // namespace unroll
