// SPDX-License-Identifier: Apache-2.0
// Files in memory that know what a power cut would leave: bytes become durable with sync(), names with sync_folder().
// Folders are not modeled: every folder exists.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/support/files/file_errors.h"
#include "unroll/support/vfs.h"

namespace unroll {

class MemoryVfs : public Vfs {
  struct Content {
    std::vector<std::byte> now;
    std::vector<std::byte> durable;
  };
  using Names = std::map<std::string, std::shared_ptr<Content>>;

  class MemoryFile : public File {
   public:
    explicit MemoryFile(std::shared_ptr<Content> content) : content_(std::move(content)) {}
    void write(std::span<const std::byte> bytes) override {
      content_->now.insert(content_->now.end(), bytes.begin(), bytes.end());
    }
    void sync() override { content_->durable = content_->now; }
    void close() override {}

   private:
    std::shared_ptr<Content> content_;
  };

 public:
  Bytes read(const std::string& path, std::size_t max_bytes) override {
    const auto& content = find(path, ErrorKind::input_file)->now;
    if (content.size() > max_bytes)
      throw Error(ErrorKind::input_file, path, "has " + std::to_string(content.size()) + " bytes; too many");
    Bytes bytes(content.size());
    if (!content.empty()) std::memcpy(bytes.data(), content.data(), content.size());
    return bytes;
  }
  bool exists(const std::string& path) override { return names_.contains(path); }
  void make_folder(const std::string&) override {}
  std::unique_ptr<File> create(const std::string& path) override {
    auto& content = names_[path];
    if (!content) content = std::make_shared<Content>();
    content->now.clear();
    return std::make_unique<MemoryFile>(content);
  }
  std::unique_ptr<File> append(const std::string& path) override {
    auto& content = names_[path];
    if (!content) content = std::make_shared<Content>();
    return std::make_unique<MemoryFile>(content);
  }
  void truncate(const std::string& path, std::size_t bytes) override {
    find(path, ErrorKind::storage)->now.resize(bytes);
  }
  void rename(const std::string& from, const std::string& to) override {
    const auto content = find(from, ErrorKind::storage);
    names_.erase(from);
    names_[to] = content;
  }
  void sync_folder(const std::string& path) override {
    const auto in_folder = [&path](const auto& entry) {
      return std::filesystem::path(entry.first).parent_path().string() == path;
    };
    std::erase_if(durable_names_, in_folder);
    for (const auto& entry : names_)
      if (in_folder(entry)) durable_names_.insert(entry);
  }
  void remove(const std::string& path) override { names_.erase(path); }
  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    for (const auto& entry : names_)
      if (const std::filesystem::path path(entry.first); path.parent_path().string() == folder)
        names.push_back(path.filename().string());
    return names;
  }
  void link(const std::string& from, const std::string& to) override { names_[to] = find(from, ErrorKind::storage); }

  // What is left after a power cut: durable names with durable bytes.
  void cut_power() {
    names_ = durable_names_;
    for (auto& [name, content] : names_) content->now = content->durable;
  }
  std::vector<std::string> list() const {
    std::vector<std::string> paths;
    for (const auto& [path, content] : names_) paths.push_back(path);
    return paths;
  }

 private:
  std::shared_ptr<Content> find(const std::string& path, ErrorKind kind) const {
    const auto it = names_.find(path);
    if (it == names_.end()) throw file_error(kind, path, "open", ENOENT);
    return it->second;
  }

  Names names_;
  Names durable_names_;
};

}  // namespace unroll
