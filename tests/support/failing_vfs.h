// SPDX-License-Identifier: Apache-2.0
// Wraps a Vfs and makes its i-th changing operation fail (create, append, write, sync, close, truncate, rename,
// sync_folder, make_folder, remove, link). A test runs its work for i = 0, 1, ... until fired() is false.
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "core/support/files/file_errors.h"
#include "unroll/support/vfs.h"

namespace unroll {

enum class Fault {
  disk_full,    // ENOSPC, nothing written
  io_error,     // EIO, nothing written
  short_write,  // half of the bytes are written, then ENOSPC
  dead,         // this and every later operation fails: the process or the machine is gone
};
inline constexpr Fault k_faults[] = {Fault::disk_full, Fault::io_error, Fault::short_write, Fault::dead};

class FailingVfs : public Vfs {
 public:
  FailingVfs(Vfs& inner, int fail_at, Fault fault) : inner_(inner), fail_at_(fail_at), fault_(fault) {}

  bool fired() const { return n_operations_ > fail_at_; }
  int operations() const { return n_operations_; }
  const std::string& failed() const { return failed_; }  // "write", for messages

  Bytes read(const std::string& path, std::size_t max_bytes) override { return inner_.read(path, max_bytes); }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  void make_folder(const std::string& path) override {
    step(path, "make the folder");
    inner_.make_folder(path);
  }
  std::unique_ptr<File> create(const std::string& path) override {
    step(path, "open for writing");
    return std::make_unique<FailingFile>(*this, path, inner_.create(path));
  }
  std::unique_ptr<File> append(const std::string& path) override {
    step(path, "open for writing");
    return std::make_unique<FailingFile>(*this, path, inner_.append(path));
  }
  void truncate(const std::string& path, std::size_t bytes) override {
    step(path, "cut");
    inner_.truncate(path, bytes);
  }
  void rename(const std::string& from, const std::string& to) override {
    step(to, "rename");
    inner_.rename(from, to);
  }
  void sync_folder(const std::string& path) override {
    step(path, "sync the folder");
    inner_.sync_folder(path);
  }
  void remove(const std::string& path) override {
    step(path, "remove");
    inner_.remove(path);
  }
  std::vector<std::string> list(const std::string& folder) override { return inner_.list(folder); }
  void link(const std::string& from, const std::string& to) override {
    step(to, "link");
    inner_.link(from, to);
  }
  bool is_device_or_pipe(const std::string& path) override { return inner_.is_device_or_pipe(path); }

 private:
  class FailingFile : public File {
   public:
    FailingFile(FailingVfs& vfs, std::string path, std::unique_ptr<File> inner)
        : vfs_(vfs), path_(std::move(path)), inner_(std::move(inner)) {}
    void write(std::span<const std::byte> bytes) override {
      if (vfs_.fires() && vfs_.fault_ == Fault::short_write) inner_->write(bytes.first(bytes.size() / 2));
      vfs_.step(path_, "write");
      inner_->write(bytes);
    }
    void sync() override {
      vfs_.step(path_, "sync");
      inner_->sync();
    }
    void close() override {
      vfs_.step(path_, "close");
      inner_->close();
    }

   private:
    FailingVfs& vfs_;
    std::string path_;
    std::unique_ptr<File> inner_;
  };

  bool fires() const { return n_operations_ == fail_at_ || (fault_ == Fault::dead && n_operations_ > fail_at_); }
  void step(const std::string& path, const char* action) {
    const bool fail = fires();
    if (n_operations_++ == fail_at_) failed_ = action;
    if (fail) throw file_error(ErrorKind::storage, path, action, fault_ == Fault::io_error ? EIO : ENOSPC);
  }

  Vfs& inner_;
  int fail_at_;
  Fault fault_;
  int n_operations_ = 0;
  std::string failed_;
};

}  // namespace unroll
