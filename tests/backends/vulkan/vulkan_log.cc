// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/vulkan/vulkan_log.h"

#include <cstdint>
#include <vector>

#include "unroll/passes/run.h"

namespace unroll::testing {

using namespace vulkan;

namespace {

// Handles of shaders that nobody compiled.
template <class Handle>
Handle made_up() {
  static std::uintptr_t count = 0;
  return reinterpret_cast<Handle>(++count);
}

VkResult make_module(VkDevice, const VkShaderModuleCreateInfo*, const VkAllocationCallbacks*, VkShaderModule* module) {
  *module = made_up<VkShaderModule>();
  return VK_SUCCESS;
}
void destroy_module(VkDevice, VkShaderModule, const VkAllocationCallbacks*) {}
VkResult make_pipelines(VkDevice, VkPipelineCache, std::uint32_t n, const VkComputePipelineCreateInfo*,
                        const VkAllocationCallbacks*, VkPipeline* pipelines) {
  for (std::uint32_t k = 0; k < n; ++k) pipelines[k] = made_up<VkPipeline>();
  return VK_SUCCESS;
}
void destroy_pipeline(VkDevice, VkPipeline, const VkAllocationCallbacks*) {}
void bind_pipeline(VkCommandBuffer, VkPipelineBindPoint, VkPipeline) {}
void dispatch(VkCommandBuffer, std::uint32_t, std::uint32_t, std::uint32_t) {}

bool& is_gpu() {
  static bool set = false;
  return set;
}
PFN_vkGetPhysicalDeviceProperties2 real_properties = nullptr;
void properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* all) {
  real_properties(device, all);
  for (auto* next = static_cast<VkBaseOutStructure*>(all->pNext); next; next = next->pNext)
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES && is_gpu())
      reinterpret_cast<VkPhysicalDeviceVulkan12Properties*>(next)->driverID = VK_DRIVER_ID_MESA_RADV;
}

void hook(Functions& f) {
  if (f.GetPhysicalDeviceProperties2 && f.GetPhysicalDeviceProperties2 != properties) {
    real_properties = f.GetPhysicalDeviceProperties2;
    f.GetPhysicalDeviceProperties2 = properties;
  }
  if (!f.CreateComputePipelines) return;
  f.CreateShaderModule = make_module;
  f.DestroyShaderModule = destroy_module;
  f.CreateComputePipelines = make_pipelines;
  f.DestroyPipeline = destroy_pipeline;
  f.CmdBindPipeline = bind_pipeline;
  f.CmdDispatch = dispatch;
}

}  // namespace

Logger::Logger(bool as_gpu) {
  is_gpu() = as_gpu;
  set_tamper(hook);
  try {
    backend_ = make_backend("vulkan");
    context_ = std::make_unique<Context>(Choice{}, false, 0);
  } catch (...) {
    set_tamper(nullptr);
    throw;
  }
}
Logger::~Logger() { set_tamper(nullptr); }

Logged Logger::log(const Graph& graph) {
  Logged made;
  made.plan = plan(graph, *backend_);
  made.program = compile_program(*context_, made.plan);
  std::vector<Range> ranges;
  const auto allocate = [&](std::size_t bytes) {
    ranges.push_back(context_->memory.allocate(bytes, Use::device));
    return ranges.back();
  };
  Held held{};
  held.arena = allocate(made.plan->arena_bytes);
  held.constants = allocate(made.program.constants.size());
  held.params = allocate(made.program.params.size() * sizeof(std::uint32_t));
  held.workspace = allocate(made.program.workspace_bytes);
  const Graph& planned = *made.plan->graph;
  std::size_t copied = 0;
  for (const NamedValue& output : planned.outputs()) copied += (planned.type(output.value).bytes() + 3) / 4 * 4;
  held.copies = allocate(copied);
  const auto place = [](const Range& range) { return Place{range.block, range.offset, range.bytes, range.offset}; };
  Frame frame;
  for (const NamedValue& input : planned.inputs())
    frame.inputs.push_back(place(allocate(planned.type(input.value).bytes())));
  for (std::size_t k = 0; k < planned.outputs().size(); ++k) {
    const int donor = k < made.plan->donors.size() ? made.plan->donors[k] : -1;
    frame.outputs.push_back(donor >= 0 ? frame.inputs[static_cast<std::size_t>(donor)]
                                       : place(allocate(planned.type(planned.outputs()[k].value).bytes())));
  }
  frame.arena = place(held.arena);
  // What uploads write before a run.
  Command uploads{.unit = k_uploads};
  for (const Place& input : frame.inputs)
    uploads.touches.push_back({input.memory, input.begin, input.begin + input.bytes, true});
  uploads.touches.push_back(
      {held.constants.block, held.constants.offset, held.constants.offset + held.constants.bytes, true});
  made.commands.push_back(std::move(uploads));
  {
    Recording recording(*context_);
    Recorder(*context_, made.program, held, recording).record(frame, false, &made.commands);
  }
  for (const Range& range : ranges) context_->memory.release(range);
  return made;
}

}  // namespace unroll::testing
