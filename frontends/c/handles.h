// SPDX-License-Identifier: Apache-2.0
// Handles for C code. A handle is a number with the type of a pointer: a table index and a generation count. A freed or
// invented handle is therefore detected and never followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/support/process/forked.h"
#include "frontends/c/failure.h"

namespace unroll::c {

// An object behind a handle. One call at a time uses it.
template <class Object>
struct Slot {
  explicit Slot(Object o) : object(std::move(o)) {}
  Object object;
  UseFlag used;
};

// Exclusive use of an object until the end of a call. The object outlives a handle that is freed meanwhile.
template <class Object>
class Use {
 public:
  explicit Use(std::shared_ptr<Slot<Object>> slot, const char* what) : slot_(std::move(slot)) {
    switch (slot_->used.begin()) {
      case UseFlag::State::taken: return;
      case UseFlag::State::busy: throw Busy(std::string("another thread is using this ") + what);
      case UseFlag::State::abandoned:
        throw Error(ErrorKind::usage, "unroll",
                    std::string("another thread was using this ") + what + " when the process was forked",
                    "Make another one in this process");
    }
  }
  ~Use() { slot_->used.end(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Object& operator*() const { return slot_->object; }
  Object* operator->() const { return &slot_->object; }

 private:
  std::shared_ptr<Slot<Object>> slot_;
};

// Handle is the opaque C type. `what` names it in errors: "stream".
template <class Handle, class Object>
class Handles {
 public:
  explicit Handles(const char* what) : what_(what) {}

  Handle* add(Object object) {
    auto slot = std::make_shared<Slot<Object>>(std::move(object));
    const std::lock_guard lock(mutex_);
    std::size_t at = 0;
    while (at < places_.size() && places_[at].slot) ++at;
    if (at == k_most) throw Error(ErrorKind::memory, "unroll", std::string("there are too many open ") + what_ + "s");
    if (at == places_.size()) places_.emplace_back();
    places_[at].slot = std::move(slot);
    return reinterpret_cast<Handle*>(handle_of(at));
  }

  // Returns the object, which stays alive as long as the result.
  std::shared_ptr<Slot<Object>> find(Handle* handle) {
    const std::lock_guard lock(mutex_);
    return places_[place_of(handle)].slot;
  }
  Use<Object> use(Handle* handle) { return Use<Object>(find(handle), what_); }

  void remove(Handle* handle) {
    if (!handle) return;
    std::shared_ptr<Slot<Object>> last;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    Place& place = places_[place_of(handle)];
    last = std::move(place.slot);
    place.slot.reset();
    ++place.generation;
  }

 private:
  static constexpr int k_place_bits = 20;
  static constexpr std::size_t k_most = std::size_t{1} << k_place_bits;
  struct Place {
    std::shared_ptr<Slot<Object>> slot;
    std::uint32_t generation = 1;
  };

  std::uintptr_t handle_of(std::size_t at) const {
    return (static_cast<std::uintptr_t>(places_[at].generation) << k_place_bits) | at;
  }
  std::size_t place_of(Handle* handle) const {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t at = number & (k_most - 1);
    if (at >= places_.size() || !places_[at].slot || handle_of(at) != number)
      throw Error(ErrorKind::usage, "unroll", std::string("this is no open ") + what_,
                  std::string("Pass a handle that was created and not yet freed"));
    return at;
  }

  const char* what_;
  std::mutex mutex_;
  std::vector<Place> places_;
};

}  // namespace unroll::c
