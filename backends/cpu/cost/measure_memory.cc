// SPDX-License-Identifier: Apache-2.0
// Speeds of MachineModel beyond one core's arithmetic: caches, memory and barriers.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cpu/cost/kernel_clock.h"
#include "backends/cpu/cost/machine_model.h"
#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

// Elementwise programs that read or write several arrays at once, as loop steps do.
constexpr int k_many = 6;
Expression streams(Index n, bool reads) {
  Expression e;
  e.shape = Shape{n};
  const Strides dense = dense_strides(e.shape);
  const int n_inputs = reads ? k_many : 1;
  for (int i = 0; i < n_inputs; ++i) e.inputs.push_back({DType::f32, dense});
  for (int i = 0; i + 1 < k_many; ++i) {
    const auto before = static_cast<std::uint16_t>(i == 0 ? 0 : n_inputs + i - 1);
    const auto next = static_cast<std::uint16_t>(reads ? i + 1 : 0);
    e.instructions.push_back({Op::maximum, DType::f32, DType::f32, before, next, 0});
    if (!reads || i + 2 == k_many) e.results.push_back({static_cast<std::uint16_t>(n_inputs + i), dense, true});
  }
  return e;
}
constexpr double k_apart = k_many - 1;  // results of the program that writes several

// Nanoseconds per element in each thread, for all arrays together of `bytes`.
struct Streams {
  double reading, writing;
};
Streams stream_ns(std::size_t bytes, const AnyPool& pool, double start_ns) {
  const Index n = static_cast<Index>(bytes / sizeof(float)) / (k_many + 1);
  std::vector<Floats> arrays;
  for (int i = 0; i <= k_many; ++i) arrays.emplace_back(n);
  const auto time = [&](bool reads) {
    const Elementwise program(streams(n, reads));
    std::vector<const void*> in;
    std::vector<void*> out;
    for (int i = 0; i < (reads ? k_many : 1); ++i) in.push_back(arrays[i].data());
    for (int i = reads ? k_many : 1; i < (reads ? k_many + 1 : k_many); ++i)
      out.push_back(arrays[i].data());
    const double ns = least_ns([&] { pool.run([&](const Worker& worker) { program.run(in, out, worker); }); }) -
                      start_ns;
    return ns * pool.parts / static_cast<double>(n);
  };
  return {time(true), time(false)};
}
// Time per byte, from the time beyond that of the same programs in L1: 6 r + w and r + 5 w.
MachineModel::Bytes bytes_of(const Streams& streams, const Streams& in_l1) {
  const double reading = (streams.reading - in_l1.reading) / sizeof(float);
  const double writing = (streams.writing - in_l1.writing) / sizeof(float);
  const double read = (k_apart * reading - writing) / (k_apart * k_many - 1);
  return {std::max(0.0, read), std::max(0.0, (writing - read) / k_apart)};
}

// Cache sizes of the first core, if the system reports them.
std::vector<std::size_t> data_cache_bytes() {
  std::vector<std::size_t> sizes;
  for (int index = 0;; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::string type;
    std::size_t kib = 0;
    if (!(std::ifstream(folder + "type") >> type) || !(std::ifstream(folder + "size") >> kib)) return sizes;
    if (type != "Instruction") sizes.push_back(kib << 10);
  }
}

void measure_levels(MachineModel& machine, const AnyPool& pool) {
  const std::vector<std::size_t> caches = data_cache_bytes();
  std::copy_n(caches.begin(), std::min(caches.size(), k_n_levels - 1), machine.cache_bytes.begin());
  const AnyPool alone{1, [](const Work& work) { work(Worker{}); }};
  constexpr std::size_t k_most = std::size_t{96} << 20;
  const auto at_least = [](const MachineModel::Bytes& a, const MachineModel::Bytes& b) {
    return MachineModel::Bytes{std::max(a.read_ns, b.read_ns), std::max(a.write_ns, b.write_ns)};
  };
  const Streams in_l1 = stream_ns(machine.cache_bytes[0] / 2, alone, 0);
  machine.one[0] = machine.all[0] = {0, 0};
  for (std::size_t level = 1; level < k_n_levels; ++level) {
    // A size well above the previous cache and within this one; for the last level, beyond the last cache.
    const std::size_t before = machine.cache_bytes[level - 1];
    std::size_t size = level + 1 == k_n_levels ? 2 * before : std::min(4 * before, machine.cache_bytes[level] / 2);
    size = std::min(size, k_most);
    machine.one[level] = at_least(bytes_of(stream_ns(size, alone, 0), in_l1), machine.one[level - 1]);
    const bool own = level + 2 < k_n_levels;  // each core has a private one
    const std::size_t of_all = own ? size * pool.parts : size;
    machine.all[level] =
        at_least(bytes_of(stream_ns(of_all, pool, pool.parts > 1 ? machine.pool_ns : 0), in_l1), machine.one[level]);
  }
}

void measure_pool(MachineModel& machine, const AnyPool& pool) {
  if (pool.parts == 1) return;
  constexpr int k_barriers = 200;
  machine.pool_ns = least_ns([&] { pool.run([](const Worker&) {}); });
  const double barriers = least_ns([&] {
    pool.run([](const Worker& worker) {
      for (int i = 0; i < k_barriers; ++i) worker.sync();
    });
  });
  machine.barrier_ns = std::max(0.0, barriers - machine.pool_ns) / k_barriers;
}

}  // namespace

void measure_memory(MachineModel& machine, const AnyPool& pool) {
  measure_pool(machine, pool);
  measure_levels(machine, pool);
}

}  // namespace unroll::cpu
