// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/sizes.h"

#include <algorithm>

#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

constexpr std::int64_t k_low[] = {5, 3, 4, 7};  // by letter
constexpr std::int64_t k_check = 6;             // added in the build that checks

}  // namespace

bool Extent::is_constant() const {
  return !terms.empty() && std::all_of(terms.begin() + 1, terms.end(), [](std::int64_t c) { return c == 0; });
}

std::vector<std::string> letters_of(const Axis& axis) {
  std::vector<std::string> letters;
  for (std::size_t at = 0; at < axis.letter.size();) {
    const std::size_t end = std::min(axis.letter.find('*', at), axis.letter.size());
    letters.push_back(axis.letter.substr(at, end - at));
    at = end + 1;
  }
  return letters;
}

Sizes::Sizes(const Inference& inference, std::int64_t factor) {
  for (const TensorSpec& spec : inference.inputs)
    for (const Axis& axis : spec.axes)
      for (const std::string& letter : letters_of(axis))
        if (std::find(letters_.begin(), letters_.end(), letter) == letters_.end()) letters_.push_back(letter);
  if (letters_.size() > std::size(k_low))
    throw Error(ErrorKind::unsupported, "export", "the model has more than 4 free sizes");
  for (std::size_t l = 0; l < letters_.size(); ++l) low_.push_back(k_low[l] * factor);
}

std::int64_t Sizes::size(std::size_t letter, std::size_t build) const {
  if (build + 1 == builds()) return low_[letter] + k_check;
  return low_[letter] + static_cast<std::int64_t>(build >> letter & 1);
}

Shape Sizes::shape(const TensorSpec& spec, std::size_t build) const {
  std::vector<std::int64_t> dims;
  for (const Axis& axis : spec.axes) {
    std::int64_t size = axis.letter.empty() ? axis.size : 1;
    for (const std::string& letter : letters_of(axis))
      size *= this->size(static_cast<std::size_t>(std::find(letters_.begin(), letters_.end(), letter) -
                                                  letters_.begin()), build);
    dims.push_back(size);
  }
  return Shape(dims);
}

// Along each letter f(x) = a + b x; the values at x and x + 1 give b as their difference.
std::optional<Extent> Sizes::fit(std::span<const std::int64_t> values) const {
  Extent e{{values.begin(), values.end() - 1}};
  for (std::size_t l = 0; l < letters_.size(); ++l) {
    for (std::size_t s = 0; s < e.terms.size(); ++s) {
      if (s >> l & 1) continue;
      std::int64_t& low = e.terms[s];
      std::int64_t& high = e.terms[s | std::size_t{1} << l];
      high -= low;
      low -= high * low_[l];
    }
  }
  std::int64_t check = 0;
  for (std::size_t s = 0; s < e.terms.size(); ++s) {
    std::int64_t term = e.terms[s];
    for (std::size_t l = 0; l < letters_.size(); ++l)
      if (s >> l & 1) term *= size(l, builds() - 1);
    check += term;
  }
  if (check != values.back()) return std::nullopt;
  return e;
}

Extent Sizes::axis(const Axis& axis) const {
  Extent e{std::vector<std::int64_t>(builds() - 1)};
  std::size_t set = 0;
  for (const std::string& letter : letters_of(axis))
    set |= std::size_t{1} << (std::find(letters_.begin(), letters_.end(), letter) - letters_.begin());
  e.terms[set] = axis.letter.empty() ? axis.size : 1;
  return e;
}

}  // namespace unroll::onnx
