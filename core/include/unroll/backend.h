// SPDX-License-Identifier: Apache-2.0
// What a backend is: nine functions over whole plans. Arguments are checked once, in the wrapper of run.h,
// so a backend may trust what it is given. See docs/adding-a-backend.md.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// Where a value lives while a plan runs.
struct Storage {
  enum class Place : std::uint8_t {
    none,      // never materialised (unused output)
    input,     // bound input `index`
    output,    // bound output `index`: written in place
    constant,  // the tensor attribute of constant node `index`
    arena,     // bytes [offset, offset + bytes) of the plan's arena, 64-byte aligned
  };
  Place place = Place::none;
  std::int32_t index = 0;
  std::size_t offset = 0;  // bytes; for arena and for views of any place
  Ints strides = {};       // in elements, when the value is a view of a larger one; empty: dense
};

// How a backend keeps constants that products have as their second operand. Results stay f32, and so does arithmetic
// but where the processor adds up products of bytes (VNNI): there int8 rounds the other operand to 16 bits.
//   bf16  rounded to nearest, 8 bits of precision
//   int8  w[n,k] = scale[n] * q[n,k] with scale[n] = max over k of |w[n,k]| / 127, one scale for each output
// Products of few weights keep f32: they cost nothing.
enum class WeightFormat : std::uint8_t { f32, bf16, int8 };

// What a pass did, or left and why; for people who ask why a plan is as it is.
struct PassNote {
  std::string pass;   // one of pass_names()
  std::string where;  // the loop, in words; empty: outside of all loops
  std::string what;   // "hoisted matmul f32[32,1024]"
  std::string why;
  int count = 1;      // equal notes are one
};

// Neighbouring nodes in branches that do not depend on each other and share no memory that one of them writes: branch b
// is nodes [bounds[b], bounds[b + 1]). A backend may run the branches at once, each in order; one after the other is
// always right.
struct Fork {
  std::vector<std::int32_t> bounds;
  std::size_t n_branches() const { return bounds.size() - 1; }
};

// A graph that is ready to run: nodes in execution order, every value placed. For a body plan (of a scan) inputs are
// the body's inputs and outputs its outputs, bound anew in each step, and the arena is scratch of the outer node.
struct Plan {
  std::shared_ptr<const Graph> graph;
  std::vector<std::vector<Storage>> storage;    // [node][output]
  std::vector<Storage> outputs;                 // where each named output is computed; when it is not
                                                // {output, k} itself the executable copies it there at the end
  std::vector<int> donors;                      // [output] index of the input whose buffer it may overwrite, or -1
  std::size_t arena_bytes = 0;
  std::vector<std::shared_ptr<const Plan>> bodies;  // [node], null but for scan
  std::vector<std::size_t> scratch_offset;          // [node], arena bytes: of a scan for the body's arena and its state
  std::vector<std::size_t> scratch_bytes;           // copies, of a claimed node what its claim asked for
  std::vector<Fork> forks;                          // ascending; none for a backend with one thread
  WeightFormat weights = WeightFormat::f32;
  bool one_thread = false;                          // a run stays in the thread of its caller
  std::vector<PassNote> notes;                      // of the whole plan, in order of the passes; empty in bodies
};

struct Capabilities {
  std::string name = {};    // "cpu"
  std::string device = {};  // in words
  std::vector<DType> dtypes = {};
  bool deterministic = true;  // the same bits for any number of threads
  bool masks = false;     // runs scans with lengths and reset; otherwise they are lowered into the body
  bool packs = false;     // runs packed scans and matmul with a count of rows; otherwise scans stay masked
  bool fuses = false;     // wants elementwise groups as fused nodes
  bool one_arena = false; // executables that are not one_thread take turns in one arena, as large as the largest needs
  bool views = false;  // reads strided operands in elementwise, move and (rows only) matmul nodes, and writes strided
                       // elementwise results; otherwise every Storage is dense
  int threads = 1;
  std::vector<WeightFormat> weights = {WeightFormat::f32};  // formats it can keep constants in
  std::vector<std::string> schedules = {};  // what BackendOptions::schedule may ask for
};

struct Claim {
  bool yes = false;
  // Of a gradient: opaque bytes its forward node must save. A forward node with such a gradient gets the attribute
  // saved_bytes and one more output, b8 [saved_bytes]; the gradient gets the attribute and, after the cotangents, all
  // outputs of the forward node, the saved bytes last.
  std::size_t saved_bytes = 0;
  std::size_t saving_scratch_bytes = 0;  // of a gradient: scratch of its forward node, instead of that one's own
  std::size_t scratch_bytes = 0;         // arena bytes while the node runs, at plan.scratch_offset
  std::string reason = {};               // when no: why, in words
};

class UNROLL_API Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::size_t bytes() const = 0;
};

// Buffers for plan.graph inputs and outputs, in order. An output may share its donor's buffer.
struct Bindings {
  std::vector<Buffer*> inputs;
  std::vector<Buffer*> outputs;
};

// A call of an executable, or of a loop in it. Lines that are one deeper follow the line of their loop; their node is
// one of plan.bodies[node] of it, or, under a line without a node (branches side by side), of the same plan.
struct ReportLine {
  std::string step;            // node and op
  std::string implementation;  // kernel chosen
  std::size_t bytes = 0;       // of its results
  double milliseconds = 0;     // of the first thread, in all runs so far; of a loop's calls some are timed for all
  double predicted_ms = 0;     // of one run, by the backend's model of the machine; 0: it has none
  int depth = 0;               // loops around it
  std::int32_t node = -1;      // -1: no single one
};

class UNROLL_API Executable {
 public:
  virtual ~Executable() = default;
  virtual void run(const Bindings& bindings) = 0;  // may return before the work is done
  virtual std::vector<ReportLine> report() const = 0;
  // Bytes that it holds besides the plan's arena: constants, weights as its kernels want them, scratch.
  virtual std::size_t workspace_bytes() const { return 0; }
};

class UNROLL_API Backend {
 public:
  virtual ~Backend() = default;
  virtual const Capabilities& describe() const = 0;
  // Asked once per composite and gradient node; a pair (forward, gradient) is taken only when both are claimed.
  virtual Claim claim(const Graph& graph, const Node& node) const = 0;
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) = 0;
  virtual std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) = 0;
  virtual void wait() {}
};

class Trace;  // unroll/trace.h

struct BackendOptions {
  int threads = 0;  // 0: as many as the process may run on, and one for a plan that is sooner done alone
  // How the steps of scans are shared out among threads, where a scan allows it: one of Capabilities::schedules. Empty:
  // timings of the first runs choose. Results are the same bits. Throws Error(usage) when it is unknown.
  std::string schedule = {};
  // Measures the machine for about a second, so that reports say what a call was predicted to take.
  bool predict = false;
  Trace* trace = nullptr;  // gets what each thread does, where the backend can tell; must outlive the backend
};
struct BackendStatus {
  std::string name;
  bool available;
  std::string detail;  // device in words, or why it is absent
};
UNROLL_API std::vector<BackendStatus> list_backends();
// Throws Error(device) naming the known backends.
UNROLL_API std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options = {});

}  // namespace unroll
