// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/openblas.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

constexpr const char* k_where = "openblas";
constexpr const char* k_next =
    "Install OpenBLAS with POSIX threads (Debian: libopenblas0-pthread) where the loader finds libopenblas.so.0, or "
    "use the backend cpu";

struct Release {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Release&) const = default;
};
constexpr Release k_oldest{0, 3, 13};

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::device, k_where, what, k_next); }

template <class F>
void find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (!function) refuse("the library has no " + std::string(name));
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64"
void check_config(OpenBlas& blas) {
  const std::string config = blas.get_config();
  Release release;
  if (std::sscanf(config.c_str(), "OpenBLAS %d.%d.%d", &release.major, &release.minor, &release.patch) != 3 ||
      release < k_oldest)
    refuse("needs version 0.3.13 or later; got '" + config + "'");
  blas.release = std::to_string(release.major) + "." + std::to_string(release.minor) + "." +
                 std::to_string(release.patch);
  if (config.find("USE64BITINT") != std::string::npos) refuse("its sizes have 64 bits; 32 are needed");
  constexpr int k_posix_threads = 1;  // 0: no threads, and concurrent calls are not safe; 2: OpenMP
  if (blas.get_parallel() != k_posix_threads)
    refuse(blas.get_parallel() == 0 ? "it was built without threads, and is not safe in several"
                                    : "it was built with OpenMP, whose threads cannot be kept to one for all callers");
}

constexpr Index k_piece = 512;      // minimum rows or columns of a piece: each piece packs the other operand again
constexpr Index k_most_pieces = 16;
constexpr Index k_grain = 16;       // pieces begin at multiples of this

int small(Index value) { return static_cast<int>(value); }

}  // namespace

OpenBlas open_blas(const std::string& file) {
  // Never closed: its threads live as long as the process.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) refuse("the library cannot be opened: " + std::string(dlerror()));
  OpenBlas blas;
  find(handle, "openblas_get_config", blas.get_config);
  find(handle, "openblas_get_corename", blas.get_corename);
  find(handle, "openblas_get_parallel", blas.get_parallel);
  find(handle, "openblas_get_num_threads", blas.get_num_threads);
  find(handle, "openblas_set_num_threads", blas.set_num_threads);
  find(handle, "cblas_sgemm", blas.cblas_sgemm);
  check_config(blas);
  blas.core = blas.get_corename();
  blas.use_one_thread();
  return blas;
}

const OpenBlas& open_blas() {
  static const OpenBlas opened = open_blas("libopenblas.so.0");
  return opened;
}

bool is_for_openblas(const Matmul& mm) {
  constexpr Index k_least = 128, k_least_products = Index{1} << 30;  // of a side; of all together: below, it was not
                                                                     // faster
  const Index most = std::max({mm.m, mm.n, mm.k, mm.a_stride, mm.b_stride, mm.c_stride});
  return mm.dtype == DType::f32 && mm.result == DType::f32 && mm.single() && !mm.has_windows() &&
         std::min({mm.m, mm.n, mm.k}) >= k_least && most <= std::numeric_limits<int>::max() &&
         mm.m * mm.n >= k_least_products / mm.k;
}

void run_openblas(const OpenBlas& blas, const Matmul& mm, const void* a, const void* b, void* c, const Worker& worker) {
  constexpr int k_row_major = 101, k_plain = 111, k_transposed = 112;  // CBLAS constants
  const bool by_rows = mm.m >= mm.n;
  const Index length = by_rows ? mm.m : mm.n;
  const auto pieces = static_cast<Index>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp<Index>(length / k_piece, 1, k_most_pieces))));
  const auto start = [&](Index piece) {
    return piece == pieces ? length : length * piece / pieces / k_grain * k_grain;
  };
  const Range mine = worker.share(pieces);
  for (Index piece = mine.begin; piece < mine.end; ++piece) {
    const Index from = start(piece), count = start(piece + 1) - from;
    const Index row = by_rows ? from : 0, column = by_rows ? 0 : from;
    blas.cblas_sgemm(k_row_major, mm.transpose_a ? k_transposed : k_plain, mm.transpose_b ? k_transposed : k_plain,
                     small(by_rows ? count : mm.m), small(by_rows ? mm.n : count), small(mm.k), 1,
                     static_cast<const float*>(a) + (mm.transpose_a ? row : row * mm.a_stride), small(mm.a_stride),
                     static_cast<const float*>(b) + (mm.transpose_b ? column * mm.b_stride : column),
                     small(mm.b_stride), 0, static_cast<float*>(c) + row * mm.c_stride + column, small(mm.c_stride));
  }
}

}  // namespace unroll::cpu
