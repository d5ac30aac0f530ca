// SPDX-License-Identifier: Apache-2.0
// Training data of the table tasks: rows that are sequences with targets, such as a label.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/batch/shuffle.h"
#include "core/data/table/csv.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/table/features.h"
#include "core/tasks/table/table_form.h"

namespace unroll {

// Names of a task in messages.
struct TableWords {
  std::string task;    // "classify"
  std::string target;  // "label": the kind of target
  std::string key;     // "data.label": its config key
  bool is_text = false;  // true: an empty cell, or a word that the config names, is a missing target
};

class TableRows : public SplitExamples, public SplitTableRows {
 public:
  // `fitted`: the metadata of a trained model, whose columns are read; empty in training.
  TableRows(const TableRowsOptions& options, RecordFile file, TableWords words, const Metadata& fitted);

  using TakeCells = std::function<void(std::span<const std::string> cells, std::size_t line)>;
  // Reads the file once, checks its features and passes each row to `take`. `targets`: names or numbers, "" the last.
  void read(std::span<const std::string> targets, const TakeCells& take);
  // Draws the splits, then fits the features to the training set unless the model has them.
  void draw_splits();

  const CsvReader& reader() const { return reader_; }
  const RecordFile& file() const { return file_; }
  const Features& features() const { return features_; }
  const std::vector<std::size_t>& targets() const { return targets_; }  // columns
  std::vector<std::string> target_names() const;
  // Returns the target cells of a record.
  std::vector<std::string> targets_in(std::string_view record) const;

  const std::vector<std::int64_t>& rows(Split split) const { return rows_[split]; }
  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(rows(split).size()); }
  std::int64_t n_batches_of(Split split) const { return (n_examples(split) + batch_ - 1) / batch_; }
  void for_each_record(Split split, const std::function<void(std::string_view record)>& take) const;
  void for_each_row(Split split, const TakeRow& take) const override;
  // Returns x f32 [T,B,I] of a batch; calls `take` with its records b = 0 ... B - 1.
  Tensor inputs(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                const std::function<void(std::int64_t b, std::string_view record)>& take) const;
  std::int64_t batch_rows(Split split, std::int64_t index) const {  // B
    return std::min(batch_, n_examples(split) - index * batch_);
  }

  void put(Metadata& metadata) const;  // the format of the file, and its features
  // Returns the notes about the file; `of_targets` describes the targets.
  std::vector<std::string> notes_on(const std::string& of_targets) const;

 private:
  void choose_columns(std::span<const std::string> targets);
  void find_columns(std::span<const std::string> targets);
  void require_named(std::span<const std::string> named, std::span<const std::size_t> read,
                     const std::string& key) const;
  void divide_into_steps();
  bool is_missing_target(std::string_view cell) const;
  void check_feature(const std::string& cell, std::size_t line, std::size_t column);

  TableRowsOptions options_;
  std::int64_t batch_;
  TableWords words_;
  Metadata fitted_;
  RecordFile file_;  // one record per row
  CsvReader reader_;
  std::vector<std::size_t> targets_, places_;  // columns of the targets and of the features
  Features features_;
  std::int64_t n_missing_ = 0;
  SplitRows rows_;
  mutable Shuffle shuffle_;
};

}  // namespace unroll
