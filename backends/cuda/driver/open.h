// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened by name and never closed: they keep threads of their own.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <type_traits>

#include "unroll/support/error.h"

namespace unroll::cuda {

class OpenLibrary {
 public:
  // The first of `names` that is there. `what`: "NVRTC". Throws Error(device), which names the first and says `fix`.
  OpenLibrary(std::span<const char* const> names, std::string what, std::string fix)
      : what_(std::move(what)), fix_(std::move(fix)) {
    for (const char* name : names)
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library_) refuse(what_ + " cannot be opened: no " + names[0]);
  }
  void* find_any(const char* symbol) const { return dlsym(library_, symbol); }  // null: it is not there
  template <class Entry>
  void find(Entry& entry, const char* symbol) const {
    void* const at = find_any(symbol);
    if (!at) refuse(what_ + " has no " + symbol);
    entry = reinterpret_cast<Entry>(at);
  }
  [[noreturn]] void refuse(const std::string& why) const { throw Error(ErrorKind::device, "cuda", why, fix_); }

 private:
  std::string what_, fix_;
  void* library_ = nullptr;
};

}  // namespace unroll::cuda
