// SPDX-License-Identifier: Apache-2.0
// The backend interface: nine functions that work on whole plans. run.h checks all arguments, so a backend may trust
// them. See docs/adding-a-backend.md.
//
// A backend may be asynchronous. Uploads, runs and downloads take effect in the order of the calls, which come from one
// thread at a time. `run` may return before the work is complete; `download` and `wait` return when all earlier work is
// complete. The next call of upload, download, run, allocate, compile or wait throws an error of submitted work once,
// as an Error of its kind. Work submitted after the failed run has no effect. Buffers and executables may be destroyed
// while submitted work uses them. Destructors do not throw.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/passes/capabilities.h"
#include "unroll/passes/plan.h"

namespace unroll {

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
  // Both functions wait for the runs of this executable, and leave their errors to the next call.
  virtual std::vector<ReportLine> report() const = 0;
  // Bytes held besides the plan's arena: constants, weights packed for the kernels, scratch.
  virtual std::size_t workspace_bytes() const { return 0; }
};

class Communicator;  // unroll/parallel/communicator.h

class UNROLL_API Backend {
 public:
  virtual ~Backend() = default;
  virtual const Capabilities& describe() const = 0;
  // Called once per composite and gradient node. A (forward, gradient) pair is used only when both nodes are claimed.
  virtual Claim claim(const Graph& graph, const Node& node) const = 0;
  // The same for plans with a precision other than f32. A backend with kernels for it returns their format. The types
  // of the node remain f32, and the kernel converts. The default refuses all nodes.
  virtual Claim claim_in(const Graph& graph, const Node& node, Precision precision) const;
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) = 0;    // copies `from`
  virtual void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) = 0;  // waits for the bytes
  // Wraps the caller's memory in a buffer without a copy; null if the backend has separate memory. The caller keeps the
  // memory until all work with the buffer is complete.
  virtual std::unique_ptr<Buffer> borrow(std::span<std::byte>) { return nullptr; }
  // Returns the bytes of a buffer without a copy, valid until the next upload or run that writes it. Empty if the
  // backend has separate memory.
  virtual std::span<std::byte> host_bytes(Buffer&) { return {}; }
  virtual std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) = 0;
  virtual void wait() {}  // returns when all submitted work is complete
  virtual Communicator* communicator() const { return nullptr; }  // BackendOptions::communicator, if used

 private:
  friend class BackendHandle;
  std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
};

// The backend of a Program, Model, Stream, Trainer or predictor. From a pointer it shares ownership:
// Program p(graph, make_backend("cpu")). From a reference it does not: the backend must outlive its users, and after
// its destruction get() throws Error(usage). Throws Error(usage) on a null pointer.
class UNROLL_API BackendHandle {
 public:
  BackendHandle(Backend& backend) : backend_(&backend), lifetime_(backend.lifetime_) {}
  BackendHandle(std::shared_ptr<Backend> backend);
  BackendHandle(std::unique_ptr<Backend> backend) : BackendHandle(std::shared_ptr<Backend>(std::move(backend))) {}
  Backend& get(std::string_view who) const;  // `who` names the user in the message
  bool is_over() const { return lifetime_.expired(); }

 private:
  std::shared_ptr<Backend> owner_;  // null: not owned
  Backend* backend_;
  std::weak_ptr<const void> lifetime_;
};

class Trace;  // unroll/support/trace.h

struct BackendOptions {
  int threads = 0;  // of the host; 0: all available processors, but one thread for plans that run faster on one
  int device = 0;   // index among the devices of the backend; throws Error(device) when there is no such device
  // Folder in which a backend stores compiled kernels and the fastest measured algorithms across processes. Empty: no
  // cache. Other backends ignore it.
  std::string cache = {};
  // Backend-specific options by name, see backend_options(). Throws Error(usage) with the known names or values.
  std::map<std::string, std::string> specific = {};
  Trace* trace = nullptr;  // records what each thread does, if the backend supports it; must outlive the backend
  // This rank of several that train one model (unroll/parallel/communicator.h); must outlive the backend. Null: no
  // other ranks. `cpu`, `onednn` and `cuda` support several ranks; others throw Error(unsupported) when planning an
  // update.
  Communicator* communicator = nullptr;
};
// A backend-specific option, an entry of BackendOptions::specific.
struct BackendOption {
  std::string name;                 // "schedule"
  std::vector<std::string> values;  // allowed values; empty: any
  std::string what;                 // its meaning in one sentence
};
// Returns the backend-specific options, if any. Throws Error(device) as make_backend does.
UNROLL_API std::vector<BackendOption> backend_options(const std::string& name);

struct BackendStatus {
  std::string name;
  bool available;
  std::string detail;  // description of the device, or why it is unavailable
  bool emulated = false;  // Capabilities::emulated
};
UNROLL_API std::vector<BackendStatus> list_backends();
// Lists devices that plans can be made for without the hardware: "cuda:sm_90". make_backend takes these names too. Such
// a backend describes, claims, plans and compiles to a report; allocate and run throw Error(device).
UNROLL_API std::vector<BackendStatus> list_profiles();
// Creates a backend. Throws Error(device), which lists the known backends or profiles.
UNROLL_API std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options = {});

}  // namespace unroll
