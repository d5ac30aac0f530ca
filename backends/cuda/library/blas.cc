// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/blas.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/cuda/driver/open.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

using blas::Status;

namespace {

constexpr const char* k_blas_fix =
    "Install cuBLAS of CUDA 12 or 13 (pip install nvidia-cublas-cu12) and put its folder into LD_LIBRARY_PATH";
constexpr std::uint32_t k_alignment = 16;  // bytes of a wide load

BlasTamper& blas_tamper() {
  static BlasTamper set = nullptr;
  return set;
}

void check(Status status, const char* what) {
  if (status == Status::success) return;
  const bool memory = status == Status::alloc_failed;
  throw Error(memory ? ErrorKind::memory : ErrorKind::device, "cuda",
              std::string("cublasLt") + what + " failed: status " + std::to_string(static_cast<int>(status)),
              memory ? "Use a smaller batch or fewer steps, or close other programs on the device"
                     : "Run again; the backend's option products = own does without cuBLASLt");
}

}  // namespace

BlasFunctions open_blas() {
  BlasFunctions f;
  const OpenLibrary library(blas_libraries().names, "cuBLASLt", k_blas_fix);
#define X(name, ...) library.find(f.name, "cublasLt" #name);
  UNROLL_BLAS_FUNCTIONS(X)
#undef X
  library.find(f.GetVersion, "cublasLtGetVersion");
  if (blas_tamper()) blas_tamper()(f);
  return f;
}

std::string blas_version(const BlasFunctions& f) {
  const std::size_t version = f.GetVersion();  // 130100 is 13.1.0
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

namespace {

blas::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return blas::Type::f64;
    case DType::f16: return blas::Type::f16;
    case DType::bf16: return blas::Type::bf16;
    default: return blas::Type::f32;
  }
}

// A matrix [rows, columns] of ours with these strides, as the library sees its transpose: columns x rows, by columns.
std::optional<BlasMatrix> stored(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  // With one row or column, its stride may be anything.
  const bool by_rows = column == 1 || columns == 1, by_columns = row == 1 || rows == 1;
  if (by_rows && (rows == 1 || row >= columns)) return BlasMatrix{columns, rows, std::max(row, columns), false};
  if (by_columns && (columns == 1 || column >= rows)) return BlasMatrix{rows, columns, std::max(column, rows), true};
  return std::nullopt;
}

bool runs(const blas::Heuristic& proposal) {
  return proposal.state == Status::success && proposal.workspace_bytes <= k_blas_workspace;
}

template <class T>
std::string word(T number) {
  return ' ' + std::to_string(number);
}

blas::Epilogue epilogue_of(const BlasExtras& extras) {
  using E = blas::Epilogue;
  if (extras.bias) return extras.relu ? E::bias_relu : E::bias;
  return extras.relu ? E::relu : E::none;
}

}  // namespace

BlasLibraries& blas_libraries() {
  static BlasLibraries names;
  return names;
}
void set_blas_tamper(BlasTamper function) { blas_tamper() = function; }

BlasProduct::~BlasProduct() {
  const BlasFunctions& f = library_->f;
  for (blas::Layout* layout : {a_, b_, c_})
    if (layout) f.MatrixLayoutDestroy(layout);
  if (operation_) f.MatmulDescDestroy(operation_);
}

std::size_t BlasProduct::workspace_bytes() const { return std::max(aligned_.workspace_bytes, any_.workspace_bytes); }

template <class T>
void BlasProduct::set(blas::OperationAttribute attribute, const T& value) const {
  check(library_->f.MatmulDescSetAttribute(operation_, attribute, &value, sizeof value), "MatmulDescSetAttribute");
}

std::vector<blas::Heuristic> BlasProduct::proposals(std::size_t alignment) const {
  const BlasFunctions& f = library_->f;
  blas::Preference* preference = nullptr;
  check(f.MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
  const std::unique_ptr<blas::Preference, Status (*)(blas::Preference*)> owner(preference, f.MatmulPreferenceDestroy);
  const auto prefer = [&](blas::PreferenceAttribute attribute, const auto& value) {
    check(f.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "MatmulPreferenceSetAttribute");
  };
  using A = blas::PreferenceAttribute;
  prefer(A::workspace_bytes, static_cast<std::uint64_t>(k_blas_workspace));
  prefer(A::reduction_schemes, blas::k_reduction_schemes);
  for (const A each : {A::alignment_a, A::alignment_b, A::alignment_c, A::alignment_d})
    prefer(each, static_cast<std::uint32_t>(alignment));
  blas::Heuristic found[k_proposals];
  int n = 0;
  const Status status =
      f.MatmulAlgoGetHeuristic(library_->context, operation_, a_, b_, c_, c_, preference, k_proposals, found, &n);
  if (status == Status::not_supported) return {};
  check(status, "MatmulAlgoGetHeuristic");
  std::vector<blas::Heuristic> list;
  std::copy_if(found, found + std::clamp(n, 0, k_proposals), std::back_inserter(list), runs);
  return list;
}

std::string BlasProduct::name() const {
  std::string text = "cuBLASLt";
  if (extras_.tf32) text += " in tf32";
  if (extras_.bias) text += ", with bias";
  if (extras_.relu) text += extras_.bias ? " and relu" : ", with relu";
  return text + advised_ + how_;
}

void BlasProduct::run(std::span<const CUdeviceptr> operands, CUstream stream) const {
  const bool aligned = (operands[0] | operands[1] | operands[2]) % k_alignment == 0;
  multiply(operands, aligned ? aligned_ : any_, stream);
}

void BlasProduct::multiply(std::span<const CUdeviceptr> operands, const blas::Heuristic& algorithm,
                           CUstream stream) const {
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const CUdeviceptr a = operands[0], b = operands[1], c = operands[2];
  const auto at = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  if (extras_.bias) set(blas::OperationAttribute::bias, at(operands[4]));
  check(library_->f.Matmul(library_->context, operation_,
                           is_double_ ? static_cast<const void*>(&wide_one) : static_cast<const void*>(&one), at(b), a_,
                           at(a), b_,
                           is_double_ ? static_cast<const void*>(&wide_zero) : static_cast<const void*>(&zero), at(c),
                           c_, at(c), c_, &algorithm.algorithm, at(operands[3]), algorithm.workspace_bytes, stream),
        "Matmul");
}

std::optional<blas::Heuristic> BlasProduct::checked(const blas::Algorithm& algorithm) const {
  blas::Heuristic result;
  const Status status = library_->f.MatmulAlgoCheck(library_->context, operation_, a_, b_, c_, c_, &algorithm, &result);
  if (status == Status::not_supported || status == Status::invalid_value) return std::nullopt;
  check(status, "MatmulAlgoCheck");
  result.algorithm = algorithm;
  return runs(result) ? std::optional(result) : std::nullopt;
}

void BlasProduct::lay_out(blas::Layout*& layout, DType dtype, const BlasMatrix& m, const device::Axes& batch,
                          int operand) {
  const BlasFunctions& f = library_->f;
  check(f.MatrixLayoutCreate(&layout, type_of(dtype), m.rows, m.columns, m.leading), "MatrixLayoutCreate");
  key_ += ", matrix" + word(static_cast<int>(type_of(dtype))) + word(m.rows) + word(m.columns) + word(m.leading);
  std::int64_t elements = (m.columns - 1) * m.leading + m.rows;
  if (!batch.sizes.empty()) {
    const auto count = static_cast<std::int32_t>(batch.sizes[0]);
    const std::int64_t stride = batch.strides[operand][0];
    check(f.MatrixLayoutSetAttribute(layout, blas::LayoutAttribute::batch_count, &count, sizeof count),
          "MatrixLayoutSetAttribute");
    check(f.MatrixLayoutSetAttribute(layout, blas::LayoutAttribute::batch_stride, &stride, sizeof stride),
          "MatrixLayoutSetAttribute");
    key_ += word(count) + word(stride);
    elements += (count - 1) * stride;
  }
  extents_[operand] = {elements * dtype_bytes(dtype), dtype_bytes(dtype)};
}

Blas::Blas() {
  const auto library = std::make_shared<BlasLibrary>();
  library->f = open_blas();
  check(library->f.Create(&library->context), "Create");
  library_ = library;
}

std::string Blas::version() const { return blas_version(library_->f); }

std::shared_ptr<const BlasProduct> Blas::product(const ProductForm& form, const device::ProductShape& shape,
                                                 const BlasExtras& extras) const {
  const device::Axes& batch = shape.matrices;
  const bool is_double = form.operands == DType::f64, has_epilogue = extras.bias || extras.relu;
  if (has_epilogue && (is_double || !batch.sizes.empty())) return nullptr;
  if (form.has_rows || batch.sizes.size() > 1 || std::min({shape.m, shape.n, shape.k}) < 1) return nullptr;
  const auto a = stored(shape.m, shape.k, shape.a_row, shape.a_column);
  const auto b = stored(shape.k, shape.n, shape.b_row, shape.b_column);
  const auto c = stored(shape.m, shape.n, shape.c_row, 1);
  if (!a || !b || !c || c->transposed) return nullptr;
  const BlasFunctions& f = library_->f;
  const std::int64_t multiple = is_half(form.operands) ? 8 : extras.tf32 ? 4 : 1;
  const std::shared_ptr<BlasProduct> made(
      new BlasProduct(library_, extras, advice(multiple, {{"M", shape.m}, {"N", shape.n}, {"K", shape.k}})));
  made->is_double_ = is_double;
  const blas::Compute compute = is_double ? blas::Compute::f64
                                : extras.tf32 && form.operands == DType::f32 ? blas::Compute::tf32
                                                                             : blas::Compute::f32;
  check(f.MatmulDescCreate(&made->operation_, compute, is_double ? blas::Type::f64 : blas::Type::f32),
        "MatmulDescCreate");
  // The library's a is our b, and the other way round.
  made->set(blas::OperationAttribute::transpose_a, std::int32_t{b->transposed});
  made->set(blas::OperationAttribute::transpose_b, std::int32_t{a->transposed});
  if (has_epilogue) made->set(blas::OperationAttribute::epilogue, epilogue_of(extras));
  // Proposals depend on the alignment of the bias: any address will do that run() may get.
  if (extras.bias) made->set(blas::OperationAttribute::bias, reinterpret_cast<const void*>(k_bias_alignment));
  made->key_ = "cuBLASLt " + std::to_string(f.GetVersion()) + ", compute" + word(static_cast<int>(compute)) +
               ", transposed" + word(b->transposed) + word(a->transposed) + ", epilogue" +
               word(static_cast<std::uint32_t>(epilogue_of(extras)));
  made->lay_out(made->a_, form.operands, *b, batch, 1);
  made->lay_out(made->b_, form.operands, *a, batch, 0);
  made->lay_out(made->c_, form.result, *c, batch, 2);
  if (extras.bias) made->bias_bytes_ = shape.n * dtype_bytes(form.result);
  std::string ignored;
  const auto aligned = made->algorithm(k_alignment, timing_, made->how_);
  const auto any = made->algorithm(std::min(dtype_bytes(form.operands), dtype_bytes(form.result)), timing_, ignored);
  if (!aligned || !any) return nullptr;
  made->aligned_ = *aligned;
  made->any_ = *any;
  return made;
}

}  // namespace unroll::cuda
