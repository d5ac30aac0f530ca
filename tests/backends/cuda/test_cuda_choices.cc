// SPDX-License-Identifier: Apache-2.0
// Algorithms of cuDNN and cuBLASLt that are chosen by a measurement: the fastest runs, later processes have the same
// one, whatever is in the file and however many measure at the same time, and reports say how it was chosen. On the
// libraries of the tests (tests/backends/cuda/shim), whose clock advances by costs that a test sets.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/common/autotune/choice.h"
#include "backends/common/kernel_files.h"
#include "backends/cuda/library/rnn_choice.h"
#include "tests/backends/cuda/cuda_hooks.h"
#include "tests/backends/cuda/cuda_layers.h"
#include "unroll/support/error.h"

namespace test_cuda_choices {

using namespace unroll;
using namespace unroll::cuda;
using namespace unroll::cuda_layers;
namespace fs = std::filesystem;

namespace {

using Cost = std::uint64_t (*)(dnn::Algorithm algorithm, std::int64_t hidden, std::int64_t steps);
void set_cost(Cost cost) { *in_library<Cost>("unroll_shim_dnn_cost") = cost; }

constexpr std::uint64_t k_microsecond = 1000;
// PERSIST_STATIC is the fastest where few units are, and the slowest where there are more.
std::uint64_t by_hidden(dnn::Algorithm algorithm, std::int64_t hidden, std::int64_t) {
  return k_microsecond * (algorithm == dnn::Algorithm::persist_static ? (hidden < 8 ? 10 : 900) : 100);
}
template <int algorithm>
std::uint64_t fastest_is(dnn::Algorithm each, std::int64_t, std::int64_t) {
  return k_microsecond * (static_cast<int>(each) == algorithm ? 10 : 100);
}

// A cache folder that is empty, and the libraries' own costs afterwards.
struct Cache {
  Cache() : path((fs::temp_directory_path() / ("unroll_choices_" + std::to_string(getpid()))).string()) {
    fs::remove_all(path);
  }
  ~Cache() {
    set_cost(nullptr);
    unsetenv("UNROLL_SHIM_BLAS_COSTS");
    fs::remove_all(path);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> list;
    if (!fs::exists(path + "/choices")) return list;
    for (const auto& entry : fs::directory_iterator(path + "/choices"))
      if (entry.path().extension() == ".choice") list.push_back(entry.path().string());
    return list;
  }
  const std::string path;
};

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::map<std::string, std::string> no_products() { return {{"products", "own"}, {"rnn", "cudnn"}}; }

// What a new backend reports of a layer: as a new process would, since only files outlive a backend.
std::string layer_report(const std::string& cache, const Layer& layer = {Op::lstm}, bool gradient = false,
                         std::map<std::string, std::string> own = no_products()) {
  const auto cuda = make_backend("cuda", {.cache = cache, .specific = std::move(own)});
  const auto graph = graph_of(layer, gradient);
  Program program(*graph, *cuda);
  std::string text;
  for (const ReportLine& line : program.executable().report())
    if (contains(line.implementation, "cuDNN")) text += line.implementation + "\n";
  return text;
}

Layer with_sizes(const Sizes& sizes) {
  Layer layer{Op::lstm};
  layer.sizes = sizes;
  return layer;
}

// Runs `work` in a process of its own, which starts when `go` is written to; its text is read from the result.
struct Process {
  explicit Process(const std::function<std::string()>& work) {
    int from_child[2], to_child[2];
    REQUIRE(pipe(from_child) == 0);
    REQUIRE(pipe(to_child) == 0);
    id = fork();
    if (id == 0) {
      char go = 0;
      if (read(to_child[0], &go, 1) != 1) _exit(1);
      const std::string text = work();
      const bool written = write(from_child[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      _exit(written ? 0 : 1);
    }
    close(from_child[1]), close(to_child[0]);
    out = from_child[0], in = to_child[1];
  }
  void start() const { REQUIRE(write(in, "g", 1) == 1); }
  std::string result() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(out, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
    int status = 0;
    waitpid(id, &status, 0);
    close(in), close(out);
    CHECK(status == 0);
    return text;
  }
  pid_t id = 0;
  int in = 0, out = 0;
};

}  // namespace

TEST_CASE("the algorithm that was measured as the fastest runs the layer, and the report has all times") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(by_hidden);
  for (const bool gradient : {false, true}) {
    const std::string small = layer_report(cache.path, with_sizes({5, 3, 4, 6}), gradient);
    CHECK(contains(small, "cuDNN 9.19 PERSIST_STATIC in f32; measured now: STANDARD 0." +
                              std::string(gradient ? "300" : "100") + " ms, PERSIST_STATIC 0.0" +
                              std::string(gradient ? "30" : "10") + " ms, PERSIST_DYNAMIC"));
    const std::string large = layer_report(cache.path, with_sizes({5, 3, 4, 8}), gradient);
    CHECK(contains(large, "cuDNN 9.19 STANDARD in f32; measured now: STANDARD"));
    CHECK(contains(large, "PERSIST_STATIC " + std::string(gradient ? "2.7" : "0.9") + "00 ms"));
  }
}

TEST_CASE("algorithms are timed also where they refuse to be captured") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  setenv("UNROLL_SHIM_DNN_CAPTURE", "0", 1);
  CHECK(contains(layer_report(cache.path),
                 "PERSIST_STATIC in f32; measured now: STANDARD 0.100 ms, PERSIST_STATIC 0.010 ms"));
  unsetenv("UNROLL_SHIM_DNN_CAPTURE");
}

TEST_CASE("another algorithm must be five percent faster than STANDARD") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost([](dnn::Algorithm each, std::int64_t hidden, std::int64_t) -> std::uint64_t {
    return each == dnn::Algorithm::small_h ? (hidden < 8 ? 96 : 94) * k_microsecond : 100 * k_microsecond;
  });
  CHECK(contains(layer_report(cache.path, with_sizes({5, 3, 4, 6})), " STANDARD in f32"));
  CHECK(contains(layer_report(cache.path, with_sizes({5, 3, 4, 8})), " PERSIST_STATIC_SMALL_H in f32"));
}

TEST_CASE("a layer runs with the same algorithm forward and backward, and values and gradients are the body's") {
  if (!has_shim()) return;
  const Cache cache;
  const auto graph = graph_of({Op::gru}, true);
  const TensorMap inputs = numbers_for(*graph), expected = evaluate(*graph, *make_backend("reference"), inputs);
  const Cost costs[] = {fastest_is<0>, fastest_is<1>, fastest_is<2>, fastest_is<3>};
  for (int k = 0; k < 4; ++k) {
    fs::remove_all(cache.path);
    set_cost(costs[k]);
    const auto cuda = make_backend("cuda", {.cache = cache.path});
    Bound program(*graph, *cuda, {}, inputs);
    for (int run = 0; run < 3; ++run) CHECK(difference(program.run(), expected) < 0x1p-18);
    CHECK(static_cast<int>(*in_library<dnn::Algorithm>("unroll_shim_dnn_algorithm")) == k);
  }
  CHECK(objects() == 0);
}

TEST_CASE("another process has the same choice without measuring, whatever is the fastest by then") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  CHECK(contains(layer_report(cache.path, {Op::lstm}, true), "PERSIST_STATIC in f32; measured now"));
  const Process other([&] {
    set_cost(fastest_is<0>);
    const int before = forward_calls();
    const std::string text = layer_report(cache.path, {Op::lstm}, true);
    // The persistent form is tried once: the device might refuse it by now.
    return text + "calls " + std::to_string(forward_calls() - before);
  });
  other.start();
  const std::string text = other.result();
  CHECK(contains(text, "PERSIST_STATIC in f32; measured earlier: STANDARD 0.300 ms, PERSIST_STATIC 0.030 ms"));
  CHECK(contains(text, "calls 2"));  // as inference for the claim of the forward node, and as training
}

TEST_CASE("processes that measure at the same time end with the same choice") {
  if (!has_shim()) return;
  const Cache cache;
  for (int round = 0; round < 8; ++round) {
    fs::remove_all(cache.path);
    const auto work = [&](Cost cost) {
      return [&cache, cost] {
        set_cost(cost);
        return layer_report(cache.path);
      };
    };
    const Process one(work(fastest_is<1>)), two(work(fastest_is<3>));
    one.start(), two.start();
    const std::string texts[] = {one.result(), two.result()};
    const bool first = contains(texts[0], "PERSIST_STATIC in");
    const std::string chosen = first ? "PERSIST_STATIC in" : "PERSIST_STATIC_SMALL_H in";
    CAPTURE(texts[0]);
    CAPTURE(texts[1]);
    for (const std::string& text : texts) CHECK(contains(text, chosen));
    CHECK(contains(layer_report(cache.path), chosen));
    CHECK(cache.files().size() == 1);
  }
}

TEST_CASE("a file that was changed in any way is ignored with a note, and replaced") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  layer_report(cache.path);
  REQUIRE(cache.files().size() == 1);
  const std::string path = cache.files()[0], good = contents(path);
  set_cost(fastest_is<3>);
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, std::size_t{60}, good.size() / 2, good.size() - 1}) {
    CAPTURE(at);
    std::string bad = good;
    bad[at] ^= 1;
    std::ofstream(path, std::ios::binary) << bad;
    const std::string text = layer_report(cache.path);
    CHECK(contains(text, "SMALL_H in f32; measured now (the file of an earlier choice was ignored: it"));
    CHECK(contains(layer_report(cache.path), "SMALL_H in f32; measured earlier: "));
  }
  for (const std::string& bad : {std::string(), good.substr(0, good.size() - 3), good + "x"}) {
    std::ofstream(path, std::ios::binary) << bad;
    CHECK(contains(layer_report(cache.path), "was ignored"));
  }
  fs::remove(path);
  fs::create_directories(path);  // nothing can take its place
  CHECK(contains(layer_report(cache.path), "chosen by rule: a measured choice cannot be kept in "));
}

TEST_CASE("a file that is whole and names what the library does not know is ignored with a note") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  layer_report(cache.path);
  const std::string path = cache.files()[0], file = contents(path);
  const std::size_t body = file.find("choice 1\n"), head = 16 + 17 + 17;  // mark, hash, size
  const std::string depends_on = file.substr(head, body - head);
  REQUIRE(common::parse_kernel(file, depends_on).bytes == file.substr(body));
  for (const char* bad : {"choice 1\n+ PERSIST_ALWAYS 5\n", "choice 2\n+ STANDARD 5\n", "choice 1\n", "nothing",
                          "choice 1\n- STANDARD 5\n", "choice 1\n+ STANDARD refused\n"}) {
    CAPTURE(std::string(bad));
    common::write_kernel(path, depends_on, bad);
    CHECK(contains(layer_report(cache.path), "was ignored: it names no algorithm that the library accepts"));
    CHECK(contains(contents(path), "+ PERSIST_STATIC 10000\n"));
  }
}

TEST_CASE("where a kept algorithm does not run any more, the layer takes STANDARD, and the report says why") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  layer_report(cache.path);
  setenv("UNROLL_SHIM_DNN_STANDARD", "1", 1);
  const std::string text = layer_report(cache.path);
  CHECK(contains(text, "STANDARD in f32; because PERSIST_STATIC (measured earlier: "));
  CHECK(contains(text, "does not run: [cuda] cudnnRNNForward failed: "));
  CHECK(contains(text, "the device has no persistent kernel"));
  fs::remove_all(cache.path);
  CHECK(contains(layer_report(cache.path),
                 "STANDARD in f32; the only algorithm that runs, measured now: STANDARD 0.100 ms; refused: PERSIST"));
  unsetenv("UNROLL_SHIM_DNN_STANDARD");
}

TEST_CASE("options force an algorithm, or leave the choice to a rule") {
  if (!has_shim()) return;
  const Cache cache;
  set_cost(fastest_is<1>);
  const auto reported = [&](const char* option, const char* value, const std::string& folder, const Layer& layer) {
    auto own = no_products();
    own[option] = value;
    return layer_report(folder, layer, false, own);
  };
  const Layer layer{Op::lstm};
  CHECK(contains(reported("rnn_algorithm", "persist_dynamic", cache.path, layer),
                 "PERSIST_DYNAMIC in f32; forced by rnn_algorithm; "));
  CHECK(contains(reported("rnn_algorithm", "standard", "", layer), "STANDARD in f32; forced by rnn_algorithm; "));
  CHECK(contains(reported("measure", "false", cache.path, layer),
                 "PERSIST_STATIC_SMALL_H in f32; chosen by rule: option measure=false; "));
  CHECK(contains(reported("measure", "true", "", layer), "SMALL_H in f32; chosen by rule: no cache folder"));
  CHECK(cache.files().empty());
  Layer projects{Op::lstm};
  projects.options.projection = 2;
  CHECK(contains(
      reported("rnn_algorithm", "small_h", "", projects),
      "STANDARD in f32; because PERSIST_STATIC_SMALL_H (forced by rnn_algorithm) does not run: cuDNN 9.19 refuses"));
  CHECK_THROWS_WITH_AS(make_backend("cuda:rnn_algorithm=fastest"), doctest::Contains("persist_static"), Error);
}

TEST_CASE("sequences of nearly the same length share a choice; other sizes, formats and gradients do not") {
  if (!has_shim()) return;
  const Cache cache;
  layer_report(cache.path, with_sizes({5, 3, 4, 6}));
  CHECK(contains(layer_report(cache.path, with_sizes({8, 3, 4, 6})), "measured earlier"));
  CHECK(cache.files().size() == 1);
  std::size_t n = 1;
  for (const Sizes& sizes : {Sizes{9, 3, 4, 6}, {5, 2, 4, 6}, {5, 3, 5, 6}, {5, 3, 4, 7}}) {
    CHECK(contains(layer_report(cache.path, with_sizes(sizes)), "measured now"));
    CHECK(cache.files().size() == ++n);
  }
  Layer wide{Op::lstm};
  wide.dtype = DType::f64;
  layer_report(cache.path, wide);
  CHECK(cache.files().size() == n + 1);
  layer_report(cache.path, {Op::lstm}, true);
  CHECK(cache.files().size() == n + 2);
}

namespace {

std::size_t taken_proposal() {
  void* const library = dlopen(blas_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
  return *static_cast<std::size_t*>(dlsym(library, "unroll_shim_blas_number"));
}

// What a new backend reports of a product, which it has computed.
std::string product_report(const std::string& cache, const char* costs) {
  setenv("UNROLL_SHIM_BLAS_COSTS", costs, 1);
  const auto cuda = make_backend("cuda", {.cache = cache});
  Graph graph;
  graph.output("y", matmul(graph.input("a", {DType::f32, {5, 7}}), graph.input("b", {DType::f32, {7, 3}})));
  Program program(graph, *cuda);
  Tensor a(Type{DType::f32, {5, 7}}), b(Type{DType::f32, {7, 3}});
  for (std::int64_t i = 0; i < 35; ++i) a.set(i, 1);
  for (std::int64_t i = 0; i < 21; ++i) b.set(i, 1);
  CHECK(program.run({{"a", a}, {"b", b}}).at("y").at(0) == 7);
  std::string text;
  for (const ReportLine& line : program.executable().report()) text += line.implementation + "\n";
  return text;
}

}  // namespace

TEST_CASE("the proposal of cuBLASLt that was measured as the fastest computes a product, also in other processes") {
  if (!has_shim()) return;
  const Cache cache;
  CHECK(contains(product_report(cache.path, "30,20,25"),
                 "cuBLASLt; proposal 2 of 3, measured now: 0.030 ms, 0.020 ms, 0.025 ms"));
  CHECK(taken_proposal() == 1);
  const Process other([&] { return product_report(cache.path, "30,40,25") + std::to_string(taken_proposal()); });
  other.start();
  const std::string text = other.result();
  CHECK(contains(text, "proposal 2 of 3, measured earlier: 0.030 ms, 0.020 ms, 0.025 ms"));
  CHECK(text.back() == '1');
  CHECK(cache.files().size() == 2);  // for addresses that are multiples of 16 bytes, and for others
  fs::remove_all(cache.path);
  CHECK(contains(product_report(cache.path, "30,29"), "proposal 1 of 2"));  // by less than the margin
  fs::remove_all(cache.path);
  CHECK(contains(product_report(cache.path, "9,8,7,6,1,1"), "proposal 4 of 4"));  // further ones are not timed
  CHECK(contains(product_report("", "30,20,25"), "cuBLASLt\n"));
  CHECK(taken_proposal() == 0);
}

TEST_CASE("an algorithm of a file is used only if cuBLASLt accepts it for the product") {
  if (!has_shim()) return;
  const Cache cache;
  product_report(cache.path, "30,20,10");
  CHECK(taken_proposal() == 2);
  const std::string text = product_report(cache.path, "30,20");  // the third one is no algorithm any more
  CHECK(contains(text, "proposal 2 of 2, measured now (the file of an earlier choice was ignored: it names no"));
  CHECK(taken_proposal() == 1);
}

TEST_CASE("whatever call fails while algorithms are measured is a typed error or does no harm") {
  if (!has_shim()) return;
  const Cache cache;
  const auto graph = graph_of({Op::lstm}, true);
  const auto work = [&] {
    const auto cuda = make_backend("cuda", {.cache = cache.path});
    bool claims = true;
    for (const Node& node : graph->nodes())
      if (node.op == Op::lstm || node.op == Op::gradient)
        claims = claims && cuda->claim_in(*graph, node, Precision::f32).yes;
    return claims;
  };
  set_cost(fastest_is<1>);
  cuda_hooks::install_hooks();
  cuda_hooks::fault() = {};
  CHECK(work());
  const int n = cuda_hooks::fault().calls;
  int thrown = 0, survived = 0;
  for (int due = 0; due < n; ++due) {
    fs::remove_all(cache.path);
    cuda_hooks::fault() = {0, due, due % 2 == 0, nullptr};
    try {
      const bool claims = work();
      CHECK(claims);
      ++survived;
    } catch (const Error& error) {
      CAPTURE(cuda_hooks::fault().failed);
      CAPTURE(std::string(error.what()));
      // A stream whose capture does not end refuses later calls.
      const bool captures = cuda_hooks::fault().failed == std::string("cuStreamEndCapture");
      const bool is_memory = due % 2 == 0 && !captures;
      CHECK(error.kind() == (is_memory ? ErrorKind::memory : ErrorKind::device));
      ++thrown;
    }
  }
  std::printf("%d calls failed once each: %d errors, %d without effect\n", n, thrown, survived);
  CHECK(thrown > n / 4);
  cuda_hooks::fault() = {};
  cuda_hooks::remove_hooks();
  CHECK(contains(layer_report(cache.path), " in f32; measured "));
}

}  // namespace test_cuda_choices
