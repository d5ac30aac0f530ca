// SPDX-License-Identifier: Apache-2.0
// Functions of an MPI library that is loaded at run time. Open MPI and MPICH differ in their handles, constants and the
// layout of a status. Code for both is a template over these two structs.
#pragma once

#include <cstdint>
#include <string>

namespace unroll::mpi {

struct OpenMpi {
  using Handle = void*;  // address of an object in the library
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

// A loaded library. It is never unloaded, because MPI cannot be stopped.
class Library {
 public:
  // Throws Error(device) when the library cannot be loaded or is neither Open MPI nor MPICH.
  explicit Library(const std::string& path);
  const std::string& version() const { return version_; }  // the library's version text, one line
  bool is_open_mpi() const { return is_open_mpi_; }
  template <class Abi>
  Functions<Abi> functions() const;

 private:
  void* symbol(const char* name) const;  // throws Error(device) if the symbol is missing
  std::string path_, version_;
  void* handle_;
  bool is_open_mpi_;
};

}  // namespace unroll::mpi
