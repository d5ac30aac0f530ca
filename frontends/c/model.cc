// SPDX-License-Identifier: Apache-2.0
#include "frontends/c/model.h"

#include <algorithm>
#include <cstring>

#include "frontends/c/failure.h"
#include "frontends/c/options.h"
#include "unroll/support/error.h"
#include "unroll/train/trainer.h"

namespace unroll::c {

namespace {

constexpr std::string_view k_model_options[] = {"backend", "threads"};
constexpr std::int64_t k_most_threads = 1024;

SharedModel open(TensorFile file, const std::string& name, const char* options) {
  const Options o(options, k_model_options);
  if (!file.metadata.contains("task"))
    throw Error(ErrorKind::input_file, name, "does not describe its network: there is no metadata 'task'",
                "Pass a file that `unroll train` wrote, such as runs/x/best.safetensors");
  auto model = std::make_shared<OpenModel>();
  model->file = std::move(file);
  model->inference = task_inference(model->file.metadata);
  model->backend = o.text("backend", "cpu");
  model->threads = static_cast<int>(o.number("threads", 1, 0, k_most_threads));
  model->for_streams = model->make_backend();
  return model;
}

const TensorSpec& spec_at(const OpenModel& model, int kind, std::size_t index) {
  const auto& specs = kind == UNROLL_INPUT ? model.inference.inputs : model.inference.outputs;
  if ((kind != UNROLL_INPUT && kind != UNROLL_OUTPUT) || index >= specs.size())
    throw Error(ErrorKind::usage, "unroll_model_info",
                "there is no tensor " + std::to_string(index) + " of kind " + std::to_string(kind),
                "Ask unroll_model_count for the number of inputs (0) or outputs (1)");
  return specs[index];
}

unroll_tensor_info describe(const OpenModel& model, const TensorSpec& spec) {
  unroll_tensor_info info{};
  info.name = spec.name.c_str();
  info.dtype = static_cast<std::int32_t>(spec.dtype);
  info.rank = static_cast<std::int32_t>(spec.axes.size());
  for (std::size_t k = 0; k < UNROLL_MAX_RANK; ++k) {
    const bool is_free = k < spec.axes.size() && !spec.axes[k].letter.empty();
    info.axes[k] = is_free ? spec.axes[k].letter.c_str() : "";
    info.dims[k] = is_free ? -1 : k < spec.axes.size() ? spec.axes[k].size : 0;
  }
  const auto& states = model.inference.states;
  info.is_state = std::find(states.begin(), states.end(), spec.name) != states.end();
  return info;
}

}  // namespace

std::unique_ptr<Backend> OpenModel::make_backend() const {
  return unroll::make_backend(backend, {.threads = threads});
}

Handles<unroll_model, SharedModel>& models() {
  static Handles<unroll_model, SharedModel> handles("model");
  return handles;
}

SharedModel model_of(unroll_model* handle) { return models().find(handle)->object; }

void put_bytes(std::span<const std::byte> bytes, void* buffer, std::size_t* size) {
  require(size, "size");
  const std::size_t capacity = *size;
  *size = bytes.size();
  if (!buffer) return;
  if (capacity < bytes.size())
    throw Error(ErrorKind::usage, "unroll",
                "the buffer has " + std::to_string(capacity) + " bytes; " + std::to_string(bytes.size()) +
                    " are needed",
                "Call with a NULL buffer first to learn the size");
  if (!bytes.empty()) std::memcpy(buffer, bytes.data(), bytes.size());
}

}  // namespace unroll::c

using namespace unroll;
using namespace unroll::c;

extern "C" {

int unroll_model_open(const char* path, const char* options, unroll_model** model) {
  return guarded([&] {
    require(path, "path");
    require(model, "model");
    *model = nullptr;
    *model = models().add(open(load_model(path), path, options));
  });
}

int unroll_model_open_memory(const void* bytes, size_t n, const char* options, unroll_model** model) {
  return guarded([&] {
    require(bytes, "bytes");
    require(model, "model");
    *model = nullptr;
    const auto file = std::span(static_cast<const std::byte*>(bytes), n);
    *model = models().add(open(parse_model(file, "model"), "model", options));
  });
}

int unroll_model_close(unroll_model* model) {
  return guarded([&] { models().remove(model); });
}

int unroll_model_metadata(unroll_model* model, const char* key, char* buffer, size_t* size) {
  return guarded([&] {
    require(key, "key");
    const SharedModel m = model_of(model);
    const auto at = m->file.metadata.find(key);
    if (at == m->file.metadata.end())
      throw Error(ErrorKind::usage, "unroll_model_metadata", "the model has no metadata '" + std::string(key) + "'");
    put_bytes(std::as_bytes(std::span(at->second.c_str(), at->second.size() + 1)), buffer, size);
  });
}

int unroll_model_count(unroll_model* model, int kind, size_t* n) {
  return guarded([&] {
    require(n, "n");
    const SharedModel m = model_of(model);
    if (kind != UNROLL_INPUT && kind != UNROLL_OUTPUT)
      throw Error(ErrorKind::usage, "unroll_model_count", "there is no kind " + std::to_string(kind),
                  "Pass UNROLL_INPUT or UNROLL_OUTPUT");
    *n = (kind == UNROLL_INPUT ? m->inference.inputs : m->inference.outputs).size();
  });
}

int unroll_model_info(unroll_model* model, int kind, size_t index, unroll_tensor_info* info) {
  return guarded([&] {
    require(info, "info");
    const SharedModel m = model_of(model);
    put_struct(describe(*m, spec_at(*m, kind, index)), info);
  });
}

}  // extern "C"
