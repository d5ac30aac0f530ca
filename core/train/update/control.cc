// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/control.h"

namespace unroll {

namespace {

constexpr std::int64_t k_words = 4, k_high = 2, k_low = k_high + k_words,
                       k_asked_at = k_low + k_words, k_size = k_asked_at + 1;
constexpr int k_half_bits = 16;

}  // namespace

Tensor control_of(const UpdateNumbers& n) {
  Tensor control(DType::f32, {k_size});
  control.set(0, n.lr);
  control.set(1, n.average_rate);
  const std::uint32_t words[k_words] = {static_cast<std::uint32_t>(n.seed), static_cast<std::uint32_t>(n.seed >> 32),
                                        static_cast<std::uint32_t>(n.draw), static_cast<std::uint32_t>(n.update)};
  for (std::int64_t i = 0; i < k_words; ++i) {
    control.set(k_high + i, words[i] >> k_half_bits);
    control.set(k_low + i, words[i] & 0xffff);
  }
  control.set(k_asked_at, n.asked ? 1 : 0);
  return control;
}

Tensor key_of(std::uint64_t seed, std::int64_t draw) {
  Tensor key(DType::i32, {3});
  const auto words = key.values<std::int32_t>();
  words[0] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed));
  words[1] = static_cast<std::int32_t>(static_cast<std::uint32_t>(seed >> 32));
  words[2] = static_cast<std::int32_t>(static_cast<std::uint32_t>(draw));
  return key;
}

Control::Control(Graph& graph) {
  const Value all = graph.input(k_control, {DType::f32, {k_size}});
  const auto number = [](Value list, std::int64_t i) { return reshape(slice(list, 0, i, 1), {}); };
  lr = number(all, 0);
  average_rate = number(all, 1);
  asked = number(all, k_asked_at);
  const Value high = cast(slice(all, 0, k_high, k_words), DType::i32);
  const Value low = cast(slice(all, 0, k_low, k_words), DType::i32);
  const Value words = high * static_cast<double>(1 << k_half_bits) + low;  // wraps, as words do
  key = slice(words, 0, 0, 3);
  update = number(words, 3);
}

}  // namespace unroll
