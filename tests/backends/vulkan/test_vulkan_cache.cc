// SPDX-License-Identifier: Apache-2.0
// What a driver compiled is kept in a folder and given to the driver again: whole files of the same shader, device and
// driver only. lavapipe keeps nothing in its caches, so the function table adds data to them here.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/common/kernel_files.h"
#include "backends/vulkan/device/functions.h"
#include "backends/vulkan/device/pipeline_file.h"
#include "tests/support/or_skip.h"
#include "tests/support/temp_folder.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_vulkan_cache {

using namespace unroll;
using namespace unroll::vulkan;
namespace fs = std::filesystem;

namespace {

constexpr char k_code[] = "compiled by a driver";

// A driver that keeps k_code behind the head of the real one, and what it was given.
struct Driver {
  bool keeps = true;
  int fresh = 0;                   // caches that began empty
  std::vector<std::string> given;  // what the others began with
  PFN_vkCreatePipelineCache create = nullptr;
  PFN_vkGetPipelineCacheData read = nullptr;
};
Driver& driver() {
  static Driver state;
  return state;
}

VkResult create_cache(VkDevice device, const VkPipelineCacheCreateInfo* info, const VkAllocationCallbacks* allocator,
                      VkPipelineCache* cache) {
  if (info->initialDataSize == 0) ++driver().fresh;
  else driver().given.emplace_back(static_cast<const char*>(info->pInitialData), info->initialDataSize);
  VkPipelineCacheCreateInfo empty = *info;  // the real driver does not know k_code
  empty.initialDataSize = 0;
  return driver().create(device, &empty, allocator, cache);
}

VkResult read_cache(VkDevice device, VkPipelineCache cache, std::size_t* size, void* data) {
  std::size_t real = sizeof(VkPipelineCacheHeaderVersionOne);
  std::string head(real, '\0');
  const VkResult got = driver().read(device, cache, &real, head.data());
  if (got != VK_SUCCESS && got != VK_INCOMPLETE) return got;
  const std::string all = driver().keeps ? head + k_code : head;
  if (data) std::memcpy(data, all.data(), all.size());
  *size = all.size();
  return VK_SUCCESS;
}

void hook(Functions& functions) {
  if (!functions.CreatePipelineCache || functions.CreatePipelineCache == create_cache) return;
  driver().create = std::exchange(functions.CreatePipelineCache, create_cache);
  driver().read = std::exchange(functions.GetPipelineCacheData, read_cache);
}

struct Hooked {
  Hooked() {
    driver() = {};
    set_tamper(hook);
  }
  ~Hooked() { set_tamper(nullptr); }
};

// The number of files, after a product, a sum and an elementwise group gave their results; -1: there is no device.
int work(const std::string& folder) {
  const auto backend = testing::or_skip([&] { return make_backend("vulkan", {.cache = folder}); });
  if (!backend) return -1;
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {2, 2}});
  graph.output("y", sum(matmul(x, x)) * 2.0 + 1.0);
  Tensor ones(Type{DType::f32, {2, 2}});
  for (std::int64_t i = 0; i < 4; ++i) ones.set(i, 1);
  CHECK(evaluate(graph, *backend, {{"x", ones}}).at("y").at(0) == 17);
  if (!fs::is_directory(folder)) return 0;
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
std::set<std::string> contents_of_all(const std::string& folder) {
  std::set<std::string> all;
  for (const auto& file : fs::directory_iterator(folder)) all.insert(contents(file));
  return all;
}

}  // namespace

TEST_CASE("what a driver compiled is kept in one file for each shader, and given to it in the next process") {
  const TempFolder folder;
  const std::string kernels = folder / "kernels";
  const Hooked hooked;
  const int n = work(kernels);
  if (n < 0) return;
  CHECK(n >= 2);
  CHECK(driver().fresh == n);
  CHECK(driver().given.empty());
  const auto written = contents_of_all(kernels);
  driver() = {};
  CHECK(work(kernels) == n);
  CHECK(driver().fresh == 0);
  REQUIRE(driver().given.size() == static_cast<std::size_t>(n));
  for (const std::string& given : driver().given) CHECK(given.ends_with(k_code));
  CHECK(contents_of_all(kernels) == written);
}

TEST_CASE("without a folder a driver gets no cache, and one that keeps nothing gets no files") {
  const Hooked hooked;
  if (work("") < 0) return;
  CHECK(driver().fresh == 0);
  const TempFolder folder;
  driver().keeps = false;
  CHECK(work(folder / "kernels") == 0);
  CHECK(driver().fresh > 0);
}

TEST_CASE("a file that was changed, cut or copied from another shader is not given to the driver, and written again") {
  const TempFolder folder;
  const std::string kernels = folder / "kernels";
  const Hooked hooked;
  const int n = work(kernels);
  if (n < 2) return;
  const auto written = contents_of_all(kernels);
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(kernels)) paths.push_back(file.path());
  const std::string first = contents(paths[0]), second = contents(paths[1]);
  std::string changed = first;
  changed[changed.size() - 3] ^= 1;
  for (const std::string& bad : {changed, first.substr(0, first.size() / 2), std::string(), second}) {
    std::ofstream(paths[0], std::ios::binary) << bad;
    driver() = {};
    CHECK(work(kernels) == n);
    CHECK(driver().fresh == 1);
    CHECK(driver().given.size() == static_cast<std::size_t>(n - 1));
    CHECK(contents_of_all(kernels) == written);
  }
  fs::remove_all(kernels);
  std::ofstream(kernels) << "a file";  // in the place of the folder
  CHECK(work(kernels) == 0);
}

TEST_CASE("data that begins with the marks of another device or driver is not given to the driver") {
  Limits limits;
  limits.vendor = 0x10005, limits.device = 7;
  limits.cache_id.fill(3);
  VkPipelineCacheHeaderVersionOne head{sizeof head, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, 0x10005, 7, {}};
  std::memset(head.pipelineCacheUUID, 3, sizeof head.pipelineCacheUUID);
  const auto with = [&](const VkPipelineCacheHeaderVersionOne& h, const std::string& rest = "code") {
    return is_of_driver(std::string(reinterpret_cast<const char*>(&h), sizeof h) + rest, limits);
  };
  CHECK(with(head));
  CHECK_FALSE(with(head, ""));
  CHECK_FALSE(is_of_driver("", limits));
  auto other = head;
  other.vendorID = 1;
  CHECK_FALSE(with(other));
  other = head, other.deviceID = 8;
  CHECK_FALSE(with(other));
  other = head, other.pipelineCacheUUID[15] = 4;
  CHECK_FALSE(with(other));
  other = head, other.headerVersion = static_cast<VkPipelineCacheHeaderVersion>(2);
  CHECK_FALSE(with(other));
  for (const std::uint32_t size : {0u, 31u, 36u, 0xffffffffu}) {
    other = head, other.headerSize = size;
    CHECK_FALSE(with(other));
  }
}

}  // namespace test_vulkan_cache
