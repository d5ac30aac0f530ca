// SPDX-License-Identifier: Apache-2.0
// A fresh folder on disk that goes away with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "unroll/support/error.h"

namespace unroll {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "unroll.XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) throw Error(ErrorKind::storage, path_, "cannot make a temporary folder");
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace unroll
