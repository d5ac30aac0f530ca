// SPDX-License-Identifier: Apache-2.0
// Counts what a test program holds, by allocation functions of its own: for one source of a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace unroll::testing {

// Bytes that are held now, and the most that ever were; counted while `counting`.
inline std::size_t held = 0, most_held = 0;
inline bool counting = false;

}  // namespace unroll::testing

// Every allocation carries its size in front, so that what is freed can be taken away. The nothrow form, which
// std::stable_sort uses, is replaced too: under AddressSanitizer the default one does not call the throwing one.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  constexpr std::size_t front = alignof(std::max_align_t);
  auto* block = static_cast<std::size_t*>(std::malloc(size + front));
  if (!block) return nullptr;
  *block = unroll::testing::counting ? size : 0;
  if (unroll::testing::counting)
    unroll::testing::most_held = std::max(unroll::testing::most_held, unroll::testing::held += size);
  return reinterpret_cast<char*>(block) + front;
}
void* operator new(std::size_t size) {
  if (void* pointer = operator new(size, std::nothrow)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept {
  if (!pointer) return;
  auto* block = reinterpret_cast<std::size_t*>(static_cast<char*>(pointer) - alignof(std::max_align_t));
  if (*block > 0) unroll::testing::held -= std::min(unroll::testing::held, *block);
  std::free(block);
}
void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }
void operator delete(void* pointer, const std::nothrow_t&) noexcept { operator delete(pointer); }
