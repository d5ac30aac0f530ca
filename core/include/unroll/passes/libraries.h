// SPDX-License-Identifier: Apache-2.0
// The libraries that backends open at run time.
#pragma once

#include <string>
#include <vector>

#include "unroll/support/export.h"

namespace unroll {

struct LibraryStatus {
  std::string backend;   // that opens it
  std::string name;      // "cuDNN"
  std::string use;       // what it is for, and what happens without it
  bool available = false;
  std::string detail;    // its version; or what is missing, and the fix
};
// Of the backends of this build, in the order in which a backend opens them. Each is tried, also after one that is
// missing.
UNROLL_API std::vector<LibraryStatus> list_libraries();

}  // namespace unroll
