// SPDX-License-Identifier: Apache-2.0
// Streams. Parameters are constants of the graph, so the backend packs them once. Two sets of state buffers alternate:
// a step reads one and writes the other, so no state is copied.
#include "unroll/model/stream.h"

#include <array>
#include <string>

#include "core/model/step_graph.h"
#include "core/nn/index_limits.h"
#include "core/support/process/abandoned.h"
#include "core/support/tensor_role.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_who = "Stream";

void check(const StreamModel& model, const StreamOptions& o) {
  const std::string got = std::to_string(o.lanes) + " and " + std::to_string(o.chunk);
  if (o.lanes < 1 || o.chunk < 1)
    throw Error(ErrorKind::usage, k_who, "lanes and chunk must be at least 1; got " + got);
  if (model.input != DType::i32 && (model.input != DType::f32 || model.inputs < 1))
    throw Error(ErrorKind::usage, k_who, "a model reads at least one f32 per step, or i32 ids");
}

// Returns the number of ids that the model knows, if it looks them up; otherwise 0.
std::int64_t ids_of(const Graph& step) {
  for (const IndexLimit& limit : index_limits(step))
    if (limit.input == "x") return limit.most + 1;
  return 0;
}

StreamModel refuse_bidirectional(StreamModel model, bool bidirectional) {
  if (bidirectional)
    throw Error(ErrorKind::unsupported, k_who, "the output of a bidirectional model needs the whole sequence",
                "Use `unroll predict` for whole sequences, or train with bidirectional = false");
  return model;
}

}  // namespace

StreamModel recurrent_stream(const RecurrentModelOptions& options, std::int64_t inputs) {
  return refuse_bidirectional(
      {.inputs = inputs,
       .state_shapes = [options](std::int64_t lanes) { return recurrent_state_shapes(options, lanes); },
       .build = [options](Scope& scope, Value x,
                          std::span<const Value> states) { return recurrent_model(scope, x, options, states); }},
      options.bidirectional);
}

StreamModel cell_stream(const CellFactory& cell, const RecurrentModelOptions& options, std::int64_t inputs) {
  return refuse_bidirectional(
      {.inputs = inputs,
       .state_shapes =
           [cell, options](std::int64_t lanes) {
             std::vector<Shape> shapes;
             for (const std::int64_t size : cell(options.hidden).state_sizes)
               shapes.push_back({options.layers, lanes, size});
             return shapes;
           },
       .build = [cell, options](Scope& scope, Value x,
                                std::span<const Value> states) { return cell_layer(scope, cell, x, options, states); }},
      options.bidirectional);
}

// The part shared by forks.
struct Stream::Model {
  BackendHandle use;
  StreamOptions options;
  std::shared_ptr<const Plan> one, chunk;  // plans of one step and of a chunk; equal if the chunk is one step
  std::vector<Type> states;
  DType input;
  std::int64_t inputs, ids, outputs;
  Backend& backend() const { return use.get(k_who); }
};

// The part of each stream.
struct Stream::Run {
  struct Program {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Buffer> x, y;
    std::array<Bindings, 2> bindings;  // by the set of states that it reads
  };
  Program one, chunk;
  std::array<std::vector<std::unique_ptr<Buffer>>, 2> states;
  std::size_t turn = 0;  // the set with the current states
  Bytes zeros;           // the size of the widest state of a lane
};

Stream::Stream(BackendHandle backend, const StreamModel& model, const TensorMap& parameters,
               const StreamOptions& options) {
  check(model, options);
  const Constants weights = constants_of(parameters);
  const PlanOptions how{.weights = options.weights, .one_thread = options.one_thread};
  const auto graph_of = [&](std::int64_t steps) { return step_graph(model, steps, options.lanes, weights, k_who); };
  const auto step = graph_of(1);
  const auto one = plan(*step, backend.get(k_who), how);
  const Graph& graph = *one->graph;
  std::vector<Type> states;
  for (std::size_t k = 1; k < graph.outputs().size(); ++k) states.push_back(graph.type(graph.outputs()[k].value));
  const Shape y = graph.type(graph.outputs()[0].value).shape;
  if (y.rank() != 3) throw Error(ErrorKind::shape, k_who, "the model's y must be [T,B,O]; got " + y.text());
  const bool reads_ids = model.input == DType::i32;
  const auto chunk = options.chunk == 1 ? one : plan(*graph_of(options.chunk), backend.get(k_who), how);
  *this = Stream(std::make_shared<const Model>(
      Model{backend, options, one, chunk, states, model.input, reads_ids ? 1 : model.inputs, ids_of(*step), y[2]}));
}

Stream::Stream(std::shared_ptr<const Model> shared) : model_(std::move(shared)), run_(std::make_unique<Run>()) {
  Backend& backend = model_->backend();
  std::int64_t widest = 1;
  for (const Type& type : model_->states) {
    const Tensor zero(type);
    widest = std::max(widest, type.shape[2]);
    for (auto& set : run_->states) {
      set.push_back(backend.allocate(type.bytes()));
      backend.upload(*set.back(), 0, zero.bytes());
    }
  }
  run_->zeros = Bytes(widest * sizeof(float));
  const auto make = [&](Run::Program& program, const std::shared_ptr<const Plan>& plan) {
    const Graph& graph = *plan->graph;
    program.executable = backend.compile(plan);
    program.x = backend.allocate(graph.type(graph.inputs()[0].value).bytes());
    program.y = backend.allocate(graph.type(graph.outputs()[0].value).bytes());
    for (const std::size_t read : {0, 1}) {
      Bindings& b = program.bindings[read];
      b.inputs.push_back(program.x.get());
      b.outputs.push_back(program.y.get());
      for (const auto& buffer : run_->states[read]) b.inputs.push_back(buffer.get());
      for (const auto& buffer : run_->states[1 - read]) b.outputs.push_back(buffer.get());
    }
  };
  make(run_->one, model_->one);
  if (model_->options.chunk > 1) make(run_->chunk, model_->chunk);
}

Result<Stream> Stream::try_create(BackendHandle backend, const StreamModel& model, const TensorMap& parameters,
                                  const StreamOptions& options) noexcept {
  return attempt([&] { return Stream(backend, model, parameters, options); });
}

Stream::~Stream() {
  if (model_ && model_->use.is_over()) abandon(run_.release());
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

std::int64_t Stream::lanes() const { return model_->options.lanes; }
std::int64_t Stream::chunk() const { return model_->options.chunk; }
std::int64_t Stream::inputs() const { return model_->inputs; }
std::int64_t Stream::ids() const { return model_->ids; }
std::int64_t Stream::outputs() const { return model_->outputs; }
std::vector<ReportLine> Stream::report() const { return run_->one.executable->report(); }

bool Stream::step(std::span<const float> x, std::span<float> y) noexcept {
  return step_bytes(DType::f32, std::as_bytes(x), y);
}
bool Stream::step(std::span<const std::int32_t> ids, std::span<float> y) noexcept {
  const std::int64_t most = model_->ids;
  for (const std::int32_t id : ids)
    if (most > 0 && (id < 0 || id >= most)) return false;
  return step_bytes(DType::i32, std::as_bytes(ids), y);
}

bool Stream::step_bytes(DType dtype, std::span<const std::byte> x, std::span<float> y) noexcept try {
  Run& run = *run_;
  const auto fits = [&](const Run::Program& p) {
    return p.executable && p.x->bytes() == x.size() && p.y->bytes() == y.size_bytes();
  };
  Run::Program* const program = fits(run.one) ? &run.one : fits(run.chunk) ? &run.chunk : nullptr;
  if (!program || dtype != model_->input) return false;
  Backend& backend = model_->backend();
  backend.upload(*program->x, 0, x);
  program->executable->run(program->bindings[run.turn]);
  backend.download(*program->y, 0, std::as_writable_bytes(y));
  run.turn = 1 - run.turn;
  return true;
} catch (...) {
  return false;
}

bool Stream::reset() noexcept {
  bool done = true;
  for (std::int64_t lane = 0; lane < lanes(); ++lane) done = reset(lane) && done;
  return done;
}

bool Stream::reset(std::int64_t lane) noexcept try {
  if (lane < 0 || lane >= lanes()) return false;
  for (std::size_t k = 0; k < model_->states.size(); ++k) {
    const Shape& shape = model_->states[k].shape;
    const std::size_t bytes = shape[2] * sizeof(float);
    for (std::int64_t slot = 0; slot < shape[0]; ++slot)
      model_->backend().upload(*run_->states[run_->turn][k], (slot * lanes() + lane) * bytes,
                             {run_->zeros.data(), bytes});
  }
  return true;
} catch (...) {
  return false;
}

TensorMap Stream::save() const {
  TensorMap states;
  for (std::size_t k = 0; k < model_->states.size(); ++k) {
    Tensor state(model_->states[k]);
    model_->backend().download(*run_->states[run_->turn][k], 0, state.bytes());
    states.emplace(state_name(k), std::move(state));
  }
  return states;
}

void Stream::restore(const TensorMap& states) {
  const std::size_t n = model_->states.size();
  for (std::size_t k = 0; k < n; ++k) {
    const auto at = states.find(state_name(k));
    if (at == states.end())
      throw Error(ErrorKind::usage, k_who, "'" + state_name(k) + "' is missing", "Pass the result of save()");
    const Type &got = at->second.type(), &wanted = model_->states[k];
    if (got != wanted)
      throw Error(got.dtype == wanted.dtype ? ErrorKind::shape : ErrorKind::type, k_who,
                  "'" + state_name(k) + "' must be " + wanted.text() + "; got " + got.text());
  }
  if (states.size() != n)
    throw Error(ErrorKind::usage, k_who,
                "there are " + std::to_string(n) + " states; got " + std::to_string(states.size()));
  for (std::size_t k = 0; k < n; ++k)
    model_->backend().upload(*run_->states[run_->turn][k], 0, states.at(state_name(k)).bytes());
}

Stream Stream::fork() const {
  Stream other(model_);
  other.restore(save());
  return other;
}

}  // namespace unroll
