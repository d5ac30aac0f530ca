// SPDX-License-Identifier: Apache-2.0
// Shaders that are written at run time: random expression trees and every other kernel are valid SPIR-V (spirv-val,
// where it is installed), and trees compute on the device what the expression means. UNROLL_SEED=n repeats a run,
// UNROLL_VULKAN_TREES=n changes how many.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "backends/common/walk.h"
#include "backends/vulkan/kernels/products.h"
#include "backends/vulkan/program/record.h"
#include "tests/backends/common/expression_trees.h"
#include "tests/support/or_skip.h"
#include "tests/support/setting.h"
#include "tests/support/temp_folder.h"
#include "unroll/support/error.h"

namespace test_vulkan_shaders {

using namespace unroll;
using namespace unroll::vulkan;
using namespace unroll::testing;

namespace {

constexpr std::size_t k_trees = 150, k_validated = 100;
constexpr int k_ulp = 10;  // functions are made of one to three roundings more than the cpu's 4
constexpr Setting k_setting{256, false}, k_preserving{256, true}, k_small{64, false};

bool is_valid(const Words& words, const TempFolder& folder) {
  const std::string path = folder / "shader.spv";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
  return std::system((std::string(UNROLL_SPIRV_VAL) + " --target-env vulkan1.2 " + path).c_str()) == 0;
}
bool have_validator() {
  const bool found = std::ifstream(UNROLL_SPIRV_VAL).good();  // the test may run on another machine
  if (!found) std::printf("skipped: no spirv-val\n");
  return found;
}

std::unique_ptr<Context> open_or_skip() {
  return testing::or_skip([&] { return std::make_unique<Context>(Choice{}, false, 0); });
}

using Bytes8 = std::vector<std::byte>;

// The results of an expression on the device: one dispatch, each operand in a buffer of its own.
std::vector<Bytes8> run_expression(Context& context, const Expression& e, const std::vector<Bytes8>& inputs) {
  const Expression simple = common::simplified(e);
  const std::vector<DType> dtypes = common::register_dtypes(e);
  std::vector<Range> ranges;
  Frame frame;
  vulkan::Program program;
  Dispatch dispatch;
  const auto bind = [&](std::vector<Place>& list, Storage::Place place, std::size_t bytes, DType dtype) {
    const Range range = context.memory.allocate(bytes, Use::device);
    ranges.push_back(range);
    dispatch.operands.push_back(
        {{place, static_cast<std::int32_t>(list.size()), 0, {}}, bytes, false, dtype_bytes(dtype)});
    list.push_back({range.block, range.offset, range.bytes, range.offset});
    return range;
  };
  for (std::size_t k = 0; k < inputs.size(); ++k)
    context.queue.upload(bind(frame.inputs, Storage::Place::input, inputs[k].size(), e.inputs[k].dtype), 0, inputs[k]);
  std::vector<Bytes8> results;
  for (const auto& result : e.results) {
    const DType dtype = dtypes[result.from];
    results.emplace_back(static_cast<std::size_t>(e.shape.elements()) * dtype_bytes(dtype));
    bind(frame.outputs, Storage::Place::output, results.back().size(), dtype);
  }
  program.params = expression_params(simple, separate_buffers(e.inputs.size() + e.results.size()));
  const Setting setting = context.setting();
  const Buffers buffers = separate_buffers(dispatch.operands.size());
  dispatch.kernel = &context.pipelines.get(expression_key(simple, buffers), buffers.count + 1,
                                           [&] { return expression_shader(simple, buffers, setting); });
  dispatch.groups = (static_cast<std::uint64_t>(simple.shape.elements()) + setting.local_size - 1) / setting.local_size;
  auto main = std::make_shared<PlanProgram>();
  auto hazards = std::make_shared<common::Hazards>();
  hazards->tasks.resize(2);
  main->plan = std::make_shared<Plan>();
  main->hazards = hazards;
  main->works.push_back({.node = 0, .dispatches = {dispatch}});
  program.main = main;
  Held held;
  held.params = context.memory.allocate(program.params.size() * 4, Use::device);
  ranges.push_back(held.params);
  context.queue.upload(held.params, 0, std::as_bytes(std::span(program.params)));
  {
    Recording recording(context);
    Recorder(context, program, held, recording).record(frame);
    context.queue.submit(recording.commands());
    context.queue.wait();
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    context.queue.download(ranges[inputs.size() + k], 0, results[k]);
  for (const Range& range : ranges) context.memory.release(range);
  return results;
}

// Trees that fit the device: each operand is bound by itself.
bool fits(const Expression& e, const Limits& limits) {
  return e.inputs.size() + e.results.size() + 1 <= std::min(limits.buffers, limits.push_words);
}

}  // namespace

TEST_CASE("shaders of random expression trees are valid SPIR-V") {
  if (!have_validator()) return;
  const TempFolder folder;
  Engine engine(setting("UNROLL_SEED", 1));
  for (std::size_t k = 0; k < setting("UNROLL_VULKAN_TREES", k_validated); ++k) {
    const Expression e = common::simplified(random_expression(engine, /*with_f64=*/false));
    CAPTURE(text_of(e));
    const Buffers buffers = separate_buffers(e.inputs.size() + e.results.size());
    REQUIRE(is_valid(expression_shader(e, buffers, k % 2 ? k_setting : k_preserving), folder));
  }
}

TEST_CASE("shaders of products are valid SPIR-V: tiles, batches, row counts, orders in memory, epilogues with gates") {
  if (!have_validator()) return;
  const TempFolder folder;
  Epilogue epilogue;
  epilogue.expression.shape = {6, 20};
  epilogue.expression.inputs = {{DType::f32, {20, 1}}, {DType::f32, {0, 1}}, {DType::f32, {20, 1}}};
  epilogue.expression.instructions = {{Op::add, DType::f32, DType::f32, 0, 1}, {Op::mul, DType::f32, DType::f32, 3, 2}};
  epilogue.expression.results = {{4, {20, 1}}};
  epilogue.gates = {0, -1, 1};
  epilogue.buffers = separate_buffers(2);
  for (const Setting& s : {k_setting, k_preserving}) {
    for (const Product& product :
         {Product{.tile = {64, 64, 4, 4, 16, 4}},
          Product{.tile = {8, 64, 8, 8, 16, 1}, .batch_rank = 2, .a_by_k = false},
          Product{.tile = {128, 128, 8, 8, 8, 1}, .has_rows = true, .rows_limit_k = true, .b_by_k = true},
          Product{.tile = {4, 64, 4, 4, 16, 2}, .batch_rank = 1, .has_rows = true},
          Product{.tile = {32, 64, 4, 4, 16, 4}, .gates = 2, .stores = false, .epilogue = &epilogue},
          Product{.tile = {16, 64, 4, 4, 16, 4}, .gates = 2, .stores = true, .epilogue = &epilogue},
          Product{.tile = {64, 64, 4, 4, 16, 4}, .operands = DType::bf16, .result = DType::f16},
          Product{.tile = {16, 64, 4, 4, 16, 4}, .operands = DType::f16, .result = DType::f32},
          Product{.tile = {64, 64, 4, 4, 16, 4, true}},
          Product{.tile = {8, 64, 8, 8, 16, 1, true}, .batch_rank = 1, .has_rows = true, .rows_limit_k = true}})
      CHECK(is_valid(product_shader(product, s), folder));
  }
}

TEST_CASE("shaders of reductions, indices, draws and packing are valid SPIR-V") {
  if (!have_validator()) return;
  const TempFolder folder;
  for (const Setting& s : {k_setting, k_preserving, k_small}) {
    for (const Reduction r : {Reduction::sum, Reduction::max, Reduction::argmax})
      for (const DType dtype : {DType::f32, DType::i32}) CHECK(is_valid(reduction_shader(r, dtype, 2, 2, s), folder));
    for (const DType dtype : {DType::bf16, DType::f16})
      CHECK(is_valid(reduction_shader(Reduction::sum, dtype, 2, 2, s), folder));
    CHECK(is_valid(gather_shader(DType::b8, s), folder));
    CHECK(is_valid(gather_shader(DType::bf16, s), folder));
    CHECK(is_valid(gather_shader(DType::f32, s), folder));
    CHECK(is_valid(scatter_shader(DType::f32, s), folder));
    CHECK(is_valid(links_shader(s), folder));
    CHECK(is_valid(linked_scatter_shader(DType::f32, s), folder));
    CHECK(is_valid(scatter_shader(DType::i32, s), folder));
    CHECK(is_valid(iota_shader(s), folder));
    CHECK(is_valid(random_shader(true, s), folder));
    CHECK(is_valid(random_shader(false, s), folder));
    CHECK(is_valid(pack_shader(s), folder));
  }
}

TEST_CASE("an invalid shader is noticed") {
  if (!have_validator()) return;
  const TempFolder folder;
  Words words = iota_shader(k_setting);
  words[words.size() - 3] = 0;
  CHECK(!is_valid(words, folder));
}

TEST_CASE("random expression trees compute on the device what they mean") {
  const auto context = open_or_skip();
  if (!context) return;
  const std::uint64_t seed = setting("UNROLL_SEED", 2);
  Engine engine(seed);
  std::size_t n = 0, numbers = 0, wrong = 0, tight = 0;
  for (; n < setting("UNROLL_VULKAN_TREES", k_trees); ++n) {
    const Expression e = random_expression(engine, /*with_f64=*/false);
    if (!fits(e, context->device.limits())) continue;
    std::vector<Bytes8> inputs;
    for (const auto& input : e.inputs) {
      std::vector<double> list(static_cast<std::size_t>(extent_of(e.shape, input.strides)));
      for (double& x : list) x = random_number(engine, input.dtype);
      inputs.push_back(bytes_of(input.dtype, list));
    }
    const std::vector<Bytes8> results = run_expression(*context, e, inputs);
    const std::vector<DType> dtypes = common::register_dtypes(e);
    for (std::int64_t x = 0; x < e.shape.elements(); ++x) {
      Element element;
      for (std::size_t k = 0; k < inputs.size(); ++k)
        element.inputs.push_back(number_at(e.inputs[k].dtype, inputs[k], offset_of(e.shape, e.inputs[k].strides, x)));
      const std::vector<Bound> bounds = bounds_of(e, element, k_ulp);
      for (std::size_t k = 0; k < results.size(); ++k, ++numbers) {
        const double got = number_at(dtypes[e.results[k].from], results[k], x);
        tight += bounds[k].is_tight();
        if (bounds[k].holds(got) || wrong++ > 3) continue;
        FAIL_CHECK("tree " << n << " gives " << got << " for element " << x << " of result " << k << ", outside ["
                           << static_cast<double>(bounds[k].lo) << ", " << static_cast<double>(bounds[k].hi)
                           << "]: " << text_of(e));
      }
    }
  }
  std::printf("%zu trees, %zu numbers within their bounds, %.1f %% of the bounds tight, UNROLL_SEED=%llu\n", n, numbers,
              100.0 * static_cast<double>(tight) / static_cast<double>(numbers), static_cast<unsigned long long>(seed));
  CHECK(wrong == 0);
  CHECK(tight * 2 > numbers);  // otherwise the bounds say little
}

}  // namespace test_vulkan_shaders
