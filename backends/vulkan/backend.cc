// SPDX-License-Identifier: Apache-2.0
// The vulkan backend: f32, i32 and b8 on any device with Vulkan 1.2, bf16 and f16 where it has 16-bit storage buffers.
// It claims nothing: composites run as their bodies.
#include <algorithm>
#include <charconv>
#include <string>
#include <typeinfo>

#include "backends/common/specific_options.h"
#include "backends/registry.h"
#include "backends/vulkan/program/executable.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using vulkan::Context;

std::string described(const vulkan::Device& device) {
  const vulkan::Limits& l = device.limits();
  std::string text = l.name + ", " + l.driver + ", Vulkan " + std::to_string(VK_API_VERSION_MAJOR(l.api)) + "." +
                     std::to_string(VK_API_VERSION_MINOR(l.api)) + ": " + std::to_string(l.memory >> 20) +
                     " MiB, buffer ranges of " + std::to_string(l.range >> 20) + " MiB, " +
                     std::to_string(l.buffers) + " buffers per shader, " + std::to_string(l.local_size) +
                     " invocations per workgroup, loops of at most " + std::to_string(l.iterations) + " iterations";
  for (const std::string& other : device.others()) text += "; also " + other;
  if (!l.halves) text += "; no bf16 and f16: it lacks storageBuffer16BitAccess";
  if (l.is_cpu) text += device.chosen_by_default() ? "; a CPU device: there is no other" : "; a CPU device";
  return text;
}

class VulkanBackend final : public Backend {
 public:
  explicit VulkanBackend(std::shared_ptr<Context> context) : context_(std::move(context)) {
    const vulkan::Limits& limits = context_->device.limits();
    capabilities_.name = "vulkan";
    capabilities_.device = described(context_->device);
    capabilities_.dtypes = {DType::f32, DType::i32, DType::b8};
    if (limits.halves) capabilities_.dtypes.insert(capabilities_.dtypes.end(), {DType::bf16, DType::f16});
    capabilities_.emulated = limits.is_cpu;
    capabilities_.flushes_denormals = true;
    capabilities_.fuses = true;
    capabilities_.groups_rows = true;
    capabilities_.tuning.fewest_rows = 1;  // the invocations of a workgroup share a row
    capabilities_.tuning.sums_in_steps = false;
    capabilities_.tuning.operands_in_steps = capabilities_.tuning.joins_products = true;
    capabilities_.views = true;
    capabilities_.lengths = LengthsForm::packed;
    capabilities_.alignment = 256;
    // A range begins at a multiple of the device's alignment, which may be before the value.
    capabilities_.largest_buffer_range = limits.range - limits.alignment;
    capabilities_.memory_bytes = limits.memory;
  }
  ~VulkanBackend() override {
    try {
      context_->queue.wait();
    } catch (const Error&) {  // nobody is left who could be told
    }
  }

  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph&, const Node&) const override {
    return {.reason = "the vulkan backend has no kernels for whole layers yet: it runs their bodies"};
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    context_->device.require_sound();
    return std::make_unique<vulkan::DeviceBuffer>(context_, bytes);
  }
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override {
    context_->queue.upload(vulkan::as_device(buffer).range(), offset, from);
  }
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override {
    context_->queue.download(vulkan::as_device(buffer).range(), offset, to);
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    context_->device.require_sound();
    return std::make_unique<vulkan::VulkanExecutable>(context_, std::move(plan));
  }
  void wait() override { context_->queue.wait(); }

 private:
  std::shared_ptr<Context> context_;
  Capabilities capabilities_;
};

std::uint32_t number_option(const BackendOptions& options, const std::string& name) {
  const std::string_view text = common::specific_option(options, name);
  std::uint32_t number = 0;
  if (text.empty()) return 0;
  const auto end = text.data() + text.size();
  if (std::from_chars(text.data(), end, number).ptr != end || number == 0)
    throw Error(ErrorKind::usage, "vulkan", "option '" + name + "' must be a positive number; got '" +
                                                std::string(text) + "'");
  return number;
}

std::shared_ptr<Context> open_context(const BackendOptions& options) {
  vulkan::Choice choice{std::string(common::specific_option(options, "device"))};
  if (choice.text.empty() && options.device > 0) choice.text = std::to_string(options.device);
  const bool validates = common::specific_option(options, "validation") == "true";
  const std::string_view how = common::specific_option(options, "loops");
  const auto loops = how == "steps" ? vulkan::Loops::steps
                     : how == "whole" ? vulkan::Loops::whole
                                      : vulkan::Loops::automatic;
  auto context = std::make_shared<Context>(choice, validates, number_option(options, "iterations"), loops,
                                           options.cache);
  const std::string_view sizes = common::specific_option(options, "sizes");
  if (sizes == "small" || sizes == "large") context->device.set_small_sizes(sizes == "small");
  return context;
}

}  // namespace

const vulkan::DeviceBuffer& vulkan::as_device(const Buffer& buffer) {
  if (typeid(buffer) == typeid(DeviceBuffer)) return static_cast<const DeviceBuffer&>(buffer);
  throw Error(ErrorKind::usage, "Buffer", "the buffer was allocated by another backend",
              "allocate it with the backend that compiled the plan");
}

std::vector<BackendOption> vulkan_options() {
  return {{"device", {}, "Number of the device, or a part of its name; vulkan:NAME is short for it."},
          {"validation", {"false", "true"}, "Run under the Khronos validation layer; any message is an error."},
          {"loops", {"auto", "steps", "whole"}, "Run loops step by step, or whole loops as one kernel where it can."},
          {"sizes", {"auto", "small", "large"}, "Tiles and workgroups: small ones suit CPU devices, large ones GPUs."},
          {"iterations", {}, "Most loop iterations of a shader's invocation, to test small limits."}};
}

std::unique_ptr<Backend> make_vulkan_backend(const BackendOptions& options) {
  return std::make_unique<VulkanBackend>(open_context(options));
}

}  // namespace unroll
