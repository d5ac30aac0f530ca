// SPDX-License-Identifier: Apache-2.0
// Parameter initialization. It uses only IEEE arithmetic and sqrt, no libm, so the bits are the same everywhere.
#include <cmath>
#include <vector>

#include "core/nn/normal_quantile.h"
#include "core/support/fnv.h"
#include "core/support/philox.h"
#include "unroll/nn/scope.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// "init": separates these draws from those of training updates (whose counter word 3 is the update).
constexpr std::uint32_t k_domain = 0x696E6974u;

// Draw e of a parameter is lane e & 3 of the block with counter (e >> 2, hash of the name high, low, domain).
class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view name)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, hash_(fnv(name)) {}

  std::uint32_t word(std::int64_t e) {
    const auto block = static_cast<std::uint32_t>(e >> 2);
    if (block != block_ || !drawn_) {
      words_ =
          philox({block, static_cast<std::uint32_t>(hash_ >> 32), static_cast<std::uint32_t>(hash_), k_domain}, key_);
      block_ = block;
      drawn_ = true;
    }
    return words_[e & 3];
  }
  double symmetric(std::int64_t e) { return 2.0 * philox_uniform(word(e)) - 1.0; }                // [-1, 1)
  double open_unit(std::int64_t e) { return (static_cast<double>(word(e) >> 8) + 0.5) * 0x1p-24; }  // (0, 1)

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t hash_;
  PhiloxBlock words_{};
  std::uint32_t block_ = 0;
  bool drawn_ = false;
};

// Orthonormalizes rows (or columns, if there are fewer) by Gram-Schmidt, twice against cancellation. `vectors` has n
// vectors of `width`, the longer dimension.
void orthonormalize(std::vector<double>& vectors, std::size_t n, std::size_t width) {
  for (std::size_t i = 0; i < n; ++i) {
    double* v = &vectors[i * width];
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t j = 0; j < i; ++j) {
        const double* u = &vectors[j * width];
        double dot = 0;
        for (std::size_t k = 0; k < width; ++k) dot += u[k] * v[k];
        for (std::size_t k = 0; k < width; ++k) v[k] -= dot * u[k];
      }
    double norm = 0;
    for (std::size_t k = 0; k < width; ++k) norm += v[k] * v[k];
    norm = std::sqrt(norm);
    for (std::size_t k = 0; k < width; ++k) v[k] /= norm;
  }
}

// A block of `rows` x `columns` elements; its first element is draw number `first`.
struct Block {
  std::int64_t first, rows, columns;
  std::int64_t elements() const { return rows * columns; }
};

std::vector<double> orthogonal_block(Draws& draws, const Block& block) {
  const bool tall = block.rows > block.columns;
  const std::size_t n = tall ? block.columns : block.rows;
  const std::size_t width = tall ? block.rows : block.columns;
  std::vector<double> vectors(n * width);
  for (std::size_t e = 0; e < vectors.size(); ++e)
    vectors[e] = normal_quantile(draws.open_unit(block.first + static_cast<std::int64_t>(e)));
  orthonormalize(vectors, n, width);
  if (!tall) return vectors;
  std::vector<double> turned(vectors.size());
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < width; ++k) turned[k * n + i] = vectors[i * width + k];
  return turned;
}

std::vector<double> draw_block(Draws& draws, const Block& block, const Initializer& how) {
  using Kind = Initializer::Kind;
  std::vector<double> values(block.elements(), how.scale);
  const double fans = static_cast<double>(block.rows + block.columns);
  const auto fill = [&](double scale, auto draw) {
    for (std::size_t e = 0; e < values.size(); ++e)
      values[e] = scale * draw(block.first + static_cast<std::int64_t>(e));
  };
  const auto symmetric = [&](std::int64_t e) { return draws.symmetric(e); };
  const auto normal = [&](std::int64_t e) { return normal_quantile(draws.open_unit(e)); };
  switch (how.kind) {
    case Kind::constant:
    case Kind::given: break;
    case Kind::uniform: fill(how.scale, symmetric); break;
    case Kind::normal: fill(how.scale, normal); break;
    case Kind::xavier_uniform: fill(how.scale * std::sqrt(6 / fans), symmetric); break;
    case Kind::xavier_normal: fill(how.scale * std::sqrt(2 / fans), normal); break;
    case Kind::orthogonal:
      values = orthogonal_block(draws, block);
      for (double& v : values) v *= how.scale;
      break;
  }
  return values;
}

Tensor given_parameter(const ParameterSpec& spec) {
  const Tensor& values = *spec.initializer.values;
  if (values.shape() != spec.type.shape)
    throw Error(ErrorKind::shape, "initialize",
                "the values of '" + spec.name + "' have shape " + values.shape().text() + "; it is " +
                    spec.type.shape.text());
  Tensor tensor(spec.type);
  for (std::int64_t i = 0; i < values.elements(); ++i) tensor.set(i, values.at(i));
  return tensor;
}

Tensor draw_parameter(const ParameterSpec& spec, std::uint64_t seed) {
  const Initializer& how = spec.initializer;
  if (how.kind == Initializer::Kind::given) return given_parameter(spec);
  const Shape& shape = spec.type.shape;
  const std::int64_t rows = shape.rank() > 0 ? shape[0] : 1;
  if (how.blocks < 1 || rows % how.blocks != 0)
    throw Error(
        ErrorKind::usage, "initialize",
        "'" + spec.name + "' " + shape.text() + " does not divide into " + std::to_string(how.blocks) + " blocks");
  Draws draws(seed, spec.name);
  Tensor tensor(spec.type);
  const std::int64_t block_rows = rows / how.blocks, columns = rows > 0 ? shape.elements() / rows : 0;
  for (int k = 0; k < how.blocks; ++k) {
    const Block block{k * block_rows * columns, block_rows, columns};
    const std::vector<double> values = draw_block(draws, block, how);
    const double shift = k == how.shifted_block ? how.shift : 0;
    for (std::size_t e = 0; e < values.size(); ++e)
      tensor.set(block.first + static_cast<std::int64_t>(e), values[e] + shift);
  }
  return tensor;
}

}  // namespace

TensorMap initialize(std::span<const ParameterSpec> parameters, std::uint64_t seed) {
  TensorMap tensors;
  for (const ParameterSpec& spec : parameters) tensors.insert_or_assign(spec.name, draw_parameter(spec, seed));
  return tensors;
}

}  // namespace unroll
