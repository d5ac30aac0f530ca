// SPDX-License-Identifier: Apache-2.0
// What the tasks share: the recurrent part with carried states or read out at the end, and its options as metadata.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/table/windows.h"
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

// Throws Error(usage) unless the metadata have this value of a setting, which decides what a model reads, or none.
// `key` is that of the metadata, or of a config with its section: "window" of data.window.
void require_as_trained(const Metadata& fitted, const std::string& file, const std::string& key,
                        const std::string& given);

// Of a forecast: what it reads of a series, and gives next, is counted in `scaler`, what it gives k values later in
// `scaler.k`. The keys of series s > 0 begin with "series.s.".
struct SeriesScales {
  std::string column;         // "" of an older model, for the last column
  std::vector<ZScore> ahead;  // by distance, one at least, and as many in all series
};
void put_scales(Metadata& metadata, std::span<const SeriesScales> series);
std::vector<SeriesScales> get_scales(const Metadata& metadata);  // one at least

// What is behind the recurrent layers and, where there is one, before them.
struct Readout {
  bool tied = false;  // the output's weight is that of the embedding
  // ids [...] -> [...,E]: "weight" [V,E] of `scope`
  Value embedding(const Scope& scope, Value ids, std::int64_t tokens, std::int64_t width) const;
  // y [...,P] -> logits [...,V]: "weight" [V,P], "bias" [V] of `scope`, tied: the weight of scope `embedding`. Throws
  // Error(usage) when tied and P is not E.
  Value logits(const Scope& scope, const Scope& embedding, Value y, std::int64_t tokens, std::int64_t width) const;
};

// Inputs "state.<k>" for the layer's states, shaped for `batch` rows.
std::vector<CarriedState> carried_states(Scope& scope, const RecurrentModelOptions& options, std::int64_t batch);

// Of a list that entry_lines wrote.
std::vector<std::string> get_list(const Metadata& metadata, const std::string& key);
Lexicon get_lexicon(const Metadata& metadata, const std::string& key);

// The options, whose values are in range; throws Error(usage) from `where` otherwise.
template <class TaskOptions>
const TaskOptions& checked_options(const TaskOptions& options, std::string_view where) {
  for_each_part<TaskOptions>([&]<class Part>() { check_options<Part>(options, where); });
  return options;
}

// The records of the data. A file above options.memory_limit bytes is not held.
template <class TaskOptions>
RecordFile record_file(const DataSource& data, const std::string& name, const TaskOptions& options) {
  return {data.file, name, data.memory_limit(options.memory_limit)};
}

// How many of n fall into a part; throws Error(usage) naming the key unless 0 <= part < 1.
std::int64_t part_of(std::int64_t n, double part, const char* key);

// By Split.
using SplitRows = std::array<std::vector<std::int64_t>, 3>;
// The data file at `file`, and those that the splits have for themselves, validation first.
RecordFile records_of(RecordFile file, const SplitSource& validation, const SplitSource& test);
// The rows of such a file in rising order: a split is its own file, or drawn by `seed` from the first one. Throws
// Error(usage) unless training has a row.
SplitRows split_rows(const RecordFile& file, const SplitSource& validation, const SplitSource& test,
                     std::uint64_t seed);

// The cross-entropy of each row; in training with a share of the weight on all classes alike (label smoothing, Szegedy
// et al. 2016; as torch.nn.CrossEntropyLoss). A label outside the classes is padding and gives 0 and no gradient.
Value smoothed_cross_entropy(const Scope& scope, Value logits, Value labels, double smoothing);

}  // namespace unroll
