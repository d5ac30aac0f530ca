// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/tasks/task_row.h"

#include <fmt/format.h>

#include "core/data/file/gzip.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {

std::size_t data_memory_limit(const Config& config) {
  return bytes_of("data.memory_limit", config.text("data.memory_limit"));
}

std::shared_ptr<const Vfs::Reader> data_file(const Config& config, const std::string& path) {
  return unpacked(disk().open(path), path, data_memory_limit(config));
}

SplitSource split_source(const Config& config, std::string_view key, const std::string& folder) {
  const auto* file = std::get_if<std::string>(&config.value(key));
  if (!file) return config.number(key);
  if (file->empty()) config.refuse(key, "no file", "Give a share, such as 0.1, or the name of a file");
  const std::string path = data_path(config, key, folder);
  return {data_file(config, path), path};
}

std::vector<std::string> texts_of(const std::vector<InputLine>& lines) {
  std::vector<std::string> texts;
  for (const InputLine& line : lines) texts.push_back(line.error.empty() ? line.text : "");
  return texts;
}

std::string unit_of_tokens(const RunFolder& run) {
  const auto at = run.model.metadata.find("tokens");
  return at == run.model.metadata.end() ? "characters" : at->second;
}

void put_json(RowWriter::Json object, const InputLine& line, RowWriter& writer) {
  if (!line.error.empty()) object["error"] = line.error;
  writer.json(object);
}

std::vector<std::string> ranking_columns(std::int64_t top_k) {
  std::vector<std::string> columns{"label", "probability"};
  for (std::int64_t k = 2; k <= top_k; ++k) {
    columns.push_back(fmt::format("label_{}", k));
    columns.push_back(fmt::format("probability_{}", k));
  }
  return columns;
}

void put_labels(RowWriter::Json object, const std::vector<ScoredLabel>& labels, std::int64_t top_k,
                const InputLine& line, RowWriter& writer, std::vector<std::string> first) {
  if (writer.format() != RowFormat::jsonl) {
    std::vector<std::string> cells;
    for (const ScoredLabel& l : labels) cells.insert(cells.end(), {l.label, number_cell(l.probability)});
    cells.resize(2 * top_k);
    if (writer.is_table()) {
      first.insert(first.end(), cells.begin(), cells.end());
      return writer.row(first);
    }
    return writer.text(labels.empty() ? "\n" : fmt::format("{}\n", fmt::join(cells, "\t")));
  }
  object["label"] = labels.empty() ? RowWriter::Json() : RowWriter::Json(labels[0].label);
  object["probability"] = labels.empty() ? RowWriter::Json() : json_number(labels[0].probability);
  if (top_k > 1) {
    RowWriter::Json& top = object["top"] = RowWriter::Json::array();
    for (const ScoredLabel& l : labels)
      top.push_back({{"label", l.label}, {"probability", json_number(l.probability)}});
  }
  put_json(std::move(object), line, writer);
}

}  // namespace unroll::cli
