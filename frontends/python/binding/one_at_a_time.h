// SPDX-License-Identifier: Apache-2.0
// Detects concurrent use: two threads in one object raise an error instead of racing.
#pragma once

#include "core/support/process/forked.h"
#include "unroll/support/error.h"

namespace unroll::python {

class OneAtATime {
 public:
  OneAtATime(UseFlag& used, const char* what)
      : OneAtATime(used, what, [what] {
          throw Error(ErrorKind::usage, what, "another thread was using it when this process was forked",
                      "Make another one in this process");
        }) {}
  // `renew` makes an object usable that another thread used during a fork, or throws.
  template <class Renew>
  OneAtATime(UseFlag& used, const char* what, const Renew& renew) : used_(used) {
    UseFlag::State state = used_.begin();
    const bool is_abandoned = state == UseFlag::State::abandoned;
    if (is_abandoned) state = used_.take_over();
    if (state == UseFlag::State::busy)
      throw Error(ErrorKind::usage, what, "another thread is using it",
                  "Wait for the other call, or make one for each thread");
    if (!is_abandoned) return;
    try {
      renew();
    } catch (...) {
      used_.abandon();
      throw;
    }
  }
  ~OneAtATime() { used_.end(); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  UseFlag& used_;
};

}  // namespace unroll::python
