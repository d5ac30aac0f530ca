// SPDX-License-Identifier: Apache-2.0
// The commands. Each prints its result to stdout, everything else to stderr, and returns the exit code.
#pragma once

#include "frontends/cli/options/options.h"

namespace unroll::cli {

int run_doctor(const Options& options);
int run_new(const Options& options);
int run_data(const Options& options);
int run_train(const Options& options);
int run_eval(const Options& options);
int run_generate(const Options& options);
int run_predict(const Options& options);
int run_stream(const Options& options);
int run_tensors(const Options& options);  // `unroll run`
int run_inspect(const Options& options);
int run_lever(const Options& options);
int run_bench(const Options& options);
int run_compare(const Options& options);
int run_profile(const Options& options);
int run_explain(const Options& options);
int run_report(const Options& options);
int run_completion(const Options& options);

}  // namespace unroll::cli
