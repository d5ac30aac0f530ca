// SPDX-License-Identifier: Apache-2.0
// Headings, units and digits of a report: keys of JSON files and of metrics.jsonl as a person reads them.
#pragma once

#include <string>
#include <string_view>

namespace unroll::cli {

// "peak_bytes" -> "Peak memory", "best_validation_loss" -> "Best validation loss".
std::string heading_of(std::string_view key);
// With the unit of the key: "7.8 MiB" of ("bytes", 8210711), "21.3 ms" of ("median_ms", 21.3).
std::string value_text(std::string_view key, double value);
// A metric or statistic of training as an axis title: "gradient_norm" -> "Gradient norm", "lr" -> "Learning rate".
// `loss` is the title of a loss, whose unit depends on the task.
std::string axis_of(std::string_view metric, std::string_view loss);

// Four significant digits, thousands with commas, no exponent between 1e-4 and 1e15: "8,210,711", "0.01234".
std::string number_text(double value);
std::string time_text(double seconds);  // "350 µs", "21.3 ms", "4.2 s", "3 min 05 s"
std::string share_text(double share);   // "12.5 %" of 0.125

}  // namespace unroll::cli
