// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, opened at run time. Its types are declared here, so that builds need no header of it; the tests
// of the backend compare them with the header where it is installed. Their names and numbers are the same in 12 and 13.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/library/autotuner.h"
#include "backends/cuda/library/call.h"

namespace unroll::cuda {

namespace blas {

struct Context;     // of the library, as the next four
struct Operation;   // cublasLtMatmulDesc_t points to it
struct Layout;      // cublasLtMatrixLayout_t
struct Preference;  // cublasLtMatmulPreference_t
struct Algorithm {
  std::uint64_t data[8] = {};
};
enum class Status : int { success = 0, not_initialized = 1, alloc_failed = 3, invalid_value = 7, execution_failed = 13,
                          internal_error = 14, not_supported = 15 };
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  std::size_t workspace_bytes = 0;
  Status state = Status::success;
  float waves = 0;
  int reserved[4] = {};
};
enum class Type : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };  // cudaDataType
enum class Compute : int { f32 = 68, f64 = 70, tf32 = 77 };      // cublasComputeType_t
enum class OperationAttribute : int { transpose_a = 3, transpose_b = 4, epilogue = 7, bias = 8 };
enum class Epilogue : std::uint32_t { none = 1, relu = 2, bias = 4, bias_relu = 6 };  // cublasLtEpilogue_t
enum class LayoutAttribute : int { batch_count = 5, batch_stride = 6 };
enum class PreferenceAttribute : int { workspace_bytes = 1, reduction_schemes = 3, alignment_a = 5, alignment_b = 6,
                                       alignment_c = 7, alignment_d = 8 };
// Sums of parts in the compute type, in a fixed order: no scheme depends on which part is done first.
inline constexpr std::uint32_t k_reduction_schemes = 2;

}  // namespace blas

#define UNROLL_BLAS_FUNCTIONS(X)                                                                              \
  X(Create, blas::Context**)                                                                                  \
  X(Destroy, blas::Context*)                                                                                  \
  X(MatmulDescCreate, blas::Operation**, blas::Compute, blas::Type)                                           \
  X(MatmulDescDestroy, blas::Operation*)                                                                      \
  X(MatmulDescSetAttribute, blas::Operation*, blas::OperationAttribute, const void*, std::size_t)             \
  X(MatrixLayoutCreate, blas::Layout**, blas::Type, std::uint64_t, std::uint64_t, std::int64_t)               \
  X(MatrixLayoutDestroy, blas::Layout*)                                                                       \
  X(MatrixLayoutSetAttribute, blas::Layout*, blas::LayoutAttribute, const void*, std::size_t)                 \
  X(MatmulPreferenceCreate, blas::Preference**)                                                               \
  X(MatmulPreferenceDestroy, blas::Preference*)                                                               \
  X(MatmulPreferenceSetAttribute, blas::Preference*, blas::PreferenceAttribute, const void*, std::size_t)     \
  X(MatmulAlgoGetHeuristic, blas::Context*, blas::Operation*, blas::Layout*, blas::Layout*, blas::Layout*,    \
    blas::Layout*, blas::Preference*, int, blas::Heuristic*, int*)                                            \
  X(MatmulAlgoCheck, blas::Context*, blas::Operation*, blas::Layout*, blas::Layout*, blas::Layout*,           \
    blas::Layout*, const blas::Algorithm*, blas::Heuristic*)                                                  \
  X(Matmul, blas::Context*, blas::Operation*, const void*, const void*, blas::Layout*, const void*,           \
    blas::Layout*, const void*, const void*, blas::Layout*, void*, blas::Layout*, const blas::Algorithm*,     \
    void*, std::size_t, CUstream)

// The entry points cublasLt<name>.
struct BlasFunctions {
#define X(name, ...) blas::Status (*name)(__VA_ARGS__) = nullptr;
  UNROLL_BLAS_FUNCTIONS(X)
#undef X
  std::size_t (*GetVersion)() = nullptr;
};

// Names of the library, tried in turn. Tests set them.
struct BlasLibraries {
  const char* names[3] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
};
BlasLibraries& blas_libraries();
// Changes the table that was just filled; null: nothing. Tests set it to let calls fail.
using BlasTamper = void (*)(BlasFunctions& functions);
void set_blas_tamper(BlasTamper tamper);

// Opens the library on the first call and keeps it. Throws Error(device), which names what is missing and its fix.
BlasFunctions open_blas();
std::string blas_version(const BlasFunctions& functions);  // "13.1"

// The table and the context of one device.
struct BlasLibrary {
  BlasFunctions f;
  blas::Context* context = nullptr;
  BlasLibrary() = default;
  ~BlasLibrary() {
    if (context) f.Destroy(context);
  }
  BlasLibrary(const BlasLibrary&) = delete;
  BlasLibrary& operator=(const BlasLibrary&) = delete;
};

// The epilogue of the library, element by element of c.
struct BlasExtras {
  bool bias = false;  // adds [n], the same in every row, of the dtype of c, at a multiple of k_bias_alignment bytes
  bool relu = false;  // afterwards
  bool tf32 = false;  // the operands are tf32 numbers in f32, whose products tensor cores compute without an error
};
inline constexpr std::size_t k_bias_alignment = 16;

struct BlasMatrix {
  std::int64_t rows, columns, leading;  // as it lies in memory, by columns
  bool transposed;                      // to become our transpose
};

// A product of one form and size. The library sees every matrix by columns: c^T [n, m] = b^T a^T. Its bias goes along
// the rows of a matrix, which are the columns of ours.
class BlasProduct final : public LibraryCall {
 public:
  ~BlasProduct() override;
  BlasProduct(const BlasProduct&) = delete;
  BlasProduct& operator=(const BlasProduct&) = delete;
  // Bytes that run() needs at its workspace, at most k_blas_workspace.
  std::size_t workspace_bytes() const;
  std::string name() const override;
  // Operands a, b, c, workspace, [bias].
  void run(std::span<const CUdeviceptr> operands, CUstream stream) const override;

 private:
  friend class Blas;
  struct Timing {
    const Device* device;
    Autotuner* autotuner;  // null: the first proposal is taken
  };
  // Bytes of a, b or c from the first to the last element, and of an element.
  struct Extent {
    std::size_t bytes = 0, element = 1;
  };
  BlasProduct(std::shared_ptr<const BlasLibrary> library, const BlasExtras& extras, std::string advised)
      : library_(std::move(library)), extras_(extras), advised_(std::move(advised)) {}
  // Proposals that run where all addresses are multiples of `alignment`, the library's first choice first.
  std::vector<blas::Heuristic> proposals(std::size_t alignment) const;
  // One of the proposals; none: there is none. `how`: it was chosen, for reports.
  std::optional<blas::Heuristic> algorithm(std::size_t alignment, const Timing& timing, std::string& how) const;
  std::vector<common::Candidate> timed(const Timing& timing, const std::vector<blas::Heuristic>& proposals,
                                       std::size_t alignment) const;
  // Checks an algorithm from a file; none: it does not run.
  std::optional<blas::Heuristic> checked(const blas::Algorithm& algorithm) const;
  void multiply(std::span<const CUdeviceptr> operands, const blas::Heuristic& algorithm, CUstream stream) const;
  // Describes operand `operand`: a, b or c.
  void lay_out(blas::Layout*& layout, DType dtype, const BlasMatrix& matrix, const device::Axes& batch, int operand);
  template <class T>
  void set(blas::OperationAttribute attribute, const T& value) const;

  std::shared_ptr<const BlasLibrary> library_;
  BlasExtras extras_;
  std::string advised_, how_ = {};
  std::string key_ = {};  // all that a time depends on besides the device and the alignment
  Extent extents_[3] = {};
  std::size_t bias_bytes_ = 0;
  blas::Operation* operation_ = nullptr;
  blas::Layout *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  bool is_double_ = false;
  blas::Heuristic aligned_, any_;  // for addresses that are multiples of 16 bytes, and for others
};

inline constexpr std::size_t k_blas_workspace = std::size_t{32} << 20;
inline constexpr int k_proposals = 8;  // that the library is asked for
inline constexpr std::size_t k_timed_proposals = 4;  // of those that run

// cuBLASLt on the device of the current context.
class Blas {
 public:
  // Throws Error(device), which names what is missing and its fix.
  Blas();
  std::string version() const;
  // Products made from now on take the fastest of the first proposals, which `autotuner` keeps. Both outlive this.
  void time_proposals(const Device& device, Autotuner& autotuner) { timing_ = {&device, &autotuner}; }
  // Null for what the library does not do: rows that are counted on the device, an axis without unit stride, more than
  // one leading axis, sums of no terms; extras in f64, or with a leading axis. Without time_proposals its algorithm is
  // the first of the library's proposals that it can run.
  std::shared_ptr<const BlasProduct> product(const ProductForm& form, const device::ProductShape& shape,
                                             const BlasExtras& extras = {}) const;

 private:
  std::shared_ptr<const BlasLibrary> library_;
  BlasProduct::Timing timing_ = {};
};

}  // namespace unroll::cuda
