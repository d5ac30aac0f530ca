// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/rnn.h"

#include <string_view>
#include <utility>

#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using common::Recurrent;

dnn::Type type_in(const Recurrent& r) {
  if (r.dtype == DType::f64) return dnn::Type::f64;
  return r.format == DType::f16 ? dnn::Type::f16 : r.format == DType::bf16 ? dnn::Type::bf16 : dnn::Type::f32;
}
dnn::Cell cell_of(const Recurrent& r) {
  if (r.cell == Op::lstm) return dnn::Cell::lstm;
  if (r.cell == Op::gru) return dnn::Cell::gru;
  return r.relu ? dnn::Cell::relu : dnn::Cell::tanh;
}

// [L*D, B, columns]
dnn::Status set_states(const DnnFunctions& f, dnn::Tensor* tensor, dnn::Type type, const Recurrent& r,
                       std::int64_t columns) {
  const int sizes[] = {static_cast<int>(r.L * r.D), static_cast<int>(r.B), static_cast<int>(columns)};
  const int strides[] = {sizes[1] * sizes[2], sizes[2], 1};
  return f.SetTensorNdDescriptor(tensor, type, 3, sizes, strides);
}

// A parameter of one layer and direction in cuDNN: matrices or vectors [gates], numbered from `first` on.
struct Numbered {
  common::Parameter parameter;
  std::int32_t first;
  bool is_bias;
};
std::vector<Numbered> parameters_in(const Recurrent& r) {
  using P = common::Parameter;
  const auto gates = static_cast<std::int32_t>(r.gates());
  std::vector<Numbered> list{{P::weight_ih, 0, false}, {P::weight_hh, gates, false}};
  if (r.bias) list.insert(list.end(), {{P::bias_ih, 0, true}, {P::bias_hh, gates, true}});
  if (r.projects) list.push_back({P::weight_hr, 2 * gates, false});
  return list;
}

struct TensorOwner {
  const Dnn& dnn;
  dnn::Tensor* tensor = nullptr;
  explicit TensorOwner(const Dnn& library) : dnn(library) {
    dnn.check(dnn.f().CreateTensorDescriptor(&tensor), "CreateTensorDescriptor");
  }
  ~TensorOwner() { dnn.f().DestroyTensorDescriptor(tensor); }
  TensorOwner(const TensorOwner&) = delete;
  TensorOwner& operator=(const TensorOwner&) = delete;
  std::size_t elements() const {
    constexpr int k_axes = 3;
    dnn::Type type{};
    int n = 0, sizes[k_axes] = {}, strides[k_axes] = {};
    dnn.check(dnn.f().GetTensorNdDescriptor(tensor, k_axes, &type, &n, sizes, strides), "GetTensorNdDescriptor");
    std::size_t product = n > 0 ? 1 : 0;
    for (int axis = 0; axis < n && axis < k_axes; ++axis) product *= sizes[axis];
    return product;
  }
};

}  // namespace

std::shared_ptr<const Rnn> Rnn::make(std::shared_ptr<const Dnn> dnn, const RnnForm& form, std::string& why) {
  const std::shared_ptr<Rnn> made(new Rnn(std::move(dnn), form));
  dnn::Status status = made->describe();
  if (status == dnn::Status::success) status = made->measure();
  if (status == dnn::Status::success) return made;
  if (!is_refusal(status)) made->dnn_->check(status, "SetRNNDescriptor_v8");
  why = "cuDNN " + made->dnn_->version() + " refuses it: " + made->dnn_->text(status);
  return nullptr;
}

Rnn::~Rnn() {
  const DnnFunctions& f = dnn_->f();
  for (dnn::Tensor* tensor : {h_, c_})
    if (tensor) f.DestroyTensorDescriptor(tensor);
  for (dnn::Data* data : {x_, y_})
    if (data) f.DestroyRNNDataDescriptor(data);
  if (rnn_) f.DestroyRNNDescriptor(rnn_);
  if (dropout_) f.DestroyDropoutDescriptor(dropout_);
}

dnn::Status Rnn::describe() {
  const DnnFunctions& f = dnn_->f();
  const Recurrent& r = form_.layers;
  const dnn::Type type = type_in(r), math_in = is_half(r.format) ? dnn::Type::f32 : type;
  const dnn::Math math = is_half(r.format)                            ? dnn::Math::tensor_cores
                         : form_.tf32 || r.dtype == DType::f64 ? dnn::Math::any
                                                                      : dnn::Math::fma;
  dnn_->check(f.CreateDropoutDescriptor(&dropout_), "CreateDropoutDescriptor");
  dnn_->check(f.SetDropoutDescriptor(dropout_, dnn_->context(), 0, nullptr, 0, 0), "SetDropoutDescriptor");
  dnn_->check(f.CreateRNNDescriptor(&rnn_), "CreateRNNDescriptor");
  for (dnn::Data** data : {&x_, &y_}) dnn_->check(f.CreateRNNDataDescriptor(data), "CreateRNNDataDescriptor");
  for (dnn::Tensor** tensor : {&h_, &c_}) dnn_->check(f.CreateTensorDescriptor(tensor), "CreateTensorDescriptor");
  const auto n = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  const auto biases = dnn::Biases::two;  // zeros where the layer has none: persistent algorithms want two
  const auto direction = r.D == 2 ? dnn::Direction::both : dnn::Direction::one;
  dnn::Status status =
      f.SetRNNDescriptor_v8(rnn_, form_.algorithm, cell_of(r), biases, direction, dnn::Input::linear, type, math_in,
                            math, n(r.I), n(r.H), n(r.P), n(r.L), dropout_, dnn::k_padded);
  if (status != dnn::Status::success) return status;
  if (form_.algorithm == dnn::Algorithm::persist_dynamic)
    if ((status = f.BuildRNNDynamic(dnn_->context(), rnn_, n(r.B))) != dnn::Status::success) return status;
  const std::vector<int> lengths(r.B, n(r.T));  // all rows run all steps
  const auto set_data = [&](dnn::Data* data, std::int64_t columns) {
    return f.SetRNNDataDescriptor(data, type, dnn::Layout::steps, n(r.T), n(r.B), n(columns), lengths.data(), nullptr);
  };
  if ((status = set_data(x_, r.I)) != dnn::Status::success) return status;
  if ((status = set_data(y_, r.D * r.P)) != dnn::Status::success) return status;
  if ((status = set_states(f, h_, type, r, r.P)) != dnn::Status::success) return status;
  return set_states(f, c_, type, r, r.H);
}

dnn::Status Rnn::measure() {
  const DnnFunctions& f = dnn_->f();
  const dnn::Status status = f.GetRNNWeightSpaceSize(dnn_->context(), rnn_, &weight_bytes_);
  if (status != dnn::Status::success) return status;
  return f.GetRNNTempSpaceSizes(dnn_->context(), rnn_, form_.training ? dnn::Mode::training : dnn::Mode::inference, x_,
                                &workspace_bytes_, form_.training ? &reserve_bytes_ : nullptr);
}

std::vector<RnnPiece> Rnn::pieces(CUdeviceptr weights) const {
  const Recurrent& r = form_.layers;
  const std::size_t width = r.dtype == DType::f64 ? sizeof(double) : dtype_bytes(r.format);
  std::vector<RnnPiece> list;
  const TensorOwner matrix(*dnn_), bias(*dnn_);
  for (std::int64_t layer = 0; layer < r.L * r.D; ++layer)  // pseudo-layers: layer * D + direction
    for (const Numbered& each : parameters_in(r)) {
      const bool projects = each.parameter == common::Parameter::weight_hr;
      const std::int64_t columns = each.is_bias                                         ? 1
                                   : projects                                           ? r.H
                                   : each.parameter == common::Parameter::weight_hh ? r.P
                                                                                    : r.width_in(layer / r.D);
      const std::size_t elements = (projects ? r.P : r.H) * columns;
      const auto parameter = static_cast<std::size_t>(layer) * r.n_parameters + common::position_of(r, each.parameter);
      for (std::int32_t gate = 0; gate < (projects ? 1 : static_cast<std::int32_t>(r.gates())); ++gate) {
        void *matrix_at = nullptr, *bias_at = nullptr;
        dnn_->check(dnn_->f().GetRNNWeightParams(dnn_->context(), rnn_, static_cast<std::int32_t>(layer), weight_bytes_,
                                                 reinterpret_cast<const void*>(weights), each.first + gate,
                                                 matrix.tensor, &matrix_at, bias.tensor, &bias_at),
                    "GetRNNWeightParams");
        const auto at = reinterpret_cast<std::uintptr_t>(each.is_bias ? bias_at : matrix_at);
        const std::size_t to = at - weights, n = (each.is_bias ? bias : matrix).elements();
        if (at < weights || n != elements || to > weight_bytes_ || weight_bytes_ - to < elements * width)
          throw Error(ErrorKind::internal, "cuda",
                      "cuDNN expects " + std::to_string(n) + " weights where the layer has " + std::to_string(elements),
                      "The backend's option rnn=own does without cuDNN");
        const std::size_t from = gate * elements;
        const bool joins = !list.empty() && list.back().parameter == parameter &&
                           list.back().to + list.back().elements * width == to;
        if (joins) list.back().elements += elements;
        else list.push_back({parameter, from, to, elements});
      }
    }
  return list;
}

DType inside_dtype(const Recurrent& r) { return r.dtype == DType::f64 ? DType::f64 : r.format; }

std::size_t elements_of(const Recurrent& r, RnnSlot slot) {
  switch (slot) {
    case RnnSlot::x:
    case RnnSlot::d_x: return r.x_elements();
    case RnnSlot::y:
    case RnnSlot::d_y: return r.y_elements();
    case RnnSlot::c0:
    case RnnSlot::cn:
    case RnnSlot::d_c0:
    case RnnSlot::d_cn: return r.has_c() ? r.c_elements() : 0;
    default: return r.h_elements();
  }
}

std::string_view algorithm_name(dnn::Algorithm algorithm) {
  constexpr std::string_view k_names[] = {"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC", "PERSIST_STATIC_SMALL_H"};
  return k_names[static_cast<std::size_t>(algorithm)];
}

RnnCall::RnnCall(std::shared_ptr<const Rnn> rnn, Kind kind, std::span<const RnnSlot> slots)
    : rnn_(std::move(rnn)), kind_(kind) {
  operand_.fill(-1);
  for (std::size_t k = 0; k < slots.size(); ++k) operand_[static_cast<std::size_t>(slots[k])] = static_cast<int>(k);
}

std::string RnnCall::name() const {
  constexpr const char* k_kinds[] = {"", "gradient of data", "gradient of weights"};
  const RnnForm& form = rnn_->form();
  const Recurrent& r = form.layers;
  std::string text = k_kinds[static_cast<std::size_t>(kind_)];
  if (kind_ != Kind::forward) return text;
  const std::string format(is_half(r.format) ? dtype_name(r.format) : form.tf32 ? "tf32" : dtype_name(r.dtype));
  text = "cuDNN " + rnn_->dnn_->version() + " " + std::string(algorithm_name(form.algorithm)) + " in " + format;
  text += advice(is_half(r.format) ? 8 : form.tf32 ? 4 : 1, {{"B", r.B}, {"I", r.I}, {"H", r.H}, {"P", r.P}});
  return form.chosen.empty() ? text : text + "; " + form.chosen;
}

void RnnCall::run(std::span<const CUdeviceptr> operands, CUstream stream) const {
  const Dnn& dnn = *rnn_->dnn_;
  const DnnFunctions& f = dnn.f();
  const Rnn& r = *rnn_;
  const auto at = [&](RnnSlot slot) -> void* {
    const int k = operand_[static_cast<std::size_t>(slot)];
    return k < 0 ? nullptr : reinterpret_cast<void*>(operands[k]);
  };
  using S = RnnSlot;
  dnn.check(f.SetStream(dnn.context(), stream), "SetStream");
  switch (kind_) {
    case Kind::forward:
      return dnn.check(
          f.RNNForward(dnn.context(), r.rnn_, r.form_.training ? dnn::Mode::training : dnn::Mode::inference, nullptr,
                       r.x_, at(S::x), r.y_, at(S::y), r.h_, at(S::h0), at(S::hn), r.c_, at(S::c0), at(S::cn),
                       r.weight_bytes_, at(S::weights), r.workspace_bytes_, at(S::workspace), r.reserve_bytes_,
                       at(S::reserve)),
          "RNNForward");
    case Kind::gradient_of_data:
      return dnn.check(
          f.RNNBackwardData_v8(dnn.context(), r.rnn_, nullptr, r.y_, at(S::y), at(S::d_y), r.x_, at(S::d_x), r.h_,
                               at(S::h0), at(S::d_hn), at(S::d_h0), r.c_, at(S::c0), at(S::d_cn), at(S::d_c0),
                               r.weight_bytes_, at(S::weights), r.workspace_bytes_, at(S::workspace), r.reserve_bytes_,
                               at(S::reserve)),
          "RNNBackwardData_v8");
    case Kind::gradient_of_weights:
      return dnn.check(f.RNNBackwardWeights_v8(dnn.context(), r.rnn_, dnn::Gradient::add, nullptr, r.x_, at(S::x), r.h_,
                                               at(S::h0), r.y_, at(S::y), r.weight_bytes_, at(S::d_weights),
                                               r.workspace_bytes_, at(S::workspace), r.reserve_bytes_, at(S::reserve)),
                       "RNNBackwardWeights_v8");
  }
}

}  // namespace unroll::cuda
