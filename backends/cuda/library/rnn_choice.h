// SPDX-License-Identifier: Apache-2.0
// Choice among cuDNN's algorithms for a layer. The forward pass of training and its gradient have the same one.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/library/autotuner.h"
#include "backends/cuda/library/rnn.h"

namespace unroll::cuda {

// Layers by persistent algorithms: whether the library runs what it accepts. It has kernels for some devices, sizes and
// formats only, and no setter says which.
class RnnTrials {
 public:
  // Null, and `why`, where the library refuses the form or a call fails.
  std::shared_ptr<const Rnn> runs(const Device& device, const std::shared_ptr<const Dnn>& dnn, const RnnForm& form,
                                  std::string& why);

 private:
  struct Tried {
    RnnForm form;
    std::string failure;
    std::weak_ptr<const Rnn> rnn;
  };
  std::list<Tried> tried_;
};

struct RnnLibrary {
  std::shared_ptr<const Dnn> dnn;
  const Device* device;
  Autotuner* autotuner;
  std::optional<dnn::Algorithm> forced = {};  // by the option rnn_algorithm
  std::shared_ptr<RnnTrials> trials = std::make_shared<RnnTrials>();
};

// The layers of a form by the algorithm that the option names, or was measured as the fastest, or else follows from
// algorithm_for; by STANDARD where that one does not run. Null: the library refuses them, and `why` says it.
std::shared_ptr<const Rnn> chosen_rnn(const RnnLibrary& library, RnnForm form, std::string& why);

// PyTorch's rule, with the limits of the gradient for a forward pass that saves, since both take the same algorithm:
//   PERSIST_STATIC_SMALL_H  f32 and f16 without a projection, H <= 192 (rnn: 384), and where a gradient follows
//                           H <= 128 (rnn: 256)
//   PERSIST_STATIC          f16 without a projection, one layer in one direction, rnn or lstm, H <= 1024, H and I
//                           multiples of 128, B a multiple of 8 and at most 128 (rnn: B < 96 or H < 896), from sm_80
//                           on with 98 multiprocessors, but not sm_86
//   STANDARD                all else
dnn::Algorithm algorithm_for(const common::Recurrent& r, bool training, int arch, int multiprocessors);

// "standard" is STANDARD.
std::optional<dnn::Algorithm> algorithm_of_option(std::string_view option);
inline constexpr std::string_view k_algorithm_options[] = {"standard", "persist_static", "persist_dynamic", "small_h"};

}  // namespace unroll::cuda
