// SPDX-License-Identifier: Apache-2.0
#include "core/parallel/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>

#include "unroll/support/error.h"

namespace unroll::mpi {

namespace {

constexpr std::size_t k_longest_version = 8192;  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the larger of the two

template <class F>
void set(F*& function, void* symbol) {
  function = reinterpret_cast<F*>(symbol);
}

// Constants of the MPI libraries: numbers from mpi.h in MPICH, addresses of objects in Open MPI.
void set_constants(Functions<Mpich>& f, const auto&) {
  f.world = 0x44000000;
  f.byte = 0x4c00010d;
  f.errors_return = 0x54000001;
}
void set_constants(Functions<OpenMpi>& f, const auto& symbol) {
  f.world = symbol("ompi_mpi_comm_world");
  f.byte = symbol("ompi_mpi_byte");
  f.errors_return = symbol("ompi_mpi_errors_return");
}

}  // namespace

Library::Library(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) throw Error(ErrorKind::device, path, dlerror());
  int (*get_version)(char*, int*);
  set(get_version, symbol("MPI_Get_library_version"));
  std::string text(k_longest_version, '\0');
  int length = 0;
  get_version(text.data(), &length);
  version_ = text.substr(0, std::min(text.find_first_of(",\n\0", 0, 3), static_cast<std::size_t>(length)));
  is_open_mpi_ = text.starts_with(OpenMpi::name);
  if (!is_open_mpi_ && !text.starts_with(Mpich::name))
    throw Error(ErrorKind::device, path, "is neither Open MPI nor MPICH: " + version_);
}

void* Library::symbol(const char* name) const {
  if (void* at = dlsym(handle_, name)) return at;
  throw Error(ErrorKind::device, path_, std::string("has no ") + name);
}

template <class Abi>
Functions<Abi> Library::functions() const {
  const auto at = [this](const char* name) { return symbol(name); };
  Functions<Abi> f{};
  set(f.init_thread, at("MPI_Init_thread"));
  set(f.finalize, at("MPI_Finalize"));
  set(f.comm_rank, at("MPI_Comm_rank"));
  set(f.comm_size, at("MPI_Comm_size"));
  set(f.comm_set_errhandler, at("MPI_Comm_set_errhandler"));
  set(f.isend, at("MPI_Isend"));
  set(f.irecv, at("MPI_Irecv"));
  set(f.recv, at("MPI_Recv"));
  set(f.test, at("MPI_Test"));
  set(f.iprobe, at("MPI_Iprobe"));
  set(f.get_count, at("MPI_Get_count"));
  set_constants(f, at);
  return f;
}
template Functions<OpenMpi> Library::functions<OpenMpi>() const;
template Functions<Mpich> Library::functions<Mpich>() const;

}  // namespace unroll::mpi
