// SPDX-License-Identifier: Apache-2.0
// The cuda backend: generated kernels on NVIDIA devices, and NVIDIA's libraries where they are installed. It claims
// recurrent layers for cuDNN; other composites run as their bodies.
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <typeinfo>

#include "backends/common/specific_options.h"
#include "backends/cuda/driver/nccl.h"
#include "backends/cuda/program/executable.h"
#include "backends/registry.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using cuda::Context;

struct FormWords {
  std::string_view option;
  const char* described;
};
constexpr FormWords k_form_words[] = {{"steps", ""}, {"whole", ", whole loops"}, {"resident", ", resident loops"}};

cuda::LoopOptions loop_options(std::string_view form, const cuda::Limits& limits) {
  cuda::LoopOptions loops{
      .arch = limits.arch, .multiprocessors = limits.multiprocessors, .shared_bytes = limits.shared_bytes};
  for (std::size_t k = 0; k < std::size(k_form_words); ++k)
    if (form.substr(0, form.find('-')) == k_form_words[k].option) loops.form = static_cast<cuda::LoopForm>(k);
  loops.shares_units = form == "resident-units";
  return loops;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<Context> context, Communicator* communicator, const std::string& libraries)
      : context_(std::move(context)), communicator_(communicator),
        capabilities_(cuda::capabilities_of(context_->device.limits())) {
    if (context_->masks_lengths) capabilities_.lengths = LengthsForm::masked;
    capabilities_.device += ", " + libraries + k_form_words[static_cast<int>(context_->loops.form)].described;
  }
  ~CudaBackend() override {
    try {
      wait();
    } catch (const Error&) {  // nobody is left who could be told
    }
    context_->end_ranks();
  }

  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph& graph, const Node& node) const override { return claim_in(graph, node, Precision::f32); }
  Claim claim_in(const Graph& graph, const Node& node, Precision precision) const override {
    if (context_->ranks && node.op == Op::all_reduce) return {.yes = true};
    if (!context_->rnn) return {.reason = "layers run as their bodies: " + context_->why_no_rnn};
    context_->device.enter();
    return claim_recurrent(*context_->rnn, graph, node, precision);
  }
  Communicator* communicator() const override { return communicator_; }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    context_->device.enter();
    return std::make_unique<cuda::DeviceBuffer>(context_, bytes);
  }
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override {
    context_->device.enter();
    cuda::as_device(buffer).mark_written();
    context_->device.upload(cuda::as_device(buffer).at() + offset, from);
  }
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override {
    context_->device.enter();
    context_->device.download(to, cuda::as_device(buffer).at() + offset);
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    context_->device.enter();
    return std::make_unique<cuda::CudaExecutable>(context_, std::move(plan));
  }
  void wait() override {
    context_->device.enter();
    context_->device.wait();
  }

 private:
  std::shared_ptr<Context> context_;
  Communicator* communicator_;  // null: one rank
  Capabilities capabilities_;
};

int device_index(const BackendOptions& options) {
  const std::string_view text = common::specific_option(options, "device");
  if (text.empty()) return options.device;
  int index = 0;
  const auto end = text.data() + text.size();
  if (std::from_chars(text.data(), end, index).ptr != end || index < 0)
    throw Error(ErrorKind::usage, "cuda", "option 'device' must be the number of a device; got '" + std::string(text) +
                                              "'",
                "Write cuda:0");
  return index;
}

// "cuBLASLt 13.1", or why not.
std::string open_products(Context& context, std::string_view option) {
  if (option == "own") return "own products";
  try {
    context.blas = std::make_unique<cuda::Blas>();
    context.blas->time_proposals(context.device, context.autotuner);
    return "cuBLASLt " + context.blas->version();
  } catch (const Error&) {
    if (option == "cublaslt") throw;
    return "no cuBLASLt";
  }
}

// `own_kernels`: the caller has asked for kernels of the backend elsewhere.
std::string open_layers(Context& context, std::string_view option, bool own_kernels, std::string_view algorithm) {
  if (option == "own" || (option != "cudnn" && own_kernels)) {
    context.why_no_rnn = option == "own" ? "option rnn=own" : "another option asks for own kernels";
    return "own layers";
  }
  try {
    const auto dnn = std::make_shared<const cuda::Dnn>();
    context.rnn = std::make_unique<cuda::RnnLibrary>(cuda::RnnLibrary{
        dnn, &context.device, &context.autotuner, cuda::algorithm_of_option(algorithm)});
    return "cuDNN " + dnn->version();
  } catch (const Error& error) {
    if (option == "cudnn") throw;
    context.why_no_rnn = error.what();
    return "no cuDNN";
  }
}

}  // namespace

Capabilities cuda::capabilities_of(const Limits& l) {
  Capabilities c;
  c.name = "cuda";
  c.device = l.name + ", sm_" + std::to_string(l.arch) + ", driver of CUDA " + version_text(l.driver) + ", NVRTC " +
             version_text(l.compiler) + ": " + std::to_string(l.memory >> 20) + " MiB, " +
             std::to_string(l.multiprocessors) + " multiprocessors";
  c.dtypes = {DType::f32, DType::f64, DType::i32, DType::b8, DType::bf16, DType::f16};
  c.fuses = true;
  c.max_fused_ops = 200;  // NVRTC compiles 200 operations in a line within 0.1 s, and 8,000 in 4 s
  c.groups_rows = true;
  c.lengths = LengthsForm::packed;
  c.tuning.fewest_rows = 1;  // the threads of a block share a row
  c.views = true;
  c.alignment = 256;
  c.memory_bytes = l.memory;
  return c;
}

const cuda::DeviceBuffer& cuda::as_device(const Buffer& buffer) {
  if (typeid(buffer) == typeid(DeviceBuffer)) return static_cast<const DeviceBuffer&>(buffer);
  throw Error(ErrorKind::usage, "Buffer", "the buffer was allocated by another backend",
              "allocate it with the backend that compiled the plan");
}

std::vector<LibraryStatus> cuda_libraries() {
  using namespace cuda;
  const struct {
    const char *name, *use;
    std::string (*version)();  // throws Error(device)
  } rows[] = {
      {"driver", "needed",
       [] {
         Functions f;
         open_driver(f);
         int version = 0;
         check(f, f.DriverGetVersion(&version), "cuDriverGetVersion");
         if (version < k_oldest_driver) refuse_driver(version);
         return "CUDA " + version_text(version);
       }},
      {"NVRTC", "needed",
       [] {
         Functions f;
         open_compiler(f);
         int major = 0, minor = 0;
         check(f, f.compiler.Version(&major, &minor), "nvrtcVersion");
         return std::to_string(major) + "." + std::to_string(minor);
       }},
      {"cuBLASLt", "matrix products; without it own kernels", [] { return blas_version(open_blas()); }},
      {"cuDNN", "rnn, gru and lstm; without it loops of own kernels", [] { return dnn_version(open_dnn()); }},
      {"NCCL", "training by several ranks",
       [] {
         int version = 0;
         open_nccl().GetVersion(&version);
         return nccl_version(version);
       }},
  };
  std::vector<LibraryStatus> statuses;
  for (const auto& row : rows) {
    LibraryStatus status{"cuda", row.name, row.use, true, {}};
    try {
      status.detail = row.version();
    } catch (const Error& error) {
      status.available = false;
      status.detail = error.what();
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

std::vector<BackendOption> cuda_options() {
  std::vector<std::string> algorithms{"auto"};
  algorithms.insert(algorithms.end(), std::begin(cuda::k_algorithm_options), std::end(cuda::k_algorithm_options));
  return {{"device", {}, "Number of the device; cuda:1 is short for it."},
          {"graphs", {"true", "false"}, "Capture runs as CUDA graphs from the second run on; true by default."},
          {"loops", {"steps", "whole", "resident", "resident-units"},
           "Loops step by step (the default); as one kernel where its blocks can stay for all steps; or as one whose "
           "blocks also keep weights in shared memory or registers, where they fit. resident-units shares units among "
           "blocks also in small models."},
          {"exchange", {"shared", "global"},
           "How the blocks of a resident loop that form a cluster (compute capability 9.0) pass states to each other: "
           "through their shared memory (the default) or through memory of the device."},
          {"wgmma", {"false", "true"},
           "Compute products in bf16 and f16 of such loops by the tensor cores of warpgroups (compute capability 9.0 "
           "only), where a block has a multiple of 64 columns; false by default, since it is not measured."},
          {"lengths", {"packed", "masked"},
           "Steps of loops run on the rows that have not ended (the default), or on all rows with masks."},
          {"products", {"auto", "cublaslt", "own"},
           "Matrix products by cuBLASLt or by own kernels; auto (the default): by cuBLASLt where it is installed."},
          {"rnn", {"auto", "cudnn", "own"},
           "Recurrent layers by cuDNN or by own kernels; auto (the default): by cuDNN where it is installed, unless "
           "loops is whole or resident, or products=own."},
          {"rnn_algorithm", algorithms,
           "cuDNN's algorithm for all layers that it can run; auto (the default): the fastest."},
          {"measure", {"true", "false"},
           "Measure the algorithms of cuDNN and cuBLASLt once on a device and keep the fastest in the cache folder "
           "(the default); false: choose them by a rule."}};
}

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  const bool graphs = common::specific_option(options, "graphs") != "false";
  const bool fixed = options.device > 0 || !common::specific_option(options, "device").empty();
  Communicator* const ranks = options.communicator && options.communicator->size() > 1 ? options.communicator : nullptr;
  const bool measures = common::specific_option(options, "measure") != "false";
  const auto context = std::make_shared<Context>(device_index(options), fixed, options.cache, graphs, measures, ranks);
  context->loops = loop_options(common::specific_option(options, "loops"), context->device.limits());
  context->loops.passes_shared = common::specific_option(options, "exchange") != "global";
  context->loops.uses_wgmma = common::specific_option(options, "wgmma") == "true";
  context->masks_lengths = common::specific_option(options, "lengths") == "masked";
  context->device.enter();
  const std::string_view products = common::specific_option(options, "products");
  const std::string libraries =
      open_products(*context, products) + ", " +
      open_layers(*context, common::specific_option(options, "rnn"),
                  context->loops.form != cuda::LoopForm::steps || products == "own",
                  common::specific_option(options, "rnn_algorithm"));
  return std::make_unique<CudaBackend>(context, ranks, libraries);
}

}  // namespace unroll
