// SPDX-License-Identifier: Apache-2.0
// The file layer: every file the library reads or writes goes through it, so that tests can make it fail anywhere.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/export.h"
#include "unroll/tensor.h"

namespace unroll {

class UNROLL_API Vfs {
 public:
  virtual ~Vfs() = default;
  // Whole file; throws Error(input_file) when it is missing, not a regular file or above max_bytes.
  virtual Bytes read(const std::string& path, std::size_t max_bytes) = 0;
  // A file that is read in parts, from any thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual std::size_t size() const = 0;  // when it was opened
    // Fills `to` with the bytes from `offset` on; throws Error(input_file) when they are not there.
    virtual void read_at(std::size_t offset, std::span<std::byte> to) const = 0;
  };
  // Throws Error(input_file) when it is missing or not a regular file. Unless a file layer does better, the reader
  // holds the whole file.
  virtual std::unique_ptr<Reader> open(const std::string& path);
  virtual bool exists(const std::string& path) = 0;
  virtual void make_folder(const std::string& path) = 0;  // and its parents
  // One open file being written; each step throws Error(storage).
  class File {
   public:
    virtual ~File() = default;  // closes without saving
    virtual void write(std::span<const std::byte> bytes) = 0;
    virtual void sync() = 0;
    virtual void close() = 0;
  };
  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // truncates
  virtual std::unique_ptr<File> append(const std::string& path) = 0;
  virtual void truncate(const std::string& path, std::size_t bytes) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;  // no error when absent
  // Names of what a folder holds, in any order; none when there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;
  // A second name for a file that is replaced but never written again: a hard link, or a copy where there is none.
  virtual void link(const std::string& from, const std::string& to) = 0;
};
UNROLL_API Vfs& disk();  // the real one

// write to a sibling -> fsync -> rename -> fsync folder: after a kill either the old or the new file is there.
UNROLL_API void write_atomically(Vfs& vfs, const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace unroll
