// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/task_parts.h"

#include <charconv>

#include "core/data/text/entry_lines.h"
#include "core/support/text/in_quotes.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

template <class T>
T parsed(const Metadata& metadata, const std::string& key) {
  const std::string& text = get_text(metadata, key);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorKind::input_file, "model", "metadata '" + key + "' is not a number: " + in_quotes(text));
  return value;
}

}  // namespace

const std::string& get_text(const Metadata& metadata, const std::string& key) {
  const auto at = metadata.find(key);
  if (at == metadata.end())
    throw Error(ErrorKind::input_file, "model", "the metadata has no '" + key + "'",
                "Use a file that `unroll train` wrote for this task");
  return at->second;
}
std::int64_t get_integer(const Metadata& metadata, const std::string& key) {
  return parsed<std::int64_t>(metadata, key);
}
double get_double(const Metadata& metadata, const std::string& key) { return parsed<double>(metadata, key); }

void require_as_trained(const Metadata& fitted, const std::string& file, const std::string& key,
                        const std::string& given) {
  const auto trained = fitted.find(key);
  if (trained == fitted.end() || trained->second == given) return;
  throw Error(ErrorKind::usage, file,
              "the model was trained with data." + key + " = " + in_quotes(trained->second) + "; got " +
                  in_quotes(given),
              "Leave data." + key + " out: a model reads its inputs as training did");
}

namespace {

std::string series_key(std::size_t series) { return series == 0 ? "" : "series." + std::to_string(series) + "."; }

std::string scale_key(std::size_t series, std::size_t distance) {
  return series_key(series) + (distance == 0 ? "scaler" : "scaler." + std::to_string(distance));
}

// Returns a count; 1 if the key is missing, as in the metadata of older models.
std::int64_t count_of(const Metadata& m, const std::string& key) {
  const std::int64_t n = m.contains(key) ? get_integer(m, key) : 1;
  if (n < 1) throw Error(ErrorKind::input_file, "model", "metadata '" + key + "' must be at least 1");
  return n;
}

ZScore scale_of(const Metadata& m, const std::string& key) {
  const ZScore scale{get_double(m, key + ".mean"), get_double(m, key + ".deviation")};
  if (!(scale.deviation > 0))
    throw Error(ErrorKind::input_file, "model", "the model's " + key + " has no positive deviation");
  return scale;
}

}  // namespace

void put_scales(Metadata& m, std::span<const SeriesScales> series) {
  m["series"] = std::to_string(series.size());
  m["horizon"] = std::to_string(series[0].ahead.size());
  for (std::size_t s = 0; s < series.size(); ++s) {
    m[series_key(s) + "column"] = series[s].column;
    for (std::size_t h = 0; h < series[s].ahead.size(); ++h) {
      m[scale_key(s, h) + ".mean"] = exact_text(series[s].ahead[h].mean);
      m[scale_key(s, h) + ".deviation"] = exact_text(series[s].ahead[h].deviation);
    }
  }
}

std::vector<SeriesScales> get_scales(const Metadata& m) {
  const std::int64_t n_series = count_of(m, "series"), horizon = count_of(m, "horizon");
  std::vector<SeriesScales> series;
  for (std::int64_t s = 0; s < n_series; ++s) {
    SeriesScales& scales = series.emplace_back();
    const std::string column = series_key(s) + "column";
    if (n_series > 1 || m.contains(column)) scales.column = get_text(m, column);
    for (std::int64_t h = 0; h < horizon; ++h) scales.ahead.push_back(scale_of(m, scale_key(s, h)));
  }
  return series;
}

namespace {

// Stores the cell in use if it is a text cell, because the weights depend on it.
void put_text_cell(Metadata& m, const RecurrentModelOptions& o) {
  for (const TextCell& cell : o.cells) {
    if (cell.name != o.cell) continue;
    std::string& states = m["model.cell.states"];
    for (const std::string& state : cell.states) states += (states.empty() ? "" : ",") + state;
    m["model.cell.step"] = cell.step;
    m["model.cell.y"] = cell.y;
  }
}

void get_text_cell(const Metadata& m, RecurrentModelOptions& o) {
  if (!m.contains("model.cell.step")) return;
  const TextPlace place{"model metadata", 0, 1};
  TextCell cell{.name = o.cell, .states = {}, .step = get_text(m, "model.cell.step"), .y = get_text(m, "model.cell.y"),
                .place = place, .step_place = place, .y_place = place};
  std::string_view states = get_text(m, "model.cell.states");
  for (std::size_t comma = states.find(','); comma != std::string_view::npos; comma = states.find(',')) {
    cell.states.emplace_back(states.substr(0, comma));
    states.remove_prefix(comma + 1);
  }
  cell.states.emplace_back(states);
  o.cells = {std::move(cell)};
}

}  // namespace

void put_model_options(Metadata& m, const RecurrentModelOptions& o) {
  m["model.cell"] = o.cell;
  m["model.hidden"] = std::to_string(o.hidden);
  m["model.layers"] = std::to_string(o.layers);
  m["model.bidirectional"] = std::string(1, o.bidirectional ? '1' : '0');
  m["model.bias"] = std::string(1, o.bias ? '1' : '0');
  m["model.dropout"] = exact_text(o.dropout);
  m["model.projection"] = std::to_string(o.projection);
  m["model.nonlinearity"] = word_of(o.nonlinearity);
  m["model.reset_after"] = std::string(1, o.reset_after ? '1' : '0');
  m["model.peephole"] = std::string(1, o.peephole ? '1' : '0');
  m["model.stack"] = word_of(o.skip);
  for (std::size_t k = 0; k < o.front.size(); ++k) m["model.front." + std::to_string(k)] = o.front[k];
  put_text_cell(m, o);
}

RecurrentModelOptions get_model_options(const Metadata& m) {
  RecurrentModelOptions o;
  o.cell = get_text(m, "model.cell");
  o.hidden = get_integer(m, "model.hidden");
  o.layers = static_cast<int>(get_integer(m, "model.layers"));
  o.bidirectional = get_integer(m, "model.bidirectional") != 0;
  o.bias = get_integer(m, "model.bias") != 0;
  o.dropout = get_double(m, "model.dropout");
  o.projection = get_integer(m, "model.projection");
  o.nonlinearity = from_word<Nonlinearity>(get_text(m, "model.nonlinearity"), "model.nonlinearity");
  o.reset_after = get_integer(m, "model.reset_after") != 0;
  o.peephole = get_integer(m, "model.peephole") != 0;
  if (m.contains("model.stack"))  // older models have plain ones
    o.skip = from_word<SkipConnection>(get_text(m, "model.stack"), "model.stack");
  for (std::string key; m.contains(key = "model.front." + std::to_string(o.front.size()));)
    o.front.push_back(get_text(m, key));
  get_text_cell(m, o);
  return o;
}

Value Readout::embedding(const Scope& scope, Value ids, std::int64_t tokens, std::int64_t width) const {
  return embedding_layer(scope, ids, tokens, width,
                         tied ? Initializer::uniform(k_tied_embedding_start) : Initializer::normal(1));
}

Value Readout::logits(const Scope& scope, const Scope& embedding, Value y, std::int64_t tokens,
                      std::int64_t width) const {
  if (!tied) return linear_layer(scope, y, tokens);
  const std::int64_t given = y.shape()[y.rank() - 1];
  if (given != width)
    throw Error(ErrorKind::usage, "model",
                "tied = true needs an embedding as wide as the input of the output layer; got " +
                    std::to_string(width) + " and " + std::to_string(given),
                "Set embedding = " + std::to_string(given));
  return tied_linear_layer(scope, embedding, y, tokens);
}

std::vector<std::string> get_list(const Metadata& metadata, const std::string& key) {
  return entries_of(get_text(metadata, key));
}

Lexicon get_lexicon(const Metadata& metadata, const std::string& key) {
  return Lexicon::from_lines(get_text(metadata, key), "model metadata '" + key + "'");
}

}  // namespace unroll
