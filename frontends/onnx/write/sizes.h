// SPDX-License-Identifier: Apache-2.0
// Dimensions as functions of the free sizes. A graph has static shapes, so a network is built several times with
// different sizes of the letters T, B, ... A number at the same place of each build becomes an Extent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/tasks/inference.h"

namespace unroll::onnx {

// The sum over all sets s of letters of terms[s] times the product of the sizes in s. Bit l of s is letter l. Without
// terms it is no such sum, as after a stride, and only the model knows it when it runs.
struct Extent {
  std::vector<std::int64_t> terms;
  bool is_constant() const;
  std::int64_t constant() const { return terms[0]; }
  friend auto operator<=>(const Extent&, const Extent&) = default;
};

class Sizes {
 public:
  // The letters of the inputs. An axis "S*B" is a product of letters.
  explicit Sizes(const Inference& inference, std::int64_t factor = 1);  // `factor` of all sizes that are tried

  const std::vector<std::string>& letters() const { return letters_; }
  // Number of builds: one for each corner of two sizes per letter, which determine an Extent, and one more to check it.
  std::size_t builds() const { return (std::size_t{1} << letters_.size()) + 1; }
  Shape shape(const TensorSpec& spec, std::size_t build) const;
  // Fits an Extent to one value per build; nullopt if the values are not such a sum.
  std::optional<Extent> fit(std::span<const std::int64_t> values) const;
  // Returns an axis by its letters; fixed axes are constants.
  Extent axis(const Axis& axis) const;

 private:
  std::int64_t size(std::size_t letter, std::size_t build) const;
  std::vector<std::string> letters_;
  std::vector<std::int64_t> low_;  // by letter; the second size is one more
};

std::vector<std::string> letters_of(const Axis& axis);  // "S*B": S, B; none: a fixed size

}  // namespace unroll::onnx
