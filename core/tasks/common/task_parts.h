// SPDX-License-Identifier: Apache-2.0
// Parts shared by the tasks: model options in metadata, splits, embedding and output layers, carried states.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch/per_split.h"
#include "core/data/batch/records.h"
#include "core/data/series/windows.h"
#include "core/data/tokens/lexicon.h"
#include "core/support/text/exact_text.h"
#include "unroll/model/model.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// Metadata keys "model.<option>".
void put_model_options(Metadata& metadata, const RecurrentModelOptions& options);
RecurrentModelOptions get_model_options(const Metadata& metadata);

// Throw Error(input_file) when the key is missing or not a number.
const std::string& get_text(const Metadata& metadata, const std::string& key);
std::int64_t get_integer(const Metadata& metadata, const std::string& key);
double get_double(const Metadata& metadata, const std::string& key);

// Throws Error(usage) if the metadata have another value for a setting of the model's inputs. `key` is the key in the
// metadata and, in section data, in a config: "window" of data.window.
void require_as_trained(const Metadata& fitted, const std::string& file, const std::string& key,
                        const std::string& given);

// Scales of a forecast in metadata: `scaler` for the inputs and the first target, `scaler.k` for the target k steps
// later. The keys of series s > 0 begin with "series.s.".
struct SeriesScales {
  std::string column;         // "" in an older model, for the last column
  std::vector<ZScore> ahead;  // by distance, at least one, the same number in all series
};
void put_scales(Metadata& metadata, std::span<const SeriesScales> series);
std::vector<SeriesScales> get_scales(const Metadata& metadata);  // at least one

// The output layer after the recurrent layers and, for token models, the embedding before them.
struct Readout {
  bool tied = false;  // the output weight is the embedding weight
  // ids [...] -> [...,E]: "weight" [V,E] of `scope`
  Value embedding(const Scope& scope, Value ids, std::int64_t tokens, std::int64_t width) const;
  // y [...,P] -> logits [...,V]: "weight" [V,P], "bias" [V] of `scope`; tied: the weight of scope `embedding`. Throws
  // Error(usage) when tied and P is not E.
  Value logits(const Scope& scope, const Scope& embedding, Value y, std::int64_t tokens, std::int64_t width) const;
};

// Creates inputs "state.<k>" for the layer's states, shaped for `batch` rows.
std::vector<CarriedState> carried_states(Scope& scope, const RecurrentModelOptions& options, std::int64_t batch,
                                         std::int64_t inputs);

// Read a list in the format of entry_lines.h.
std::vector<std::string> get_list(const Metadata& metadata, const std::string& key);
Lexicon get_lexicon(const Metadata& metadata, const std::string& key);

// Returns the options after a range check; throws Error(usage) from `where` if a value is out of range.
template <class TaskOptions>
const TaskOptions& checked_options(const TaskOptions& options, std::string_view where) {
  for_each_part<TaskOptions>([&]<class Part>() { check_options<Part>(options, where); });
  return options;
}

// Opens the records of the data. A file above options.memory_limit bytes is not kept in memory.
template <class TaskOptions>
RecordFile record_file(const DataSource& data, const std::string& name, const TaskOptions& options) {
  return {data.file, name, data.memory_limit(options.memory_limit)};
}

// Returns the size of a share of n; throws Error(usage), which names the key, unless 0 <= part < 1.
std::int64_t part_of(std::int64_t n, double part, const char* key);

// The sources of the splits of a task on rows of a table or of text, from its options.
struct SplitSources {
  template <class Options>
    requires requires(const Options& o) { o.split_seed; }
  SplitSources(const Options& o) : validation(o.validation), test(o.test), seed(o.split_seed) {}  // NOLINT: implicit
  const SplitSource &validation, &test;
  std::uint64_t seed;
};

using SplitRows = PerSplit<std::vector<std::int64_t>>;
// Returns the data file `file` with the separate files of the splits appended, validation first.
RecordFile records_of(RecordFile file, const SplitSources& splits);
// Returns the rows of such a file in ascending order: a split is its own file, or drawn by `seed` from the first file.
// Throws Error(usage) if the training set is empty.
SplitRows split_rows(const RecordFile& file, const SplitSources& splits);

// Cross-entropy of each row; in training with label smoothing, a share of the weight on all classes equally (Szegedy et
// al. 2016; as torch.nn.CrossEntropyLoss). A label outside the classes is padding and gives 0 and no gradient.
Value smoothed_cross_entropy(const Scope& scope, Value logits, Value labels, double smoothing);

}  // namespace unroll
