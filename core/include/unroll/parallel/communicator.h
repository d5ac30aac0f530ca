// SPDX-License-Identifier: Apache-2.0
// Ranks that train one model together: threads of one process, or processes on one or several machines. A rank is a
// number in [0, size). Every rank runs the same program, and calls the same functions in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/error.h"
#include "unroll/support/types.h"

namespace unroll {

class UNROLL_API Communicator {
 public:
  struct Outgoing {
    int to;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int from;
    std::span<std::byte> bytes;  // the size that the sender sends
  };

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sends and receives; returns when all messages have arrived. Messages from one rank to another arrive in the order
  // of sending. Throws Error(peer), which names the rank, when a rank has failed or does not answer within the time
  // limit. No exchange is possible after that.
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  // Tells all other ranks that this one has failed: their exchange() throws Error(peer) with this text. Does not throw.
  virtual void fail(const char* text) noexcept = 0;
  // Call these while a device waits for messages outside exchange(). look_for_failures() throws Error(peer) if another
  // rank has failed or this process was asked to stop. name_lost() throws Error(peer), which names the ranks that do
  // not answer.
  virtual void look_for_failures() = 0;
  [[noreturn]] virtual void name_lost() = 0;
  virtual double time_limit() const = 0;  // seconds without an answer
  // Totals over all exchanges so far.
  struct Exchanged {
    double seconds = 0;          // including the time spent waiting for late ranks
    double waiting_seconds = 0;  // part of `seconds`; 0 without measure_waiting()
    double hidden_seconds = 0;   // part of `seconds` that overlapped with computation
    std::uint64_t sent_bytes = 0;
  };
  Exchanged exchanged() const;
  // Measures the waiting for late ranks separately: sums then begin when all ranks are ready. Costs one-byte messages.
  // All ranks must call it.
  void measure_waiting() { measures_waiting_ = true; }
  bool measures_waiting() const { return measures_waiting_; }
  void wait_for_all();
  void note_hidden(double seconds);

 protected:
  virtual void transfer(std::span<const Outgoing> out, std::span<const Incoming> in) = 0;  // exchange() calls it

 private:
  mutable std::mutex mutex_;  // guards the counts: another thread may run the exchanges
  Exchanged exchanged_;
  bool measures_waiting_ = false;
};

// Sums the gradients of an update's `micro_batches` over all ranks, `elements` of f32 or f64 each. The sum
// follows a binary tree over the micro-batch indices, so it has the same bits for any number of ranks. Rank r of `size`
// holds micro-batches [ceil(n r / size), ceil(n (r + 1) / size)) of n. A block has 2^k micro-batches and begins at a
// multiple of 2^k. `blocks` are the sums of the fewest blocks that cover all but this rank's last micro-batch, then
// that one. Every rank receives `result`. Each rank adds one slice, then all gather the slices: 2 log2(size) messages
// per rank for a power of two. A rank whose micro-batches form one block sends 2 (size - 1) / size * elements.
UNROLL_API void sum_micro_batches(Communicator& ranks, std::int64_t micro_batches, DType dtype, std::int64_t elements,
                              std::span<const std::byte* const> blocks, std::byte* result);

// Creates one communicator for each of `size` threads of this process. exchange() throws Error(peer) after `seconds`
// without an answer.
UNROLL_API std::vector<std::unique_ptr<Communicator>> thread_ranks(int size, double seconds = 60);

struct MpiOptions {
  double seconds = 300;  // exchange() throws Error(peer) after this time without an answer
  // Returns true if this process was asked to stop. A launcher asks all processes after one has died, so exchange()
  // then waits only 0.3 s longer.
  std::function<bool()> stops = {};
  // Called in another thread when the start or the end of MPI does not return in time, because a process has died. It
  // should end this process, as MPI cannot be stopped. Empty: wait.
  std::function<void(const Error&)> stuck = {};
};
// True if mpirun or a similar launcher started this process with others (not PMI_SIZE=1), according to the environment.
UNROLL_API bool was_launched_by_mpi();
// Connects the processes that were launched together. Loads the library at run time: Open MPI 4 (libmpi.so.40), MPICH 4
// (libmpich.so.12, libmpi.so.12), or the library that the variable UNROLL_MPI_LIBRARY names. Throws Error(device) when
// it cannot be loaded or is not supported. Create at most one; its destruction ends the use of MPI in this process.
UNROLL_API std::unique_ptr<Communicator> mpi_ranks(const MpiOptions& options = {});
// Returns the version texts of the MPI libraries that can be loaded.
UNROLL_API std::vector<std::string> mpi_libraries();

}  // namespace unroll
