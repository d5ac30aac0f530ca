// SPDX-License-Identifier: Apache-2.0
// The entry points of libcublasLt.so.13, for tests without devices. Products are sums in the order of k. What the
// library forbids is an error here, with a line on stderr: objects that are not there, attributes of another size,
// leading dimensions that are too short, an algorithm of another product or for better aligned addresses than these,
// too little workspace, memory that is not allocated, a bias that is missing or not aligned, an epilogue in f64. What
// it would do in silence is an error, too: operands that tf32 rounds. Only what the backend calls is there.
//
// Environment: UNROLL_SHIM_BLAS_WORKSPACE, the bytes that every algorithm asks for. UNROLL_SHIM_BLAS_COSTS="30,20", the
// microseconds that each proposal that can run costs on the clock of the device; there are as many proposals.
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/library/blas.h"
#include "tests/backends/cuda/shim/elements.h"
#include "tests/backends/cuda/shim/late_work.h"

using namespace unroll::cuda;
using blas::Compute;
using blas::Status;
using blas::Type;

namespace unroll::cuda::blas {
struct Context {};
struct Operation {
  Compute compute;
  Type scale;
  bool transpose[2] = {};
  blas::Epilogue epilogue = blas::Epilogue::none;
  const void* bias = nullptr;
  bool has_bias() const { return (static_cast<unsigned>(epilogue) & static_cast<unsigned>(Epilogue::bias)) != 0; }
  bool has_relu() const { return (static_cast<unsigned>(epilogue) & static_cast<unsigned>(Epilogue::relu)) != 0; }
};
struct Layout {
  Type type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batches = 1;
  std::int64_t stride = 0;
  friend bool operator==(const Layout&, const Layout&) = default;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = 7;
  std::uint32_t alignment = 256;
};
}  // namespace unroll::cuda::blas

namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::set<const void*>& objects() {
  static auto* const all = new std::set<const void*>;
  return *all;
}
template <class T>
Status made(T* object, T** to) {
  const std::lock_guard lock(mutex());
  objects().insert(object);
  *to = object;
  return Status::success;
}
bool is_there(const void* object) {
  const std::lock_guard lock(mutex());
  return objects().contains(object);
}
Status complain(Status status, const std::string& what) {
  std::fprintf(stderr, "cublasLt shim: %s\n", what.c_str());
  return status;
}
template <class T>
Status destroyed(T* object) {
  {
    const std::lock_guard lock(mutex());
    if (objects().erase(object) == 0) return complain(Status::invalid_value, "an object that is destroyed twice");
  }
  delete object;
  return Status::success;
}
template <class T>
Status read(T& to, const void* from, std::size_t bytes, const void* object) {
  if (!is_there(object)) return complain(Status::invalid_value, "an attribute of an object that is not there");
  if (bytes != sizeof to) return complain(Status::invalid_value, "an attribute of " + std::to_string(bytes) + " bytes");
  std::memcpy(&to, from, bytes);
  return Status::success;
}

unroll::DType dtype_of(Type type) {
  return type == Type::f64    ? unroll::DType::f64
         : type == Type::f16  ? unroll::DType::f16
         : type == Type::bf16 ? unroll::DType::bf16
                              : unroll::DType::f32;
}
std::size_t width(Type type) { return unroll::shim::width_of(dtype_of(type)); }
double loaded(Type type, const void* base, std::int64_t i) { return unroll::shim::loaded(dtype_of(type), base, i); }
void store(Type type, void* base, std::int64_t i, double value) {
  unroll::shim::store(dtype_of(type), base, i, value);
}

struct Product {
  blas::Operation operation;
  blas::Layout a, b, d;
  std::int64_t m() const { return static_cast<std::int64_t>(d.rows); }
  std::int64_t n() const { return static_cast<std::int64_t>(d.columns); }
  std::int64_t k() const { return static_cast<std::int64_t>(operation.transpose[0] ? a.rows : a.columns); }
};

Status refusal(const blas::Operation* operation, const blas::Layout* a, const blas::Layout* b, const blas::Layout* c,
               const blas::Layout* d) {
  for (const void* object : {static_cast<const void*>(operation), static_cast<const void*>(a),
                             static_cast<const void*>(b), static_cast<const void*>(c), static_cast<const void*>(d)})
    if (!is_there(object)) return complain(Status::invalid_value, "a description that is not there");
  const Product p{*operation, *a, *b, *d};
  const auto inner = static_cast<std::int64_t>(operation->transpose[1] ? b->columns : b->rows);
  const auto rows = static_cast<std::int64_t>(operation->transpose[0] ? a->columns : a->rows);
  const auto columns = static_cast<std::int64_t>(operation->transpose[1] ? b->rows : b->columns);
  if (rows != p.m() || columns != p.n() || inner != p.k() || !(*c == *d))
    return complain(Status::invalid_value, "matrices that do not fit together");
  for (const blas::Layout* layout : {a, b, d})
    if (layout->leading < static_cast<std::int64_t>(layout->rows) || layout->batches != d->batches)
      return complain(Status::invalid_value, "a leading dimension or a number of matrices");
  if (d->batches > 1 && d->stride == 0) return complain(Status::invalid_value, "results over one another");
  const bool wide = operation->compute == Compute::f64;
  const bool halves = a->type == Type::f16 || a->type == Type::bf16;
  if (a->type != b->type || operation->scale != (wide ? Type::f64 : Type::f32) || (a->type == Type::f64) != wide ||
      (d->type != a->type && !(halves && d->type == Type::f32)))
    return complain(Status::not_supported, "types that do not go together");
  if (operation->compute == Compute::tf32 && a->type != Type::f32)
    return complain(Status::not_supported, "tf32 of other numbers than f32");
  if (operation->epilogue != blas::Epilogue::none && (wide || d->batches > 1))
    return complain(Status::not_supported, "an epilogue in f64, or of several matrices with one bias");
  if (operation->has_bias() && (!operation->bias || reinterpret_cast<std::uintptr_t>(operation->bias) % 16 != 0))
    return complain(Status::invalid_value, "a bias that is missing, or no multiple of 16 bytes");
  return Status::success;
}

// What each proposal costs, in nanoseconds.
std::vector<std::uint64_t> costs() {
  const char* at = std::getenv("UNROLL_SHIM_BLAS_COSTS");
  std::vector<std::uint64_t> list;
  for (char* end = nullptr; at && *at; at = *end == ',' ? end + 1 : end) {
    list.push_back(std::strtoull(at, &end, 10) * 1000);
    if (end == at) break;
  }
  return list.empty() ? std::vector<std::uint64_t>{1000} : list;
}
std::size_t workspace_wanted() {
  const char* const text = std::getenv("UNROLL_SHIM_BLAS_WORKSPACE");
  return text ? static_cast<std::size_t>(std::atoll(text)) : 64;
}

// What an algorithm keeps of the product that it was proposed for. `number`: of the proposal.
blas::Algorithm algorithm_of(const Product& p, std::uint32_t alignment, std::size_t number) {
  const auto word = [](auto x) { return static_cast<std::uint64_t>(x); };
  const std::uint64_t types = word(p.a.type) | word(p.d.type) << 8 | word(p.operation.compute) << 16;
  return {{0x756e726f6c6cu, word(p.m()), word(p.n()), word(p.k()), types, word(p.operation.epilogue),
           word(p.d.batches), word(number) << 32 | alignment}};
}
std::uint32_t alignment_of(const blas::Algorithm& algorithm) { return static_cast<std::uint32_t>(algorithm.data[7]); }
std::size_t number_of(const blas::Algorithm& algorithm) { return algorithm.data[7] >> 32; }
bool is_of(const blas::Algorithm& algorithm, const Product& p) {
  const blas::Algorithm own = algorithm_of(p, alignment_of(algorithm), number_of(algorithm));
  return std::memcmp(&algorithm, &own, sizeof own) == 0 && number_of(algorithm) < costs().size();
}

// Bytes from the first to the last element of all matrices.
std::size_t extent(const blas::Layout& l) {
  const auto one = static_cast<std::int64_t>(l.columns - 1) * l.leading + static_cast<std::int64_t>(l.rows);
  return static_cast<std::size_t>(one + (l.batches - 1) * l.stride) * width(l.type);
}

// Element (row, column) of matrix `batch` as the product sees it.
std::int64_t place(const blas::Layout& l, bool transposed, std::int64_t batch, std::int64_t row, std::int64_t column) {
  return batch * l.stride + (transposed ? column + row * l.leading : row + column * l.leading);
}
// Whether tf32 keeps all elements of a matrix as they are.
bool is_tf32(const blas::Layout& l, const void* base) {
  for (std::int64_t batch = 0; batch < l.batches; ++batch)
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(l.columns); ++column)
      for (std::int64_t row = 0; row < static_cast<std::int64_t>(l.rows); ++row) {
        const double x = loaded(l.type, base, place(l, false, batch, row, column));
        if (x == x && unroll::round_to(unroll::k_tf32, x) != x) return false;
      }
  return true;
}
void multiply(const Product& p, const void* a, const void* b, void* d) {
  const bool is_wide = p.operation.compute == Compute::f64;
  for (std::int64_t batch = 0; batch < p.d.batches; ++batch)
    for (std::int64_t i = 0; i < p.m(); ++i)
      for (std::int64_t j = 0; j < p.n(); ++j) {
        float sum = 0;
        double wide = 0;
        for (std::int64_t k = 0; k < p.k(); ++k) {
          const double x = loaded(p.a.type, a, place(p.a, p.operation.transpose[0], batch, i, k));
          const double y = loaded(p.b.type, b, place(p.b, p.operation.transpose[1], batch, k, j));
          if (is_wide) wide += x * y;
          else sum += static_cast<float>(x) * static_cast<float>(y);
        }
        // The bias goes along the rows of d, which lies by columns.
        if (p.operation.has_bias()) sum += static_cast<float>(loaded(p.d.type, p.operation.bias, i));
        if (p.operation.has_relu() && sum < 0) sum = 0;
        store(p.d.type, d, place(p.d, false, batch, i, j), is_wide ? wide : static_cast<double>(sum));
      }
}

}  // namespace

extern "C" {

// Of the tests: objects that were made and not destroyed, and products so far.
std::size_t unroll_shim_blas_objects() {
  const std::lock_guard lock(mutex());
  return objects().size();
}
int unroll_shim_blas_products = 0;
// Of them those with an epilogue, and those in tf32.
int unroll_shim_blas_epilogues = 0;
int unroll_shim_blas_tf32 = 0;
// The proposal of the latest product, from 0, and algorithms that were checked.
std::size_t unroll_shim_blas_number = 0;
int unroll_shim_blas_checks = 0;

std::size_t cublasLtGetVersion() { return 130100; }
Status cublasLtCreate(blas::Context** context) { return made(new blas::Context, context); }
Status cublasLtDestroy(blas::Context* context) { return destroyed(context); }
Status cublasLtMatmulDescCreate(blas::Operation** operation, Compute compute, Type scale) {
  return made(new blas::Operation{compute, scale}, operation);
}
Status cublasLtMatmulDescDestroy(blas::Operation* operation) { return destroyed(operation); }
Status cublasLtMatmulDescSetAttribute(blas::Operation* operation, blas::OperationAttribute attribute, const void* from,
                                      std::size_t bytes) {
  if (attribute == blas::OperationAttribute::epilogue) return read(operation->epilogue, from, bytes, operation);
  if (attribute == blas::OperationAttribute::bias) return read(operation->bias, from, bytes, operation);
  std::int32_t value = 0;
  if (const Status s = read(value, from, bytes, operation); s != Status::success) return s;
  if (value != 0 && value != 1) return complain(Status::invalid_value, "an operation");
  operation->transpose[attribute == blas::OperationAttribute::transpose_b] = value == 1;
  return Status::success;
}
Status cublasLtMatrixLayoutCreate(blas::Layout** layout, Type type, std::uint64_t rows, std::uint64_t columns,
                                  std::int64_t leading) {
  return made(new blas::Layout{type, rows, columns, leading}, layout);
}
Status cublasLtMatrixLayoutDestroy(blas::Layout* layout) { return destroyed(layout); }
Status cublasLtMatrixLayoutSetAttribute(blas::Layout* layout, blas::LayoutAttribute attribute, const void* from,
                                        std::size_t bytes) {
  return attribute == blas::LayoutAttribute::batch_count ? read(layout->batches, from, bytes, layout)
                                                         : read(layout->stride, from, bytes, layout);
}
Status cublasLtMatmulPreferenceCreate(blas::Preference** preference) { return made(new blas::Preference, preference); }
Status cublasLtMatmulPreferenceDestroy(blas::Preference* preference) { return destroyed(preference); }
Status cublasLtMatmulPreferenceSetAttribute(blas::Preference* preference, blas::PreferenceAttribute attribute,
                                            const void* from, std::size_t bytes) {
  using A = blas::PreferenceAttribute;
  if (attribute == A::workspace_bytes) return read(preference->workspace, from, bytes, preference);
  if (attribute == A::reduction_schemes) return read(preference->schemes, from, bytes, preference);
  return read(preference->alignment, from, bytes, preference);
}
Status cublasLtMatmulAlgoGetHeuristic(blas::Context* context, blas::Operation* operation, blas::Layout* a,
                                      blas::Layout* b, blas::Layout* c, blas::Layout* d, blas::Preference* preference,
                                      int wanted, blas::Heuristic* found, int* n) {
  if (!is_there(context) || !is_there(preference) || wanted < 1)
    return complain(Status::invalid_value, "a search for an algorithm");
  if (const Status s = refusal(operation, a, b, c, d); s != Status::success) return s;
  if (preference->schemes & 1u) return complain(Status::not_supported, "sums in the order in which parts are done");
  // The first proposal cannot run, as sometimes in the library.
  const std::size_t able = costs().size();
  *n = std::min(wanted, static_cast<int>(able) + 1);
  for (int k = 0; k < *n; ++k) {
    const std::size_t number = k == 0 ? able - 1 : static_cast<std::size_t>(k - 1);
    found[k] = {algorithm_of({*operation, *a, *b, *d}, preference->alignment, number), workspace_wanted()};
  }
  if (*n > 1) found[0].state = Status::not_supported;
  if (found[0].workspace_bytes > preference->workspace) *n = 0;
  return Status::success;
}
Status cublasLtMatmulAlgoCheck(blas::Context* context, blas::Operation* operation, blas::Layout* a, blas::Layout* b,
                               blas::Layout* c, blas::Layout* d, const blas::Algorithm* algorithm,
                               blas::Heuristic* result) {
  if (!is_there(context) || !algorithm || !result) return complain(Status::invalid_value, "a check of an algorithm");
  if (const Status s = refusal(operation, a, b, c, d); s != Status::success) return s;
  *result = {};
  if (!is_of(*algorithm, {*operation, *a, *b, *d})) return Status::not_supported;  // the answer to what was asked
  *result = {*algorithm, workspace_wanted()};
  ++unroll_shim_blas_checks;
  return Status::success;
}
Status cublasLtMatmul(blas::Context* context, blas::Operation* operation, const void* alpha, const void* a,
                      blas::Layout* a_layout, const void* b, blas::Layout* b_layout, const void* beta, const void* c,
                      blas::Layout* c_layout, void* d, blas::Layout* d_layout, const blas::Algorithm* algorithm,
                      void* workspace, std::size_t workspace_bytes, CUstream stream) {
  if (!is_there(context)) return complain(Status::not_initialized, "a product without a context");
  if (const Status s = refusal(operation, a_layout, b_layout, c_layout, d_layout); s != Status::success) return s;
  const Product p{*operation, *a_layout, *b_layout, *d_layout};
  const std::uint32_t alignment = alignment_of(*algorithm);
  if (!is_of(*algorithm, p))
    return complain(Status::invalid_value, "an algorithm of another product");
  for (const void* at : {a, b, static_cast<const void*>(d)})
    if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0)
      return complain(Status::not_supported, "an address that is no multiple of " + std::to_string(alignment));
  const bool wide = p.operation.compute == Compute::f64;
  if ((wide ? *static_cast<const double*>(alpha) != 1 || *static_cast<const double*>(beta) != 0
            : *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) ||
      c != d)
    return complain(Status::not_supported, "another product than d = a b");
  const auto allocated = [&](const void* at, std::size_t bytes) {
    return bytes == 0 || unroll_shim_work(stream, {}, at, bytes) == CUDA_SUCCESS;
  };
  if (!allocated(a, extent(p.a)) || !allocated(b, extent(p.b)) || !allocated(d, extent(p.d)) ||
      !allocated(workspace, workspace_bytes))
    return complain(Status::invalid_value, "memory that is not allocated");
  const std::size_t bias_bytes = static_cast<std::size_t>(p.m()) * width(p.d.type);
  if (p.operation.has_bias() && !allocated(p.operation.bias, bias_bytes))
    return complain(Status::invalid_value, "a bias that is not allocated");
  ++unroll_shim_blas_products;
  if (p.operation.epilogue != blas::Epilogue::none) ++unroll_shim_blas_epilogues;
  if (p.operation.compute == Compute::tf32) ++unroll_shim_blas_tf32;
  if (workspace_bytes < workspace_wanted()) return complain(Status::invalid_value, "too little workspace");
  unroll_shim_blas_number = number_of(*algorithm);
  const auto work = [p, a, b, d, workspace, workspace_bytes, cost = costs()[number_of(*algorithm)]] {
    if (p.operation.compute == Compute::tf32 && (!is_tf32(p.a, a) || !is_tf32(p.b, b))) {
      complain(Status::execution_failed, "operands that tf32 rounds");
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (workspace_bytes > 0) std::memset(workspace, 0xff, workspace_bytes);
    unroll_shim_spend(cost);
    multiply(p, a, b, d);
    return CUDA_SUCCESS;
  };
  return unroll_shim_work(stream, work, d, extent(p.d)) == CUDA_SUCCESS ? Status::success : Status::execution_failed;
}

}  // extern "C"
