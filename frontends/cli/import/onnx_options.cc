// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/stream_onnx.h"

namespace unroll::cli {

void add_onnx_stream(CLI::App& app, OnnxStreamArguments& o) {
  group(app, "ONNX model");
  add_text(app, "--time", o.time, "NAME", "The free dimension of the input that is time.", "the one that has states");
  add_texts(app, "--size", o.sizes, "NAME=N,...", "Sizes of other free dimensions.", "1, or as the parameters need");
  add_texts(app, "--value", o.values, "NAME=X,...", "Values of inputs that are no sequences, for all elements.", "0");
  add_text(app, "--tensor", o.output, "NAME", "Print this output.", "the first sequence");
  add_integer(app, "--delay", o.delay, "Steps that the output may wait for.", {0, 1e9, 0});
}

}  // namespace unroll::cli
