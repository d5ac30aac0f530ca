// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/cudnn.h"

#include <cstdlib>

#include "backends/cuda/driver/open.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

constexpr const char* k_dnn_fix =
    "Install cuDNN 9 (pip install nvidia-cudnn-cu12, or -cu13) and put its folder into LD_LIBRARY_PATH; the option "
    "rnn=own does without it";

DnnTamper& dnn_tamper() {
  static DnnTamper set = nullptr;
  return set;
}

}  // namespace

DnnFunctions open_dnn() {
  DnnFunctions f;
  // Read when cuDNN first multiplies: with it, sums have the same order in every run.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const OpenLibrary library(dnn_libraries().names, "cuDNN", k_dnn_fix);
  library.find(f.GetVersion, "cudnnGetVersion");
  if (f.GetVersion() < k_oldest_dnn)
    library.refuse("cuDNN is version " + std::to_string(f.GetVersion() / 1000) + ", and 9 is needed");
#define X(name, ...) library.find(f.name, "cudnn" #name);
  UNROLL_DNN_FUNCTIONS(X)
#undef X
  library.find(f.GetErrorString, "cudnnGetErrorString");
  library.find(f.GetLastErrorString, "cudnnGetLastErrorString");
  if (dnn_tamper()) dnn_tamper()(f);
  return f;
}

std::string dnn_version(const DnnFunctions& f) {
  const std::size_t version = f.GetVersion();  // 91900 is 9.19.0
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

DnnLibraries& dnn_libraries() {
  static DnnLibraries names;
  return names;
}
void set_dnn_tamper(DnnTamper function) { dnn_tamper() = function; }

Dnn::Dnn() : f_(open_dnn()) {
  check(f_.Create(&context_), "Create");
}
Dnn::~Dnn() {
  if (context_) f_.Destroy(context_);
}

std::string Dnn::text(dnn::Status status) const {
  char last[512] = {};
  f_.GetLastErrorString(last, sizeof last - 1);
  const char* const name = f_.GetErrorString(status);
  std::string text = name ? name : "status " + std::to_string(static_cast<int>(status));
  if (last[0] != '\0') text += ", " + std::string(last);
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

void Dnn::check(dnn::Status status, const char* call) const {
  if (status == dnn::Status::success) return;
  const bool memory = status == dnn::Status::host_memory || status == dnn::Status::device_memory;
  throw Error(memory ? ErrorKind::memory : ErrorKind::device, "cuda",
              std::string("cudnn") + call + " failed: " + text(status),
              memory ? "Use a smaller batch or fewer steps, or close other programs on the device"
                     : "Run again; the backend's option rnn=own does without cuDNN");
}

}  // namespace unroll::cuda
