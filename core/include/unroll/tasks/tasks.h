// SPDX-License-Identifier: Apache-2.0
// Built-in tasks. unroll/tasks/NAME.h has the options of a task, the functions that create it, and its prediction
// class. Each task reads its data from a string or from a file. A file above `memory_limit` bytes (0: no limit) is
// streamed: a batch reads its records when needed, and at most 64 bytes per record stay in memory. Option fields have
// the names of the config keys.
//
// `name` is the file name used in messages. `fitted` is the metadata of a trained model; the task then uses its
// vocabulary or normalizer, and fits nothing to the training set. All functions throw Error(input_file), with the
// place, on invalid data, and Error(usage) on options that do not fit the data. The file must not change during the
// task's lifetime: the next read throws Error(input_file) when its size or modification time differs.
#pragma once

#include "unroll/model/stream.h"
#include "unroll/tasks/classify.h"
#include "unroll/tasks/document.h"
#include "unroll/tasks/forecast.h"
#include "unroll/tasks/label.h"
#include "unroll/tasks/language_model.h"
#include "unroll/tasks/regress.h"
#include "unroll/tasks/summarize.h"
#include "unroll/tasks/translate.h"

// The tasks: name, prefix of the options struct, word of task.kind. The build reads this list too.
#define UNROLL_TASKS(X)                             \
  X(language_model, LanguageModel, "language-model") \
  X(forecast, Forecast, "forecast")                 \
  X(classify, Classify, "classify")                 \
  X(regress, Regress, "regress")                    \
  X(label, Label, "label")                          \
  X(translate, Translate, "translate")              \
  X(summarize, Summarize, "summarize")              \
  X(document, Document, "document")

namespace unroll {

// Builds a streaming model from the metadata of a checkpoint, for use with that checkpoint's parameters. The task's
// header documents the stream's inputs and outputs, if it has a stream. Throws Error(input_file) on incomplete metadata
// and Error(unsupported) for a bidirectional model.
UNROLL_API StreamModel task_stream(const Metadata& metadata);

}  // namespace unroll
