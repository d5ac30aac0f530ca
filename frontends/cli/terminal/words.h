// SPDX-License-Identifier: Apache-2.0
// Headings, units and digits for reports, from the keys of JSON files and of metrics.jsonl.
#pragma once

#include <string>
#include <string_view>

namespace unroll::cli {

// "peak_bytes" -> "Peak memory", "best_validation_loss" -> "Best validation loss".
std::string heading_of(std::string_view key);
// Returns a value with the unit of its key: "7.8 MiB" for ("bytes", 8210711), "21.3 ms" for ("median_ms", 21.3).
std::string value_text(std::string_view key, double value);
// Returns the axis title of a metric or training statistic: "gradient_norm" -> "Gradient norm", "lr" -> "Learning
// rate". `loss` is the title of a loss, whose unit depends on the task.
std::string axis_of(std::string_view metric, std::string_view loss);

// Four significant digits, thousands with commas, no exponent between 1e-4 and 1e15: "8,210,711", "0.01234".
std::string number_text(double value);
std::string time_text(double seconds);  // "350 µs", "21.3 ms", "4.2 s", "3 min 05 s"
std::string share_text(double share);   // "12.5 %" for 0.125

}  // namespace unroll::cli
