// SPDX-License-Identifier: Apache-2.0
// Streams. Parameters are constants of the graph, so the backend packs them once. Two sets of state buffers alternate:
// a step reads one and writes the other, so no state is copied.
#include "unroll/model/stream.h"

#include <algorithm>
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
constexpr const char* k_blocks = "blocks";  // of save()

void check(const StreamModel& model, const StreamOptions& o) {
  const std::string got = std::to_string(o.lanes) + " and " + std::to_string(o.chunk);
  if (o.lanes < 1 || o.chunk < 1)
    throw Error(ErrorKind::usage, k_who, "lanes and chunk must be at least 1; got " + got);
  if (!model.whole && model.input != DType::i32 && (model.input != DType::f32 || model.inputs < 1))
    throw Error(ErrorKind::usage, k_who, "a model reads at least one f32 per step, or i32 ids");
}

// Returns the number of ids that the model knows, if it looks them up; otherwise 0.
std::int64_t ids_of(const Graph& step) {
  for (const IndexLimit& limit : index_limits(step))
    if (limit.input == "x") return limit.most + 1;
  return 0;
}

// The states before the first step.
std::vector<Tensor> initial_states(const BlockStream& step, const BackendHandle& backend) {
  std::vector<Tensor> states;
  const TensorMap found =
      step.initial && !step.initial->outputs().empty() ? evaluate(*step.initial, backend, {}) : TensorMap();
  for (const NamedValue& output : step.graph->outputs().subspan(1)) {
    const auto at = found.find(output.name);
    states.push_back(at == found.end() ? Tensor(step.graph->type(output.value)) : at->second);
  }
  return states;
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
       .state_shapes = [=](std::int64_t lanes) { return recurrent_state_shapes(options, lanes, inputs); },
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

StreamModel graph_stream(const GraphOfLength& graph_of, const BlockStreamOptions& options) {
  const auto example = graph_of(1 << 20);  // steps for which even wide windows fit
  StreamModel model;
  if (!example->inputs().empty()) model.input = example->type(example->inputs()[0].value).dtype;
  model.blocks = options;
  model.whole = [graph_of](Scope& scope, std::int64_t T) {
    const auto graph = graph_of(T);
    std::vector<Value> inputs;
    for (const NamedValue& input : graph->inputs())
      inputs.push_back(scope.graph().input(input.name, graph->type(input.value)));
    const std::vector<Value> outputs = inline_graph(scope.graph(), *graph, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) scope.graph().output(graph->outputs()[k].name, outputs[k]);
  };
  return model;
}

// The part shared by forks.
struct Stream::Model {
  struct Call {  // one of the two lengths of x
    std::shared_ptr<const Plan> plan;
    BlockStream shape;
  };
  BackendHandle use;
  StreamOptions options;
  Call one, chunk;  // equal if the chunk is one step
  std::vector<Tensor> initial;  // states
  bool of_graph;
  DType input;
  std::int64_t inputs, ids, outputs;
  Backend& backend() const { return use.get(k_who); }
};

// The part of each stream.
struct Stream::Run {
  struct Program {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Buffer> x, y;
    std::vector<std::unique_ptr<Buffer>> ends;
    std::array<Bindings, 2> bindings;  // by the set of states that it reads
  };
  Program one, chunk;
  std::array<std::vector<std::unique_ptr<Buffer>>, 2> states;
  std::size_t turn = 0;  // the set with the current states
  std::int64_t blocks = 0;  // of the smallest size, since the start
};

Stream::Stream(BackendHandle backend, const StreamModel& model, const TensorMap& parameters,
               const StreamOptions& options) {
  check(model, options);
  const Constants weights = constants_of(parameters);
  const PlanOptions how{.weights = options.weights, .one_thread = options.one_thread};
  const auto call_of = [&](std::int64_t steps) {
    BlockStream step = step_graph(model, steps, options.lanes, weights, k_who);
    const auto planned = plan(*step.graph, backend.get(k_who), how);
    return Model::Call{planned, std::move(step)};
  };
  Model::Call one = call_of(1);
  const Graph& step = *one.shape.graph;
  const Type x = step.type(step.inputs()[0].value), y = step.type(step.outputs()[0].value);
  std::vector<Tensor> initial = initial_states(one.shape, backend);
  const Model::Call chunk = options.chunk == 1 ? one : call_of(options.chunk);
  const std::int64_t rows = one.shape.rows * options.lanes, steps = one.shape.block * options.lanes;
  *this = Stream(std::make_shared<const Model>(Model{backend, options, one, chunk, std::move(initial),
                                                     one.shape.initial != nullptr, x.dtype,
                                                     x.shape.elements() / steps, ids_of(step),
                                                     y.shape.elements() / rows}));
}

Stream::Stream(std::shared_ptr<const Model> shared) : model_(std::move(shared)), run_(std::make_unique<Run>()) {
  Backend& backend = model_->backend();
  for (const Tensor& tensor : model_->initial)
    for (auto& set : run_->states) {
      set.push_back(backend.allocate(tensor.bytes().size()));
      backend.upload(*set.back(), 0, tensor.bytes());
    }
  const auto make = [&](Run::Program& program, const Model::Call& call) {
    const Graph& graph = *call.plan->graph;
    program.executable = backend.compile(call.plan);
    program.x = backend.allocate(graph.type(graph.inputs()[0].value).bytes());
    program.y = backend.allocate(graph.type(graph.outputs()[0].value).bytes());
    for (const BlockStream::End& end : call.shape.ends) {
      program.ends.push_back(backend.allocate(sizeof(std::int32_t)));
      const auto all = static_cast<std::int32_t>(end.rows);
      backend.upload(*program.ends.back(), 0, std::as_bytes(std::span(&all, 1)));
    }
    for (const std::size_t read : {0, 1}) {
      Bindings& b = program.bindings[read];
      std::size_t n_states = 0, n_ends = 0;
      for (const NamedValue& input : graph.inputs().subspan(1))
        b.inputs.push_back(input.name == state_name(n_states) ? run_->states[read][n_states++].get()
                                                               : program.ends[n_ends++].get());
      b.inputs.insert(b.inputs.begin(), program.x.get());
      b.outputs.push_back(program.y.get());
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
std::int64_t Stream::chunk() const { return model_->chunk.shape.block; }
std::int64_t Stream::inputs() const { return model_->inputs; }
std::int64_t Stream::ids() const { return model_->ids; }
std::int64_t Stream::outputs() const { return model_->outputs; }
std::int64_t Stream::block() const { return model_->one.shape.block; }
std::int64_t Stream::rows() const { return model_->one.shape.rows; }
std::int64_t Stream::delay() const { return model_->one.shape.delay; }
std::int64_t Stream::look_ahead() const { return model_->one.shape.look_ahead; }
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
  run.blocks += program == &run.one ? 1 : chunk() / block();
  return true;
} catch (...) {
  return false;
}

// The last block is filled with zeros. Blocks follow until the output is complete; `ends` say what exists in them.
bool Stream::finish(std::span<const float> x, std::vector<float>& y) noexcept try {
  const BlockStream& shape = model_->one.shape;
  const std::size_t width = lanes() * inputs(), row = lanes() * outputs();
  if (x.size() % width != 0 || x.size() >= width * shape.block || model_->input != DType::f32) return false;
  const std::int64_t first = run_->blocks, steps = first * shape.block + static_cast<std::int64_t>(x.size() / width);
  const std::int64_t begin = std::max(shape.delay, first * shape.rows), end = shape.delay + shape.length(steps);
  std::vector<float> block(width * shape.block), rows;
  for (std::int64_t k = first; k * shape.rows < end; ++k) {
    std::fill(block.begin(), block.end(), 0.0F);
    if (k == first) std::copy(x.begin(), x.end(), block.begin());
    for (std::size_t e = 0; e < shape.ends.size(); ++e) {
      const BlockStream::End& limit = shape.ends[e];
      const auto left = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(limit.length(steps) - (k * limit.rows - limit.delay), 0, limit.rows));
      model_->backend().upload(*run_->one.ends[e], 0, std::as_bytes(std::span(&left, 1)));
    }
    rows.resize(rows.size() + row * shape.rows);
    if (!step(block, std::span(rows).last(row * shape.rows))) return false;
  }
  const std::int64_t skip = std::max<std::int64_t>(begin - first * shape.rows, 0);
  if (end > begin) y.insert(y.end(), rows.begin() + skip * row, rows.begin() + (end - first * shape.rows) * row);
  for (std::size_t e = 0; e < shape.ends.size(); ++e) {
    const auto all = static_cast<std::int32_t>(shape.ends[e].rows);
    model_->backend().upload(*run_->one.ends[e], 0, std::as_bytes(std::span(&all, 1)));
  }
  return reset();
} catch (...) {
  return false;
}

bool Stream::reset() noexcept try {
  for (std::size_t k = 0; k < model_->initial.size(); ++k)
    model_->backend().upload(*run_->states[run_->turn][k], 0, model_->initial[k].bytes());
  run_->blocks = 0;
  return true;
} catch (...) {
  return false;
}

bool Stream::reset(std::int64_t lane) noexcept try {
  if (lane < 0 || lane >= lanes()) return false;
  if (model_->of_graph) return reset();
  for (std::size_t k = 0; k < model_->initial.size(); ++k) {
    const Tensor& initial = model_->initial[k];  // [slots, B, size]
    const std::size_t bytes = initial.shape()[2] * sizeof(float);
    for (std::int64_t slot = 0; slot < initial.shape()[0]; ++slot) {
      const std::size_t at = (slot * lanes() + lane) * bytes;
      model_->backend().upload(*run_->states[run_->turn][k], at, initial.bytes().subspan(at, bytes));
    }
  }
  return true;
} catch (...) {
  return false;
}

TensorMap Stream::save() const {
  TensorMap states;
  for (std::size_t k = 0; k < model_->initial.size(); ++k) {
    Tensor state(model_->initial[k].type());
    model_->backend().download(*run_->states[run_->turn][k], 0, state.bytes());
    states.emplace(state_name(k), std::move(state));
  }
  if (model_->of_graph)
    states.emplace(k_blocks, Tensor::scalar(DType::f64, static_cast<double>(run_->blocks)));
  return states;
}

void Stream::restore(const TensorMap& states) {
  std::vector<std::pair<std::string, Type>> expected;
  for (std::size_t k = 0; k < model_->initial.size(); ++k)
    expected.emplace_back(state_name(k), model_->initial[k].type());
  if (model_->of_graph) expected.emplace_back(k_blocks, Type{DType::f64, {}});
  for (const auto& [name, wanted] : expected) {
    const auto at = states.find(name);
    if (at == states.end())
      throw Error(ErrorKind::usage, k_who, "'" + name + "' is missing", "Pass the result of save()");
    const Type& got = at->second.type();
    if (got != wanted)
      throw Error(got.dtype == wanted.dtype ? ErrorKind::shape : ErrorKind::type, k_who,
                  "'" + name + "' must be " + wanted.text() + "; got " + got.text());
  }
  if (states.size() != expected.size())
    throw Error(ErrorKind::usage, k_who,
                "there are " + std::to_string(expected.size()) + " states; got " + std::to_string(states.size()));
  for (std::size_t k = 0; k < model_->initial.size(); ++k)
    model_->backend().upload(*run_->states[run_->turn][k], 0, states.at(state_name(k)).bytes());
  if (model_->of_graph) run_->blocks = static_cast<std::int64_t>(states.at(k_blocks).at(0));
}

Stream Stream::fork() const {
  Stream other(model_);
  other.restore(save());
  return other;
}

}  // namespace unroll
