// SPDX-License-Identifier: Apache-2.0
// External data comes from regular files in the model's folder, and from nowhere else.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "frontends/onnx/model.h"
#include "tests/support/temp_folder.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// outside/secret, and model/ with data, sub/data, links and a pipe's place.
struct Folders {
  TempFolder root;
  fs::path model = fs::path(root.path()) / "model";
  Folders() {
    const fs::path top = root.path();
    fs::create_directories(top / "outside");
    fs::create_directories(model / "sub");
    write(top / "outside" / "secret", "secret");
    write(model / "data", "0123456789");
    write(model / "sub" / "data", "abc");
    fs::create_symlink(top / "outside" / "secret", model / "link_out");
    fs::create_symlink("data", model / "link_in");
    fs::create_directory_symlink(top / "outside", model / "folder_out");
    fs::create_hard_link(top / "outside" / "secret", model / "hard");
  }
  std::string read(const std::string& location, std::uint64_t offset, std::int64_t size) const {
    try {
      const Bytes bytes = external_data_in(model.string())(location, offset, size);
      return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    } catch (const Error& e) {
      return std::string(error_kind_name(e.kind())) + ": " + e.what();
    }
  }
};

TEST_CASE("external data is read in the model's folder and below, from any offset") {
  const Folders folders;
  CHECK(folders.read("data", 0, 10) == "0123456789");
  CHECK(folders.read("data", 3, 4) == "3456");
  CHECK(folders.read("data", 7, -1) == "789");
  CHECK(folders.read("data", 10, 0).empty());
  CHECK(folders.read("sub/data", 0, 3) == "abc");
}

TEST_CASE("a path that leaves the model's folder is refused") {
  const Folders folders;
  const std::string secret = (fs::path(folders.root.path()) / "outside" / "secret").string();
  for (const std::string& location :
       {std::string("../outside/secret"), std::string("sub/../../outside/secret"), secret, std::string("link_out"),
        std::string("link_in"), std::string("folder_out/secret"), std::string("hard"), std::string("sub"),
        std::string("."), std::string(".."), std::string(""), std::string("sub//data"), std::string("sub/"),
        std::string("./data"), std::string("data\0x", 6), std::string("missing")}) {
    CAPTURE(location);
    const std::string text = folders.read(location, 0, 1);
    CAPTURE(text);
    CHECK(text.starts_with(std::string(error_kind_name(ErrorKind::input_file)) + ": "));
    CHECK(text.find("external data '") != std::string::npos);
  }
}

TEST_CASE("a range that the file does not have is refused") {
  const Folders folders;
  const auto refused = [&](std::uint64_t offset, std::int64_t size) {
    return folders.read("data", offset, size).find("external data 'data'") != std::string::npos;
  };
  CHECK(refused(0, 11));
  CHECK(refused(10, 1));
  CHECK(refused(11, 0));
  CHECK(refused(~std::uint64_t{0}, 2));  // offset + size overflows
  CHECK(refused(1, std::int64_t{1} << 62));
}

}  // namespace
}  // namespace unroll::onnx
