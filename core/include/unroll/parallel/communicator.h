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
    std::span<std::byte> bytes;  // as many as that rank sends
  };

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sends and receives, and returns when all of it is done. Messages from one rank to another arrive in the order in
  // which they were sent. Throws Error(peer), which names the rank, where a rank has failed or has not answered
  // within the time limit; nothing can be exchanged after that.
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  // Tells all other ranks that this one ends with an error: their exchange() throws Error(peer) with this text. Does
  // not throw.
  virtual void fail(const char* text) noexcept = 0;
  // For a rank that waits for others in another way than by exchange(), such as a device that gets messages of theirs:
  // look_for_failures() throws Error(peer) where a rank has told that it ends, or this process is asked to end;
  // name_lost() throws Error(peer) that names ranks which do not answer.
  virtual void look_for_failures() = 0;
  [[noreturn]] virtual void name_lost() = 0;
  virtual double time_limit() const = 0;  // seconds without an answer
  // Of all exchanges so far.
  struct Exchanged {
    double seconds = 0;          // with waiting for ranks that are late
    double waiting_seconds = 0;  // of these, where measure_waiting() was called
    double hidden_seconds = 0;   // of these, while this rank computed
    std::uint64_t sent_bytes = 0;
  };
  Exchanged exchanged() const;
  // From now on sums begin when all ranks are there, so that waiting for late ones is known apart. It costs messages of
  // a byte. All ranks call it.
  void measure_waiting() { measures_waiting_ = true; }
  bool measures_waiting() const { return measures_waiting_; }
  void wait_for_all();
  void note_hidden(double seconds);

 protected:
  virtual void transfer(std::span<const Outgoing> out, std::span<const Incoming> in) = 0;  // exchange() calls it

 private:
  mutable std::mutex mutex_;  // of the counts: exchanges may be in another thread
  Exchanged exchanged_;
  bool measures_waiting_ = false;
};

// The sum over all ranks of the leaves (micro-batches) of an update, `elements` of f32 or f64 each, in the order of a
// binary tree over their indices: the same bits for any number of ranks. Rank r holds leaves [ceil(n r / size),
// ceil(n (r + 1) / size)) of n; `blocks` are its last leaf and, before it, the sums of the fewest blocks that hold the
// others, where a block has 2^k leaves and begins at a multiple of 2^k. Every rank gets `result`. Each rank adds one
// slice, and all gather the slices, in 2 log2(size) messages for a power of two. Of a rank whose leaves are one block,
// 2 (size - 1) / size * elements leave it.
UNROLL_API void sum_of_leaves(Communicator& ranks, std::int64_t leaves, DType dtype, std::int64_t elements,
                              std::span<const std::byte* const> blocks, std::byte* result);

// One communicator for each of `size` threads of this process. exchange() throws Error(peer) after `seconds` without
// an answer.
UNROLL_API std::vector<std::unique_ptr<Communicator>> thread_ranks(int size, double seconds = 60);

struct MpiOptions {
  double seconds = 300;  // exchange() throws Error(peer) after so long without an answer
  // Whether this process has been asked to end. A launcher asks all processes when one has died, so exchange() then
  // waits for 0.3 more seconds only.
  std::function<bool()> stops = {};
  // Called in another thread where the start or the end of MPI does not return in time, because a process has died. It
  // should end this process, as MPI cannot be stopped. Empty: wait.
  std::function<void(const Error&)> stuck = {};
};
// Whether mpirun or a launcher like it started this process beside others (not PMI_SIZE=1), by its environment.
UNROLL_API bool was_launched_by_mpi();
// The processes that were launched together. The library is loaded at run time: Open MPI 4 (libmpi.so.40), MPICH 4
// (libmpich.so.12, libmpi.so.12), or the one that the variable UNROLL_MPI_LIBRARY names. Throws Error(device) where it
// cannot be loaded or is another one. One at a time; destroying it ends the use of MPI in this process.
UNROLL_API std::unique_ptr<Communicator> mpi_ranks(const MpiOptions& options = {});
// The MPI libraries that can be loaded, by their own words; empty: none.
UNROLL_API std::vector<std::string> mpi_libraries();

}  // namespace unroll
