// SPDX-License-Identifier: Apache-2.0
// The libraries that backends open at run time.
#pragma once

#include <string>
#include <vector>

#include "unroll/support/export.h"

namespace unroll {

struct LibraryStatus {
  std::string backend;   // the backend that opens it
  std::string name;      // "cuDNN"
  std::string use;       // its purpose, and the effect of its absence
  bool available = false;
  std::string detail;    // its version, or the missing part and the fix
};
// Lists the libraries of the backends of this build, in the order in which a backend opens them. Tries each library,
// also after a missing one.
UNROLL_API std::vector<LibraryStatus> list_libraries();

}  // namespace unroll
