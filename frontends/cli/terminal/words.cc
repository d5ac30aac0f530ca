// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/terminal/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/text_table.h"

namespace unroll::cli {
namespace {

enum class Unit : std::uint8_t { none, bytes, seconds, milliseconds, microseconds, share, per_second, gflops, flop };

struct Word {
  std::string_view key, heading;
  Unit unit = Unit::none;
};
// Keys with a heading other than the key with blanks, or with a unit other than their suffix.
constexpr Word k_words[] = {
    {"accuracy", "Accuracy"},
    {"allowed", "Allowed difference"},
    {"at_items", "Loss at equal items, against the baseline"},
    {"at_seconds", "Loss at equal time, against the baseline"},
    {"batch_ms", "Time of a batch", Unit::milliseconds},
    {"bits_per_character", "Bits per character"},
    {"bleu", "BLEU"},
    {"bytes", "Memory", Unit::bytes},
    {"calls", "Calls"},
    {"calls_ms", "Time of all calls", Unit::milliseconds},
    {"chrf", "chrF"},
    {"compile_ms", "Compile time", Unit::milliseconds},
    {"data_wait", "Time waiting for data", Unit::share},
    {"dead", "Dead units", Unit::share},
    {"elements", "Parameters"},
    {"epoch_seconds", "Time of an epoch", Unit::seconds},
    {"estimated_bytes", "Estimated memory", Unit::bytes},
    {"estimated_seconds", "Estimated time", Unit::seconds},
    {"exact_match", "Exact match"},
    {"f1_macro", "F1, macro average"},
    {"f1_micro", "F1, micro average"},
    {"flop", "Operations", Unit::flop},
    {"gbps_of_roofline", "Bandwidth, of the roofline", Unit::share},
    {"gflops", "Speed", Unit::gflops},
    {"gflops_of_roofline", "Speed, of the roofline", Unit::share},
    {"input", "Input width"},
    {"items_per_second", "Items per second", Unit::per_second},
    {"linear_ar", "Linear autoregression"},
    {"logistic_regression", "Logistic regression"},
    {"lr", "Learning rate"},
    {"mae", "Mean absolute error (MAE)"},
    {"mase", "Mean absolute scaled error (MASE)"},
    {"median_ms", "Median time", Unit::milliseconds},
    {"memory_bytes", "Memory", Unit::bytes},
    {"memory_free_bytes", "Free memory", Unit::bytes},
    {"milliseconds", "Time", Unit::milliseconds},
    {"min_ms", "Shortest time", Unit::milliseconds},
    {"most_frequent", "Most frequent label"},
    {"most_frequent_of_token", "Most frequent label of the token"},
    {"most", "Longest call"},
    {"naive_bayes", "Naive Bayes"},
    {"nodes_of_allowed", "Largest node difference, of the allowed", Unit::share},
    {"of_allowed", "Largest difference, of the allowed", Unit::share},
    {"of_roofline", "Of the roofline", Unit::share},
    {"peak_bytes", "Peak memory", Unit::bytes},
    {"perplexity", "Perplexity (per token)"},
    {"plan_hash", "Plan hash"},
    {"predicted_ms", "Predicted time", Unit::milliseconds},
    {"repeated_trigrams", "Repeated trigrams", Unit::share},
    {"ridge", "Ridge regression"},
    {"rmse", "Root mean squared error (RMSE)"},
    {"rouge1", "ROUGE-1"},
    {"rouge2", "ROUGE-2"},
    {"rougeL", "ROUGE-L"},
    {"run_ms", "Time of a run", Unit::milliseconds},
    {"saturated", "Saturated activations", Unit::share},
    {"share", "Share of the time", Unit::share},
    {"source_as_it_is", "Source copied"},
    {"spread", "Spread of the times", Unit::share},
    {"steps", "Time steps"},
    {"token_accuracy", "Token accuracy"},
    {"update_ms", "Time of an update", Unit::milliseconds},
    {"update_ratio", "Update ratio, largest of all parameters"},
    {"updates_per_second", "Updates per second", Unit::per_second},
    {"what", "Item"},
    {"word_by_word", "Word by word"},
};
struct Ending {
  std::string_view ending;
  Unit unit;
};
constexpr Ending k_endings[] = {
    {"_bytes", Unit::bytes},     {"_ms", Unit::milliseconds},        {"_us", Unit::microseconds},
    {"_seconds", Unit::seconds}, {"_per_second", Unit::per_second},
};
// Extensions of keys that are file names; their values are sizes in `inspect`.
constexpr std::string_view k_files[] = {".toml", ".jsonl", ".safetensors", ".txt"};

const Word* find_word(std::string_view key) {
  const auto* at = std::find_if(std::begin(k_words), std::end(k_words), [&](const Word& w) { return w.key == key; });
  return at == std::end(k_words) ? nullptr : at;
}

bool is_file(std::string_view key) {
  return std::any_of(std::begin(k_files), std::end(k_files), [&](std::string_view end) { return key.ends_with(end); });
}

Unit unit_of(std::string_view key) {
  if (const std::size_t last = key.rfind(' '); last != std::string_view::npos) {  // "items_per_second mean"
    const Unit unit = unit_of(key.substr(last + 1));
    return unit == Unit::none ? unit_of(key.substr(0, last)) : unit;
  }
  if (const Word* word = find_word(key)) return word->unit;
  if (key == "seconds") return Unit::seconds;
  if (is_file(key)) return Unit::bytes;
  for (const Ending& e : k_endings)
    if (key.ends_with(e.ending)) return e.unit;
  return Unit::none;
}

std::string with_blanks(std::string_view key) {
  std::string text(key);
  std::replace(text.begin(), text.end(), '_', ' ');
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string lower_first(std::string text) {
  const bool is_name = text.size() > 1 && text[1] >= 'A' && text[1] <= 'Z';  // BLEU
  if (!is_name && !text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

std::string operations_text(double flop) {
  constexpr const char* k_units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  std::size_t unit = 0;
  for (; std::abs(flop) >= 1000 && unit + 1 < std::size(k_units); ++unit) flop /= 1000;
  return number_text(flop) + " " + k_units[unit];
}

}  // namespace

std::string number_text(double value) {
  if (!std::isfinite(value)) return value > 0 ? "infinite" : value < 0 ? "-infinite" : "not a number";
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return fmt::format("{:.3e}", value);
  if (value == std::floor(value) || size >= 1000) return with_commas(fmt::format("{:.0f}", value));
  return fmt::format("{:.4g}", value);
}

std::string time_text(double seconds) {
  if (!(seconds >= 0)) return number_text(seconds) + " s";
  if (seconds == 0) return "0 s";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", 1e9 * seconds);
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 99.5) return fmt::format("{:.3g} s", seconds);
  if (seconds > 1e12) return number_text(seconds) + " s";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::string share_text(double share) { return number_text(std::round(1e4 * share) / 100) + " %"; }

std::string heading_of(std::string_view key) {
  if (const std::size_t blank = key.find(' '); blank != std::string_view::npos && blank > 0)  // flattened JSON
    return heading_of(key.substr(0, blank)) + ", " + lower_first(heading_of(key.substr(blank + 1)));
  if (const std::size_t dot = key.find('.'); dot != std::string_view::npos && find_word(key.substr(0, dot)))
    return heading_of(key.substr(0, dot)) + ", " + std::string(key.substr(dot + 1));  // "mae.wind"
  if (const Word* word = find_word(key)) return std::string(word->heading);
  if (is_file(key)) return std::string(key);
  for (const Ending& e : k_endings)
    if (key.ends_with(e.ending) && e.unit != Unit::per_second)
      return with_blanks(key.substr(0, key.size() - e.ending.size()));
  return with_blanks(key);
}

std::string value_text(std::string_view key, double value) {
  switch (unit_of(key)) {
    case Unit::bytes:
      return value >= 0 && value < 9e18 ? bytes_text(static_cast<std::size_t>(value)) : number_text(value) + " B";
    case Unit::seconds: return time_text(value);
    case Unit::milliseconds: return time_text(1e-3 * value);
    case Unit::microseconds: return time_text(1e-6 * value);
    case Unit::share: return share_text(value);
    case Unit::per_second: return number_text(value) + " /s";
    case Unit::gflops: return number_text(value) + " GFLOP/s";
    case Unit::flop: return operations_text(value);
    case Unit::none: break;
  }
  return number_text(value);
}

std::string axis_of(std::string_view metric, std::string_view loss) {
  if (metric == "loss") return std::string(loss);
  constexpr std::pair<std::string_view, std::string_view> k_short[] = {
      {"mae", "MAE (data units)"},
      {"rmse", "RMSE (data units)"},
      {"mase", "MASE (1: seasonal naive, training)"},
      {"accuracy", "Accuracy (0 to 1)"},
      {"token_accuracy", "Token accuracy (0 to 1)"},
      {"f1_macro", "F1, macro average (0 to 1)"},
      {"f1_micro", "F1, micro average (0 to 1)"},
      {"update_ratio", "Change / norm of parameters"},
      {"updates_per_second", "Speed (updates/s)"},
  };
  for (const auto& [word, title] : k_short)
    if (metric.substr(0, metric.find('.')) == word) return std::string(title);
  const std::string title = heading_of(metric);
  switch (unit_of(metric)) {
    case Unit::share: return title + " (share)";
    case Unit::per_second: return title + " (1/s)";
    case Unit::bytes: return title + " (bytes)";
    default: break;
  }
  return title;
}

}  // namespace unroll::cli
