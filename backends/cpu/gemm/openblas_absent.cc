// SPDX-License-Identifier: Apache-2.0
// Replaces openblas.cc in builds without OpenBLAS.
#include "backends/cpu/gemm/openblas.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

OpenBlas open_blas(const std::string&) {
  throw Error(ErrorKind::device, "openblas", "this build leaves OpenBLAS out",
              "Set the option openblas to auto, then run meson setup --reconfigure and build again");
}
const OpenBlas& open_blas() {
  static const OpenBlas none = open_blas("");
  return none;
}
bool is_for_openblas(const Matmul&) { return false; }
void run_openblas(const OpenBlas&, const Matmul&, const void*, const void*, void*, const Worker&) {}

}  // namespace unroll::cpu
