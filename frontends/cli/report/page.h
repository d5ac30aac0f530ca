// SPDX-License-Identifier: Apache-2.0
// One self-contained HTML file: runs side by side, results of their models, and tables from other commands.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/cli/run/run_record.h"
#include "unroll/tasks/predict.h"

namespace unroll::cli {

// Output of a command: JSON becomes tables; other text is shown unchanged.
struct Attachment {
  std::string name;
  std::string text;
};
// Results of a run's best checkpoint on its test set.
struct TestResult {
  std::string problem;  // reason for missing or partial results
  std::string note;     // results omitted to save time
  std::map<std::string, double> metrics;
  std::map<std::string, std::map<std::string, double>> baselines;  // by method
  std::string examples;                                            // HTML
};
// `results` has one entry per run, in order, or is empty.
std::string html_page(const std::vector<RunRecord>& runs, const std::vector<Attachment>& attachments,
                      const std::vector<TestResult>& results = {});

// `predict --explain-attention`: returns one self-contained HTML file with the attention of each generated word, and
// p_gen. A map without `p_gen` is shown without the column.
std::string attention_page(const std::string& title, const std::vector<WrittenAttention>& maps);

// Returns a page up to its body: the heading is the title.
std::string page_head(const std::string& title, const std::string& style);

// Sections of the page: page_runs.cc, page_ablation.cc, page_tables.cc.
std::string run_sections(const std::vector<RunRecord>& runs, const std::vector<TestResult>& results);
std::string attached_section(const Attachment& attachment, int& n_pictures);
// Returns "" if `ablation` did not write the text.
std::string ablation_section(const Attachment& attachment);

// HTML of a table that scrolls in a box. With `labels` a narrow page shows each row as a list.
struct Cell {
  std::string html;
  bool is_number = false;
};
Cell text_cell(const std::string& text);
Cell number_cell(const std::string& text);
struct TableOptions {
  bool as_cards = false;  // each row is a list if the page is narrow
};
std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<Cell>>& rows,
                       TableOptions options = {});

}  // namespace unroll::cli
