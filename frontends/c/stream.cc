// SPDX-License-Identifier: Apache-2.0
// Streams, which run one step at a time. On the cpu backend a step allocates nothing, here as well.
#include "unroll/model/stream.h"

#include <cstring>

#include "frontends/c/failure.h"
#include "frontends/c/model.h"
#include "frontends/c/options.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll::c {

namespace {

constexpr std::string_view k_stream_options[] = {"lanes", "chunk", "weights"};
constexpr std::int64_t k_most = std::int64_t{1} << 20;  // lanes, steps of a chunk

struct OpenStream {
  SharedModel model;
  Stream stream;
};
using Streams = Handles<unroll_stream, OpenStream>;
Streams& streams() {
  static Streams handles("stream");
  return handles;
}

StreamOptions options_of(const char* text) {
  const Options o(text, k_stream_options);
  return {.lanes = o.number("lanes", 1, 1, k_most),
          .chunk = o.number("chunk", 1, 1, k_most),
          .weights = weight_format_from_name(o.text("weights", "f32"))};
}

void check_ids(const Stream& stream, std::span<const std::int32_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (stream.ids() > 0 && (ids[i] < 0 || ids[i] >= stream.ids()))
      throw Error(ErrorKind::usage, "unroll_stream_step_ids",
                  "ids[" + std::to_string(i) + "] is " + std::to_string(ids[i]) + "; the model knows ids from 0 to " +
                      std::to_string(stream.ids() - 1));
}

template <class T>
void step(unroll_stream* handle, const T* x, std::size_t nx, float* y, std::size_t ny, const char* other) {
  require(x, "x");
  require(y, "y");
  const auto s = streams().use(handle);
  Stream& stream = s->stream;
  if (stream.step(std::span(x, nx), std::span(y, ny))) return;
  if constexpr (std::is_same_v<T, std::int32_t>) check_ids(stream, std::span(x, nx));
  const auto of = [&](auto values) { return std::to_string(values); };
  throw Error(ErrorKind::usage, "unroll_stream_step",
              "a step reads " + of(stream.lanes() * stream.inputs() * stream.block()) + " values and writes " +
                  of(stream.lanes() * stream.outputs() * stream.rows()) + ", or " +
                  of(stream.chunk() / stream.block()) + " times as many; got " +
                  of(nx) + " and " + of(ny) + ", or the kind of input is wrong or the device failed",
              std::string("Pass these sizes; the other kind of input is ") + other);
}

}  // namespace

}  // namespace unroll::c

using namespace unroll;
using namespace unroll::c;

extern "C" {

int unroll_stream_new(unroll_model* model, const char* options, unroll_stream** stream) {
  return guarded([&] {
    require(stream, "stream");
    *stream = nullptr;
    const SharedModel m = model_of(model);
    *stream = streams().add(
        {m, Stream(*m->for_streams, task_stream(m->file.metadata), m->file.tensors, options_of(options))});
  });
}

int unroll_stream_sizes(unroll_stream* stream, size_t* inputs, size_t* outputs) {
  return guarded([&] {
    require(inputs, "inputs");
    require(outputs, "outputs");
    const auto s = streams().use(stream);
    *inputs = s->stream.inputs() * s->stream.block();
    *outputs = s->stream.outputs() * s->stream.rows();
  });
}

int unroll_stream_step(unroll_stream* stream, const float* x, size_t nx, float* y, size_t ny) {
  return guarded([&] { step(stream, x, nx, y, ny, "unroll_stream_step_ids"); });
}

int unroll_stream_step_ids(unroll_stream* stream, const int32_t* ids, size_t n, float* y, size_t ny) {
  return guarded([&] { step(stream, ids, n, y, ny, "unroll_stream_step"); });
}

int unroll_stream_reset(unroll_stream* stream, int64_t lane) {
  return guarded([&] {
    const auto s = streams().use(stream);
    if (lane < -1 || lane >= s->stream.lanes())
      throw Error(ErrorKind::usage, "unroll_stream_reset",
                  "the stream has " + std::to_string(s->stream.lanes()) + " lanes; got lane " + std::to_string(lane),
                  "Pass -1 for all lanes");
    if (!(lane < 0 ? s->stream.reset() : s->stream.reset(lane)))
      throw Error(ErrorKind::device, "unroll_stream_reset", "the device failed");
  });
}

int unroll_stream_save(unroll_stream* stream, void* buffer, size_t* size) {
  return guarded([&] {
    require(size, "size");
    const auto s = streams().use(stream);
    put_bytes(safetensors_bytes({s->stream.save(), {}}), buffer, size);
  });
}

int unroll_stream_restore(unroll_stream* stream, const void* bytes, size_t n) {
  return guarded([&] {
    require(bytes, "bytes");
    const auto s = streams().use(stream);
    s->stream.restore(parse_safetensors({static_cast<const std::byte*>(bytes), n}, "state").tensors);
  });
}

int unroll_stream_fork(unroll_stream* stream, unroll_stream** fork) {
  return guarded([&] {
    require(fork, "fork");
    *fork = nullptr;
    const auto s = streams().use(stream);
    *fork = streams().add({s->model, s->stream.fork()});
  });
}

int unroll_stream_free(unroll_stream* stream) {
  return guarded([&] { streams().remove(stream); });
}

}  // extern "C"
