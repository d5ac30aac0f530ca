// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/linear_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace unroll {

namespace {

constexpr double k_ridge = 0.01;        // of the number of windows, for standardized inputs
constexpr double k_effect_ridge = 1e-4;  // the same for effects of covariates, which include rare categories
constexpr std::int64_t k_most_lags = 32;  // values that a fit of effects reads
constexpr double k_most_work = 2e8;     // multiplications of one fit
constexpr std::size_t k_most_tried = 8;  // series of a trial
constexpr std::int64_t k_most_origins = 400;
constexpr std::int64_t k_room = std::int64_t{1} << 23;  // most elements of the normal equations in memory

// The changes of the K covariates that are known ahead, as Covariates::values computes them in a graph.
class ChangesReader {
 public:
  explicit ChangesReader(const ForecastShape& shape) : shape_(shape), n_(shape.form.covariates.n_ahead()) {}
  std::int64_t n() const { return n_; }  // K

  void read(const SeriesRows& rows, const SeriesPiece& piece, std::int64_t t) {
    if (n_ == 0) return;
    const Covariates& covariates = shape_.form.covariates;
    const Differencing& differencing = shape_.form.differencing;
    const std::int64_t D = differencing.depth(), W = shape_.window, H = shape_.horizon, N = D + W + H;
    columns_.clear();
    covariates.append(rows, rows.segment_of(t), piece, t - W - D, t + H, columns_);
    features_.resize(N * n_);
    for (std::int64_t i = 0; i < N; ++i)
      covariates.features(std::span(columns_).subspan(i * covariates.width(), covariates.width()),
                          std::span(features_).subspan(i * n_, n_));
    changes_.resize((W + H) * n_);
    std::vector<double> base(H);
    for (std::int64_t k = 0; k < n_; ++k) {
      const auto feature = [&](std::int64_t row) { return features_[row * n_ + k]; };
      for (std::int64_t w = 0; w < W; ++w)
        changes_[w * n_ + k] = differencing.at([&](std::int64_t back) { return feature(D + w - back); });
      std::ranges::fill(base, 0.0);
      differencing.integrate([&](std::int64_t back) { return feature(D + W - back); }, base);
      for (std::int64_t h = 0; h < H; ++h) changes_[(W + h) * n_ + k] = feature(D + W + h) - base[h];
      if (shape_.form.by_window && differencing.empty()) center(k);
    }
  }
  std::span<const double> in_window(std::int64_t w) const { return std::span(changes_).subspan(w * n_, n_); }
  std::span<const double> ahead(std::int64_t h) const { return in_window(shape_.window + h); }

 private:
  void center(std::int64_t k) {
    double mean = 0;
    for (std::int64_t w = 0; w < shape_.window; ++w)
      mean += changes_[w * n_ + k] / static_cast<double>(shape_.window);
    for (std::size_t i = k; i < changes_.size(); i += n_) changes_[i] -= mean;
  }

  const ForecastShape& shape_;
  std::int64_t n_;
  std::vector<double> columns_, features_, changes_;  // [D+W+H,C], [D+W+H,K], [W+H,K]
};

double product(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Reads windows of one series as the network does.
class WindowReader {
 public:
  WindowReader(const ForecastShape& shape, std::span<const ZScore> scales)
      : shape_(shape), scales_(scales), inputs_(shape.window), base_(shape.horizon), of_covariates_(shape.horizon) {}

  void read(const SeriesPiece& piece, std::int64_t t, std::size_t s) {
    const ForecastForm& form = shape_.form;
    const std::int64_t W = shape_.window;
    for (std::int64_t w = 0; w < W; ++w)
      inputs_[w] = scales_[0].apply(value_at(piece, t - W + w, s, form.differencing));
    continue_at(piece, t, s, form.differencing, base_);
    if (form.by_window) take_scale();
  }
  // Subtracts the effects [K] of covariates from the window and from the targets.
  void subtract(const ChangesReader& changes, std::span<const double> effects) {
    for (std::size_t w = 0; w < inputs_.size(); ++w)
      inputs_[w] -= product(changes.in_window(static_cast<std::int64_t>(w)), effects);
    for (std::int64_t h = 0; h < shape_.horizon; ++h)
      of_covariates_[h] = product(changes.ahead(h), effects) * scales_[0].deviation / scales_[h].deviation;
  }
  std::span<const double> inputs() const { return std::span(inputs_).last(shape_.form.regressed); }
  double target(double level, std::int64_t h) const {
    return (scales_[h].apply(level - base_[h]) - middle_) / unit_ - of_covariates_[h];
  }
  // Error of a target of 1, in units of the series.
  double unit(std::int64_t h) const { return unit_ * scales_[h].deviation; }
  double level(double target, std::int64_t h) const {
    return ((target + of_covariates_[h]) * unit_ + middle_) * scales_[h].deviation + scales_[h].mean + base_[h];
  }

 private:
  void take_scale() {
    const double n = static_cast<double>(inputs_.size());
    middle_ = 0;
    if (shape_.form.differencing.empty())
      for (const double value : inputs_) middle_ += value / n;
    const double least = shape_.form.least_scale();
    double square = least * least;
    for (double& value : inputs_) {
      value -= middle_;
      square += value * value / n;
    }
    unit_ = std::sqrt(square);
    for (double& value : inputs_) value /= unit_;
  }

  const ForecastShape& shape_;
  std::span<const ZScore> scales_;
  std::vector<double> inputs_, base_, of_covariates_;
  double middle_ = 0, unit_ = 1;
};

// Calls see(t) for at most `most` of the positions, evenly spread.
template <class F>
void for_some(const Runs& positions, std::int64_t most, const F& see) {
  const std::int64_t n = positions.size(), every = (n + most - 1) / std::max<std::int64_t>(most, 1);
  for (std::int64_t i = 0; i < n; i += every) see(positions[i]);
}

std::int64_t most_windows(const ForecastShape& shape) {
  const auto R = static_cast<double>(shape.form.regressed), H = static_cast<double>(shape.horizon);
  return std::max(static_cast<std::int64_t>(k_most_work / (R * (R / 2 + H))), 2 * shape.form.regressed);
}

// The fit of one series.
class SeriesFit {
 public:
  SeriesFit(const ForecastShape& shape, std::span<const ZScore> scales, std::size_t series)
      : shape_(shape), series_(series), fit_(shape.form.regressed, shape.horizon), reader_(shape, scales),
        values_(shape.horizon), errors_(shape.horizon) {}

  // The effects of covariates [K] that are subtracted before.
  void set_effects(std::vector<double> effects) { effects_ = std::move(effects); }
  // Skips a window with a missing target, and one that has no unit but needs one.
  void learn(const SeriesPiece& piece, std::int64_t t, double seasonal, const ChangesReader* changes = nullptr) {
    if (!read_targets(piece, t, seasonal, changes)) return;
    if (const double weight = weight_of(seasonal); weight > 0)
      fit_.learn(reader_.inputs(), values_, weight * weight);
  }
  void solve() { fit_.solve(k_ridge * fit_.weight_sum() + 1e-9); }
  // Adds the absolute errors of a window [H], in its unit. Skips what `learn` skips.
  void measure(const SeriesPiece& piece, std::int64_t t, double seasonal, const ChangesReader* changes = nullptr) {
    if (!read_targets(piece, t, seasonal, changes)) return;
    std::vector<double> answers(values_.size());
    fit_.predict(reader_.inputs(), answers);
    const double weight = weight_of(seasonal);
    for (std::size_t h = 0; h < values_.size(); ++h) errors_[h] += weight * std::fabs(values_[h] - answers[h]);
    measured_ += weight;
  }
  // Writes weights of series s, and the deviation of normally distributed errors with the mean of the measured ones.
  void put(LinearStart& start, std::int64_t s) const {
    const std::int64_t R = shape_.form.regressed, H = shape_.horizon;
    for (std::int64_t h = 0; h < H; ++h) {
      start.deviation.set(s * H + h, measured_ > 0 ? std::sqrt(std::numbers::pi / 2) * errors_[h] / measured_ : 1);
      start.bias.set(s * H + h, fit_.intercept(h));
      for (std::int64_t r = 0; r < R; ++r) start.weight.set((s * R + r) * H + h, fit_.weight(r, h));
    }
  }
  // Returns the sum of the absolute errors of the observed targets, and adds their number to `n`.
  double error(const SeriesPiece& piece, std::int64_t t, double& n) {
    reader_.read(piece, t, series_);
    fit_.predict(reader_.inputs(), values_);
    double sum = 0;
    for (std::int64_t h = 0; h < shape_.horizon; ++h) {
      if (!piece.is_observed(t + h, series_)) continue;
      sum += std::fabs(reader_.level(values_[h], h) - piece.level(t + h, series_));
      ++n;
    }
    return sum;
  }

 private:
  // Errors count in units of the series.
  double weight_of(double seasonal) const { return shape_.form.is_common ? reader_.unit(0) / seasonal : 1; }
  bool read_targets(const SeriesPiece& piece, std::int64_t t, double seasonal, const ChangesReader* changes) {
    for (std::int64_t h = 0; h < shape_.horizon; ++h)
      if (!piece.is_observed(t + h, series_)) return false;
    if (shape_.form.is_common && seasonal <= 0) return false;
    reader_.read(piece, t, series_);
    if (!effects_.empty()) reader_.subtract(*changes, effects_);
    for (std::int64_t h = 0; h < shape_.horizon; ++h) values_[h] = reader_.target(piece.level(t + h, series_), h);
    return true;
  }

  const ForecastShape& shape_;
  std::size_t series_;
  LeastSquares fit_;
  WindowReader reader_;
  std::vector<double> values_;   // targets or predictions
  std::vector<double> effects_;  // of covariates
  std::vector<double> errors_;   // [H], weighted sums
  double measured_ = 0;          // sum of weights
};

// Estimates the effects of the changes of covariates on the next difference of a series, beside its last values.
class EffectFit {
 public:
  EffectFit(const ForecastShape& shape, std::span<const ZScore> scales, std::size_t series, std::int64_t n_changes)
      : shape_(shape), series_(series), n_lags_(std::min(shape.form.regressed, k_most_lags)), n_(n_changes),
        fit_(n_lags_ + n_, 1), reader_(shape, scales), inputs_(n_lags_ + n_) {}

  void learn(const SeriesPiece& piece, std::int64_t t, double seasonal, const ChangesReader& changes) {
    if (!piece.is_observed(t, series_) || (shape_.form.is_common && seasonal <= 0)) return;
    reader_.read(piece, t, series_);
    std::ranges::copy(reader_.inputs().last(n_lags_), inputs_.begin());
    std::ranges::copy(changes.ahead(0), inputs_.begin() + n_lags_);
    const double target = reader_.target(piece.level(t, series_), 0);
    const double weight = shape_.form.is_common ? reader_.unit(0) / seasonal : 1;
    if (weight > 0) fit_.learn(inputs_, {&target, 1}, weight * weight);
  }
  std::vector<double> solve() {
    fit_.solve(k_effect_ridge * fit_.weight_sum() + 1e-9);
    std::vector<double> effects;
    for (std::int64_t k = 0; k < n_; ++k) effects.push_back(fit_.weight(n_lags_ + k, 0));
    return effects;
  }

 private:
  const ForecastShape& shape_;
  std::size_t series_;
  std::int64_t n_lags_, n_;
  LeastSquares fit_;
  WindowReader reader_;
  std::vector<double> inputs_;
};

// Returns the scale of the differences of series s before the cut, for all distances.
std::vector<ZScore> one_scale(const TrialPart& part, const ForecastShape& shape, std::size_t s) {
  const std::int64_t first = part.rows.begin + shape.form.depth();
  ZScoreFit fit(part.cut - first);
  for (const auto show : {&ZScoreFit::first, &ZScoreFit::second})
    for (std::int64_t t = first; t < part.cut; ++t) (fit.*show)(value_at(part.rows, t, s, shape.form.differencing));
  return std::vector<ZScore>(shape.horizon, fit.score());
}

// A window of a trial.
struct TrialWindow {
  const TrialPart* part;
  std::int64_t t;
};

// Returns at most `most` windows, evenly spread; all targets before the cuts, or all from there.
std::vector<TrialWindow> windows_of(const TrialRows& trial, const ForecastShape& shape, bool before_cut,
                                    std::int64_t most) {
  std::vector<TrialWindow> all;
  for (const TrialPart& part : trial.parts) {
    const std::int64_t from = before_cut ? part.rows.begin : part.cut, to = before_cut ? part.cut : part.rows.end;
    targets_between(trial.observed, from, to, shape.targets(part.rows.begin))
        .for_each([&](std::int64_t t) { all.push_back({&part, t}); });
  }
  const std::size_t every = (all.size() + most - 1) / std::max<std::int64_t>(most, 1);
  std::vector<TrialWindow> some;
  for (std::size_t i = 0; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

}  // namespace

LinearStart fit_linear(const SeriesWindows& windows, const ForecastShape& shape,
                       std::span<const std::vector<ZScore>> scales) {
  const std::int64_t S = std::ssize(scales), R = shape.form.regressed, H = shape.horizon;
  ChangesReader changes(shape);
  const std::int64_t K = changes.n(), inputs = R + K + 1;
  LinearStart start{Tensor(DType::f32, {S, R, H}), Tensor(DType::f32, {S, 1, H}), Tensor(DType::f32, {H, K, S}),
                    Tensor(DType::f32, {S, H})};
  const std::int64_t together = std::max<std::int64_t>(k_room / (inputs * (inputs + H)), 1);
  for (std::int64_t begin = 0; begin < S; begin += together) {
    const std::int64_t end = std::min(begin + together, S);
    std::vector<EffectFit> of_covariates;
    std::vector<SeriesFit> fits;
    for (std::int64_t s = begin; s < end; ++s) {
      fits.emplace_back(shape, scales[s], s);
      if (K > 0) of_covariates.emplace_back(shape, scales[s], s, K);
    }
    // Shows all fits of `to` the windows.
    const auto show = [&](auto& to, const auto& learn) {
      SeriesCursor cursor(windows.rows);
      for_some(windows.at, most_windows(shape), [&](std::int64_t t) {
        const SeriesPiece& piece = cursor.at(shape.first_before(t), t + H);
        changes.read(windows.rows, piece, t);
        const double* seasonal = &windows.seasonal[windows.rows.segment_at(t) * S];
        for (std::int64_t s = begin; s < end; ++s) learn(to[s - begin], piece, t, seasonal[s]);
      });
    };
    if (K > 0)
      show(of_covariates, [&](EffectFit& fit, const SeriesPiece& piece, std::int64_t t, double seasonal) {
        fit.learn(piece, t, seasonal, changes);
      });
    for (std::int64_t s = begin; s < end && K > 0; ++s) {
      std::vector<double> effects = of_covariates[s - begin].solve();
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t k = 0; k < K; ++k)
          start.effect.set((h * K + k) * S + s, effects[k] * scales[s][0].deviation / scales[s][h].deviation);
      fits[s - begin].set_effects(std::move(effects));
    }
    show(fits, [&](SeriesFit& fit, const SeriesPiece& piece, std::int64_t t, double seasonal) {
      fit.learn(piece, t, seasonal, &changes);
    });
    for (SeriesFit& fit : fits) fit.solve();
    if (!shape.form.distribution.empty())
      show(fits, [&](SeriesFit& fit, const SeriesPiece& piece, std::int64_t t, double seasonal) {
        fit.measure(piece, t, seasonal, &changes);
      });
    for (std::int64_t s = begin; s < end; ++s) fits[s - begin].put(start, s);
  }
  return start;
}

double trial_error(const TrialRows& trial, const ForecastShape& shape) {
  const std::vector<TrialWindow> fitted = windows_of(trial, shape, /*before_cut=*/true, most_windows(shape)),
                                 scored = windows_of(trial, shape, /*before_cut=*/false, k_most_origins);
  if (fitted.empty() || scored.empty()) return std::numeric_limits<double>::infinity();
  double sum = 0, n = 0;
  const std::size_t S = trial.parts[0].seasonal.size(), every = (S + k_most_tried - 1) / k_most_tried;
  for (std::size_t s = 0; s < S; s += every) {
    const std::vector<ZScore> scales =
        shape.form.is_common ? std::vector<ZScore>(shape.horizon) : one_scale(trial.parts[0], shape, s);
    SeriesFit fit(shape, scales, s);
    for (const TrialWindow& o : fitted) fit.learn(o.part->rows, o.t, o.part->seasonal[s]);
    fit.solve();
    for (const TrialWindow& o : scored)
      if (o.part->seasonal[s] > 0) sum += fit.error(o.part->rows, o.t, n) / o.part->seasonal[s];
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::infinity();
}

}  // namespace unroll
