// SPDX-License-Identifier: Apache-2.0
// The functions of an MPI library that is loaded at run time. Open MPI and MPICH differ in what a handle is, in their
// constants and in the layout of a status; a program for both is a template over these two.
#pragma once

#include <cstdint>
#include <string>

namespace unroll::mpi {

struct OpenMpi {
  using Handle = void*;  // the address of an object of the library
  static constexpr const char* name = "Open MPI";
  static constexpr int any_source = -1, source_field = 0;
  static constexpr std::intptr_t ignored_status = 0;
};
struct Mpich {
  using Handle = int;
  static constexpr const char* name = "MPICH";
  static constexpr int any_source = -2, source_field = 2;
  static constexpr std::intptr_t ignored_status = 1;
};

// Larger than the status of either library.
struct Status {
  alignas(8) int fields[16];
};

template <class Abi>
struct Functions {
  using Handle = typename Abi::Handle;
  int (*init_thread)(int*, char***, int, int*);
  int (*finalize)();
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*comm_set_errhandler)(Handle, Handle);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*recv)(void*, int, Handle, int, int, Handle, void*);
  int (*test)(Handle*, int*, void*);
  int (*iprobe)(int, int, Handle, int*, void*);
  int (*get_count)(const void*, Handle, int*);
  Handle world, byte, errors_return;
};

// A loaded library. It stays loaded: what MPI has started cannot be stopped.
class Library {
 public:
  // Throws Error(device) where it cannot be loaded or is neither of the two.
  explicit Library(const std::string& path);
  const std::string& version() const { return version_; }  // its own words, one line
  bool is_open_mpi() const { return is_open_mpi_; }
  template <class Abi>
  Functions<Abi> functions() const;

 private:
  void* symbol(const char* name) const;  // throws Error(device) where there is none
  std::string path_, version_;
  void* handle_;
  bool is_open_mpi_;
};

}  // namespace unroll::mpi
