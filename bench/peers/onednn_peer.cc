// SPDX-License-Identifier: Apache-2.0
// oneDNN's LSTM through its own C++ API, for inference: the options of `unroll bench`, one JSON object. Weights are
// reordered once, as its guide says. Shapes: T time, B batch, I input, H hidden, D directions; gates i f g o.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "unroll/io/safetensors.h"

namespace {

using Tag = dnnl::memory::format_tag;
using Floats = std::vector<float>;

struct Options {
  std::map<std::string, std::string> words;
  bool bidirectional = false;

  long number(const std::string& name, long otherwise) const {
    const auto at = words.find(name);
    return at == words.end() ? otherwise : std::stol(at->second);
  }
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--bidirectional") o.bidirectional = true;
    else if (i + 1 < argc) o.words[name.substr(std::min<std::size_t>(2, name.size()))] = argv[++i];
  }
  if (o.words["cell"] != "lstm" || o.words["mode"] != "infer" || o.number("layers", 1) != 1 ||
      o.words.contains("lengths"))
    throw std::runtime_error("only --cell lstm --mode infer with one layer and without lengths");
  if (!o.words.contains("check")) throw std::runtime_error("--check FILE is needed: weights and x come from there");
  return o;
}

// [R,C] to [C,R].
Floats transposed(std::span<const float> from, long rows) {
  const long columns = static_cast<long>(from.size()) / rows;
  Floats to(from.size());
  for (long r = 0; r < rows; ++r)
    for (long c = 0; c < columns; ++c)
      to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
  return to;
}

struct Layer {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::lstm_forward lstm;
  std::unordered_map<int, dnnl::memory> arguments;
  Floats x, y;

  dnnl::memory::desc described(const dnnl::memory::dims& dims, Tag tag) const {
    return {dims, dnnl::memory::data_type::f32, tag};
  }
  // A copy in the format the primitive wants.
  dnnl::memory prepared(Floats values, const dnnl::memory::dims& dims, Tag tag, const dnnl::memory::desc& wanted) {
    dnnl::memory plain(described(dims, tag), engine, values.data());
    dnnl::memory result(wanted, engine);
    dnnl::reorder(plain, result).execute(stream, plain, result);
    stream.wait();
    return result;
  }

  Layer(const Options& o, const unroll::TensorMap& saved) {
    const long T = o.number("steps", 100), B = o.number("batch", 32), D = o.bidirectional ? 2 : 1;
    const long I = o.number("input", 128), H = o.number("hidden", 256);
    const auto direction = o.bidirectional ? dnnl::rnn_direction::bidirectional_concat
                                           : dnnl::rnn_direction::unidirectional_left2right;
    const dnnl::memory::dims w_dims{1, D, I, 4, H}, u_dims{1, D, H, 4, H}, b_dims{1, D, 4, H};
    const auto x_desc = described({T, B, I}, Tag::tnc), y_desc = described({T, B, D * H}, Tag::tnc);
    const auto b_desc = described(b_dims, Tag::ldgo), none = dnnl::memory::desc();
    const dnnl::lstm_forward::primitive_desc plan(
        engine, dnnl::prop_kind::forward_inference, direction, x_desc, none, none, described(w_dims, Tag::any),
        described(u_dims, Tag::any), b_desc, y_desc, none, none);
    lstm = dnnl::lstm_forward(plan);
    Floats w, u, b;
    for (long d = 0; d < D; ++d) {
      const auto of = [&](const char* name) {
        return saved.at(std::string(name) + "_l0" + (d == 0 ? "" : "_reverse")).values<float>();
      };
      const Floats wt = transposed(of("weight_ih"), 4 * H), ut = transposed(of("weight_hh"), 4 * H);
      w.insert(w.end(), wt.begin(), wt.end());
      u.insert(u.end(), ut.begin(), ut.end());
      for (std::size_t k = 0; k < static_cast<std::size_t>(4 * H); ++k)
        b.push_back(of("bias_ih")[k] + of("bias_hh")[k]);
    }
    const auto given = saved.at("x").values<float>();
    x.assign(given.begin(), given.end());
    y.resize(static_cast<std::size_t>(T * B * D * H));
    arguments = {{DNNL_ARG_SRC_LAYER, dnnl::memory(x_desc, engine, x.data())},
                 {DNNL_ARG_WEIGHTS_LAYER, prepared(w, w_dims, Tag::ldigo, plan.weights_layer_desc())},
                 {DNNL_ARG_WEIGHTS_ITER, prepared(u, u_dims, Tag::ldigo, plan.weights_iter_desc())},
                 {DNNL_ARG_BIAS, prepared(b, b_dims, Tag::ldgo, b_desc)},
                 {DNNL_ARG_DST_LAYER, dnnl::memory(y_desc, engine, y.data())}};
  }

  void run() {
    lstm.execute(stream, arguments);
    stream.wait();
  }
};

// In milliseconds, in rising order, after a run that is not counted.
std::vector<double> time_runs(Layer& layer, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  constexpr std::size_t k_fewest = 3;
  layer.run();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < k_fewest || since(start) < seconds * 1e3;) {
    const auto begin = Clock::now();
    layer.run();
    times.push_back(since(begin));
  }
  std::sort(times.begin(), times.end());
  return times;
}

double relative_l2(std::span<const float> wanted, std::span<const float> got) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double w = wanted[i], d = got[i] - w;
    difference += d * d;
    size += w * w;
  }
  return std::sqrt(difference / size);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options o = parse(argc, argv);
  omp_set_num_threads(static_cast<int>(o.number("threads", 1)));
  const unroll::TensorMap saved = unroll::load_safetensors(o.words.at("check")).tensors;
  Layer layer(o, saved);
  const double seconds = o.words.contains("seconds") ? std::stod(o.words.at("seconds")) : 3;
  const std::vector<double> times = time_runs(layer, seconds);
  const dnnl::version_t* v = dnnl::version();
  std::printf("{\"backend\": \"oneDNN %d.%d\", \"repeats\": %zu, \"min_ms\": %.9g, \"median_ms\": %.9g, ", v->major,
              v->minor, times.size(), times.front(), times[times.size() / 2]);
  std::printf("\"relative_l2\": %.3g}\n", relative_l2(saved.at("y").values<float>(), layer.y));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "onednn_peer: %s\n", error.what());
  return 1;
}
