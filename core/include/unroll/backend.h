// SPDX-License-Identifier: Apache-2.0
// The backend interface: nine functions that work on whole plans. run.h checks all arguments, so a backend may trust
// them. See docs/adding-a-backend.md.
//
// A backend may be asynchronous. Uploads, runs and downloads take effect in the order of the calls, which come from one
// thread at a time. `run` may return before the work is complete; `download` and `wait` return when all earlier work
// is. An error of submitted work is thrown once, as an Error of its kind, by the next call of upload, download, run,
// allocate, compile or wait; work submitted after the failed run has no effect. Buffers and executables may be
// destroyed while submitted work uses them. Destructors do not throw.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// The location of a value while a plan runs.
struct Storage {
  enum class Place : std::uint8_t {
    none,      // not stored (unused output)
    input,     // bound input `index`
    output,    // bound output `index`, written in place
    constant,  // the tensor attribute of constant node `index`
    arena,     // bytes [offset, offset + bytes) of the plan's arena; blocks begin at multiples of Plan::alignment
  };
  Place place = Place::none;
  std::int32_t index = 0;
  std::size_t offset = 0;  // in bytes, for the arena and for views of any place
  Ints strides = {};       // in elements, for a view of a larger value; empty: dense
};

// Storage format of constants that are the second operand of matrix products. Results are f32, and so is all
// arithmetic, with one exception: where the processor sums products of bytes (VNNI), int8 rounds the other operand to
// 16 bits.
//   bf16  rounded to nearest, 8 bits of precision
//   int8  w[n,k] = scale[n] * q[n,k] with scale[n] = max over k of |w[n,k]| / 127: one scale per output
// Products with few weights keep f32; quantizing them saves nothing.
enum class WeightFormat : std::uint8_t { f32, bf16, int8 };

// The number formats of the f32 values of a graph, by role. Rounding is to nearest, ties to even. A backend without the
// dtype gets the same graph with the values rounded and kept in f32.
//   role                                                          f32   tf32  bf16  f16
//   operands of matrix products (weights, activations, gradients) f32   tf32  bf16  f16
//   what loops with products read and stack step by step:
//     activations, saved activations, their gradients             f32   f32   bf16  f16
//   states that a step reads as operands of products only         f32   f32   bf16  f16
//   accumulation, and all other arithmetic                        f32   f32   f32   f32
//   parameters (master weights), slots, other states, losses,
//     gradients of parameters, named outputs                      f32   f32   f32   f32
// The range of f16 is 6e-8 to 65504, so training scales the loss (LossScaleOptions).
enum class Precision : std::uint8_t { f32, tf32, bf16, f16 };

// What a pass did, or skipped and why. `unroll explain` prints it.
struct PassNote {
  std::string pass;   // one of pass_names()
  std::string where;  // the loop; empty: outside all loops
  std::string what;   // "hoisted matmul f32[32,1024]"
  std::string why;
  int count = 1;      // number of identical notes
  std::string layer;  // Origin::layer; empty: of no layer, or of several
};

// Adjacent nodes that form independent branches: no branch writes memory that another one reads or writes. Branch b is
// the nodes [bounds[b], bounds[b + 1]). A backend may run branches in parallel, each in order, or all of them in
// sequence.
struct Fork {
  std::vector<std::int32_t> bounds;
  std::size_t n_branches() const { return bounds.size() - 1; }
};

// A graph ready for execution: nodes in execution order, and a location for every value. In the plan of a scan body,
// the inputs and outputs are those of the body, bound again in each step; its arena is scratch memory of the scan node.
struct Plan {
  std::shared_ptr<const Graph> graph;
  std::vector<std::vector<Storage>> storage;    // [node][output]
  std::vector<Storage> outputs;                 // where each named output is computed; when this
                                                // is not {output, k}, the executable copies it there
  std::vector<int> donors;                      // [output] index of the input whose buffer it may overwrite, or -1
  std::size_t arena_bytes = 0;
  std::size_t alignment = 64;                   // Capabilities::alignment
  std::vector<std::shared_ptr<const Plan>> bodies;  // [node], null except for scan
  // [node], a range of the arena. A scan keeps the arena of its body and copies of its state there. A claimed node gets
  // the scratch_bytes of its claim.
  std::vector<std::size_t> scratch_offset;
  std::vector<std::size_t> scratch_bytes;
  std::vector<Fork> forks;                          // ascending; empty for a backend with one lane
  WeightFormat weights = WeightFormat::f32;
  bool one_thread = false;                          // run in the caller's thread
  std::vector<PassNote> notes;                      // for the whole plan, in pass order; empty in bodies
};

// Sizes by which passes choose between equivalent plans. Results agree within rounding errors whatever they are. The
// defaults suit a core with 32 KiB of L1 and 1 to 2 MiB of L2 cache.
struct Tuning {
  // Row groups. A group has one worker for each row at most.
  std::int64_t fewest_rows = 4;  // fewer rows stay apart, op by op
  std::int64_t summed_result_bytes = 4 << 20;  // sums over rows of a larger result that others read are its group's too
  // Loops. A value over all steps that is larger than this goes through memory and not through a cache.
  std::int64_t hoisted_reduction_bytes = 2 << 20;  // a row reduction with a larger operand stays in the loop
  std::int64_t deferred_summand_bytes = 1 << 20;   // a larger summand is reduced over the batch in each step
  bool sums_in_steps = true;  // false: it is not, for each reduction is one more dispatch of a step
  // Elementwise values that only a loop reads, slice by slice, are computed in its steps: they take no memory.
  bool operands_in_steps = false;
  // Products a^T b of one matrix a and the sums of its rows may run at once: nothing that one of them writes lies where
  // another one reads.
  bool joins_products = false;
  // Fewest rows or steps for which concatenated products (h U_f, h U_n -> h [U_f U_n]) pay for copying the weights.
  std::int64_t fewest_product_rows = 32;  // outside loops
  std::int64_t fewest_product_steps = 4;  // in loops
};

// The form in a plan of a loop over T steps whose row b runs the steps t < lengths[b] only (in reverse the last one
// first). After its steps a row keeps its states, and its rows of the outputs are zero.
//   masked    live[t,b] = t < lengths[b] is another sequence, and the step selects: all rows run all steps
//   packed    rows are sorted by length, sequences packed: step t runs the first batch_sizes[t] rows, [T*B,...] in all;
//             products outside count their rows (matmul with three operands)
//   restored  the scan takes lengths i32[B] as its last input, attribute `lengths`, and its step selects nothing: a
//             kernel may stop a row early. Rows are independent in every such scan of a plan
// A mask that resets states is a sequence of the loop, and the step selects, in each form.
enum class LengthsForm : std::uint8_t { masked, packed, restored };

struct Capabilities {
  std::string name = {};    // "cpu"
  std::string device = {};  // description of the device
  bool runs = true;         // false: a profile, which plans and compiles for a device, but allocates and runs nothing
  bool emulated = false;    // a driver runs the kernels on the host's processor, slowly: for tests
  std::vector<DType> dtypes = {};
  bool deterministic = true;  // bit-identical results for any number of threads
  // Results of magnitude below the smallest normal number of their dtype may be flushed to zero, in some or all nodes.
  bool flushes_denormals = false;
  LengthsForm lengths = LengthsForm::masked;  // of loops whose rows are independent; others are masked
  bool fuses = false;     // wants elementwise groups as `fused` nodes
  int max_fused_ops = 48;  // ops of a fused node at most: their values must fit the registers or tiles of a kernel
  bool groups_rows = false;  // wants reductions over rows, and their elementwise neighbors, as `row_group` nodes
  bool rows_in_place = false;  // a result of a row group may lie on an operand of its shape that nothing reads later
  bool one_arena = false; // executables (except one_thread ones) share one arena, sized for the largest, and take turns
  // Reads strided operands in elementwise, move and matmul nodes (matmul: strided rows only), and writes strided
  // elementwise results. Otherwise every Storage is dense.
  bool views = false;
  // Branches of a fork, or steps of a loop without states, that run at once, each in memory of its own. 1: plans have
  // no forks.
  int lanes = 1;
  int threads = 1;  // host threads that work on a run; plans do not depend on it
  std::size_t alignment = 64;            // of arena offsets, in bytes: a power of two, at least 64
  std::size_t largest_buffer_range = 0;  // bytes of the largest value that a kernel can address; 0: no limit
  std::size_t memory_bytes = 0;          // that a run may allocate on the device; 0: it uses the memory of the host
  std::vector<WeightFormat> weights = {WeightFormat::f32};  // supported formats of constants
  Tuning tuning = {};
};

// The answer of Backend::claim: whether the backend runs a composite or gradient node as one kernel.
struct Claim {
  bool yes = false;
  // For a gradient: number of opaque bytes that the forward node must save. The forward node then gets the attribute
  // saved_bytes and one more output, b8 [saved_bytes]. The gradient gets the same attribute. After its cotangents it
  // reads all outputs of the forward node, the saved bytes last.
  std::size_t saved_bytes = 0;
  std::size_t saving_scratch_bytes = 0;  // for a gradient: scratch bytes of its forward node, replacing that node's own
  std::size_t scratch_bytes = 0;         // arena bytes needed while the node runs, at plan.scratch_offset
  // In which the kernel stores operands of products and what it saves. Other than f32, it is the attribute `format`.
  DType format = DType::f32;
  bool tf32 = false;  // in f32, whose products round their operands to tf32: the attribute `tf32`
  std::string reason = {};               // if not claimed: why
};

class UNROLL_API Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::size_t bytes() const = 0;
};

// Buffers for the inputs and outputs of plan.graph, in order. An output may share its donor's buffer.
struct Bindings {
  std::vector<Buffer*> inputs;
  std::vector<Buffer*> outputs;
};

// Statistics of one call of an executable, or of one loop. The lines of a loop body follow the loop's line, one deeper;
// their `node` refers to plan.bodies[node of the loop]. Parallel branches are listed under a line without a node;
// their `node` refers to the same plan.
struct ReportLine {
  std::string step;            // node and op
  std::string implementation;  // kernel chosen
  std::size_t bytes = 0;       // bytes of its results
  double milliseconds = 0;     // first thread, all runs so far; loop calls are extrapolated from a sample
  double predicted_ms = 0;     // per run, from the backend's machine model; 0: no prediction
  int depth = 0;               // number of enclosing loops
  std::int32_t node = -1;      // -1: not a single node
};

class UNROLL_API Executable {
 public:
  virtual ~Executable() = default;
  virtual void run(const Bindings& bindings) = 0;  // may return before the work is complete
  // These two wait for the runs of this executable, and leave their errors to the next call.
  virtual std::vector<ReportLine> report() const = 0;
  // Bytes held besides the plan's arena: constants, weights packed for the kernels, scratch.
  virtual std::size_t workspace_bytes() const { return 0; }
};

class Communicator;  // unroll/communicator.h

class UNROLL_API Backend {
 public:
  virtual ~Backend() = default;
  virtual const Capabilities& describe() const = 0;
  // Called once per composite and gradient node. A (forward, gradient) pair is used only when both nodes are claimed.
  virtual Claim claim(const Graph& graph, const Node& node) const = 0;
  // The same when the plan has another precision than f32: a backend with kernels for it answers with their format. The
  // types of the node are f32 all the same, and the kernel converts. By default all is refused.
  virtual Claim claim_in(const Graph& graph, const Node& node, Precision precision) const;
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) = 0;    // copies `from`
  virtual void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) = 0;  // waits for the bytes
  // A buffer that lies in the caller's memory, so that nothing is copied; null where the backend has memory of its own.
  // The caller keeps the memory until all work with the buffer is complete.
  virtual std::unique_ptr<Buffer> borrow(std::span<std::byte>) { return nullptr; }
  // The bytes of a buffer where they lie, valid until the next upload or run that writes it, so that nothing is copied;
  // empty where the backend has memory of its own.
  virtual std::span<std::byte> host_bytes(Buffer&) { return {}; }
  virtual std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) = 0;
  virtual void wait() {}  // until all submitted work is complete
  virtual Communicator* communicator() const { return nullptr; }  // BackendOptions::communicator, where it is used
};

class Trace;  // unroll/plan/trace.h

struct BackendOptions {
  int threads = 0;  // of the host; 0: all available processors, but one for plans that are faster on one
  int device = 0;   // index among the devices of the backend; throws Error(device) when there is no such device
  // Folder in which a backend that compiles kernels keeps them between processes; empty: nowhere. Backends without
  // kernels to compile ignore it.
  std::string cache = {};
  // Options of one backend by name, see backend_options(). Throws Error(usage), which lists the known names or values.
  std::map<std::string, std::string> own = {};
  Trace* trace = nullptr;  // records what each thread does, if the backend supports it; must outlive the backend
  // This rank of several that train one model (unroll/communicator.h); must outlive the backend. Null: alone. `cpu`,
  // `onednn` and `cuda` work with several ranks; the others throw Error(unsupported) when an update is planned.
  Communicator* communicator = nullptr;
};
// An entry of BackendOptions::own that a backend knows.
struct BackendOption {
  std::string name;                 // "schedule"
  std::vector<std::string> values;  // allowed ones; empty: any
  std::string what;                 // its meaning in one sentence
};
// Empty for a backend without options of its own. Throws Error(device) as make_backend does.
UNROLL_API std::vector<BackendOption> backend_options(const std::string& name);

struct BackendStatus {
  std::string name;
  bool available;
  std::string detail;  // description of the device, or why it is unavailable
  bool emulated = false;  // Capabilities::emulated
};
UNROLL_API std::vector<BackendStatus> list_backends();
// Devices that plans can be made for without having them: "cuda:sm_90". make_backend takes these names too. Such a
// backend describes, claims, plans and compiles to a report; allocate and run throw Error(device).
UNROLL_API std::vector<BackendStatus> list_profiles();
// Throws Error(device), which lists the known backends or profiles.
UNROLL_API std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options = {});

}  // namespace unroll
