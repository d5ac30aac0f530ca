// SPDX-License-Identifier: Apache-2.0
#include "frontends/config/task_kinds.h"

#include <algorithm>

namespace unroll::cli {
namespace {

template <class Fits>
const TaskKind* find_kind(const Fits& fits) {
  const auto kinds = task_kinds();
  const auto at = std::find_if(kinds.begin(), kinds.end(), fits);
  return at == kinds.end() ? nullptr : &*at;
}

}  // namespace

std::span<const TaskKind> task_kinds() {
  static const TaskKind k_kinds[] = {
#define UNROLL_TASK(name, Title, word) {word, k_##name, name##_row},
      UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
  };
  return k_kinds;
}

const TaskKind* find_task_kind(std::string_view word) {
  return find_kind([&](const TaskKind& kind) { return kind.word == word; });
}
const TaskKind* find_task_kind(unsigned bit) {
  return find_kind([&](const TaskKind& kind) { return kind.bit == bit; });
}

}  // namespace unroll::cli
