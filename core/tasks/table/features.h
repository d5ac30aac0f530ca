// SPDX-License-Identifier: Apache-2.0
// The features of table rows: columns, steps, filling and scaling. They are the same in training and, from a model's
// metadata, for new files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/table/csv.h"
#include "unroll/ir/graph.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct Features {
  std::vector<std::string> columns;  // by feature: names, or numbers for files without a header
  std::int64_t steps = 1;            // features are steps * width()
  std::string missing = "error";     // see TableRowsOptions
  double divide = 1;
  bool normalize = false;
  std::vector<double> mean, deviation;  // by feature, of the training set

  // Throws Error(input_file) on metadata that do not fit together.
  static Features of(const Metadata& metadata);
  void put(Metadata& metadata) const;

  std::int64_t width() const { return std::ssize(columns) / steps; }
  // Fills and scales the values of a row, NaN where missing.
  void apply(std::span<double> values) const;
  // Scales x [T,B,width()] without missing values in a graph.
  Value scaled(Value x) const;
};

// Write and read a list of n numbers. Throws Error(input_file) on any other content.
void put_numbers(Metadata& metadata, const std::string& key, std::span<const double> values);
std::vector<double> get_numbers(const Metadata& metadata, const std::string& key, std::size_t n);

// Returns the target columns of a model: those of `targets`, or the single `label`.
std::vector<std::string> get_targets(const Metadata& metadata);
inline constexpr std::int64_t k_max_classes = 65536;
// Returns the class names of a model; "0", "1", ... for models without names. Throws Error(input_file) on an empty list
// and on a number of classes out of range.
std::vector<std::string> class_names_of(const Metadata& metadata);
// Returns the class text of a target cell: "2", "2.0" and " 2" are one class.
std::string target_text(std::string_view cell);
// Copies the T * I values of row b of B into x [T,B,I].
void put_sequence(std::span<const double> values, std::span<float> x, std::int64_t b, std::int64_t B, std::int64_t I);

// Computes the mean and deviation of every column, without NaN; 0 and 1 if there are no values.
class FeatureFit {
 public:
  explicit FeatureFit(std::size_t n) : count_(n), mean_(n), square_(n) {}
  void add(std::span<const double> values);
  void put(Features& features) const;

 private:
  std::vector<double> count_, mean_, square_;
};

}  // namespace unroll
