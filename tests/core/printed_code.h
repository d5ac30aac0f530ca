// SPDX-License-Identifier: Apache-2.0
// Compilers of this machine on printed code.
#pragma once

#include <string>
#include <vector>

namespace unroll::testing {

// Found when the build was set up; empty when absent.
struct Compilers {
  std::string cpp, cuda, glsl;
};
const Compilers& compilers();

// Runs a command line; its output on stdout and stderr when it fails, empty when it succeeds.
std::string failure_of(const std::string& command, const std::string& log);

void write_text(const std::string& path, const std::string& text);

// C++ sources compiled, two at a time, into shared libraries that stay loaded while the object lives.
class PrintedCode {
 public:
  PrintedCode(const std::string& folder, const std::vector<std::string>& sources, const std::string& options);
  PrintedCode(const PrintedCode&) = delete;
  PrintedCode& operator=(const PrintedCode&) = delete;
  ~PrintedCode();
  const std::string& failure() const { return failure_; }
  // Null when there is none.
  void* find(const std::string& name) const;

 private:
  std::vector<void*> libraries_;
  std::string failure_;
};

}  // namespace unroll::testing
