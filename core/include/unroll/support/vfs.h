// SPDX-License-Identifier: Apache-2.0
// The file layer. The library reads and writes all files through it, so that tests can inject failures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/export.h"
#include "unroll/support/tensor.h"

namespace unroll {

class UNROLL_API Vfs {
 public:
  virtual ~Vfs() = default;
  // Reads a whole file. Throws Error(input_file) when it is missing, not a regular file, or larger than max_bytes.
  virtual Bytes read(const std::string& path, std::size_t max_bytes) = 0;
  // Random access to a file, from any thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual std::size_t size() const = 0;  // size at the time of opening
    // Fills `to` with the bytes at `offset`. Throws Error(input_file) when they do not exist.
    virtual void read_at(std::size_t offset, std::span<std::byte> to) const = 0;
  };
  // Throws Error(input_file) when the file is missing or not a regular file. The default implementation reads the whole
  // file into memory.
  virtual std::unique_ptr<Reader> open(const std::string& path);
  virtual bool exists(const std::string& path) = 0;
  virtual void make_folder(const std::string& path) = 0;  // including its parents
  // A file open for writing. Each function throws Error(storage).
  class File {
   public:
    virtual ~File() = default;  // closes without syncing
    virtual void write(std::span<const std::byte> bytes) = 0;
    virtual void sync() = 0;
    virtual void close() = 0;
  };
  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // truncates
  virtual std::unique_ptr<File> append(const std::string& path) = 0;
  virtual void truncate(const std::string& path, std::size_t bytes) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;  // no error when it does not exist
  // Names of the entries of a folder, in any order. Empty when the folder does not exist.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // Creates a second name for a file that is replaced but never modified: a hard link, or a copy if links are
  // unsupported.
  virtual void link(const std::string& from, const std::string& to) = 0;
  // True for devices such as /dev/null, pipes, and links to them. A rename onto such a path would remove it.
  virtual bool is_device_or_pipe(const std::string&) { return false; }
};
UNROLL_API Vfs& disk();  // the local file system

// Writes to a temporary file, syncs it, renames it and syncs the folder. After a crash, either the old or the new file
// exists. Writes directly to a device or a pipe, which stays in place.
UNROLL_API void write_atomically(Vfs& vfs, const std::string& path, std::span<const std::span<const std::byte>> parts);

// A file and its companion data file in the same folder. Neither is usable alone.
struct DataFile {
  std::string name;  // data_file_name(...), or empty: no second file
  std::vector<std::span<const std::byte>> parts;
};
// Returns "lm.onnx.0123456789abcdef.data" for a path that ends in "lm.onnx". The digits are a hash of the contents.
UNROLL_API std::string data_file_name(const std::string& path, std::uint64_t hash);
// Writes `data`, then `path`, then removes the data files of older contents. After a crash `path` is the old or the new
// file, and its data file exists.
UNROLL_API void write_with_data(Vfs& vfs, const std::string& path, std::span<const std::span<const std::byte>> parts,
                                const DataFile& data);

}  // namespace unroll
