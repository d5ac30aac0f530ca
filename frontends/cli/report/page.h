// SPDX-License-Identifier: Apache-2.0
// One HTML file that needs no other: runs side by side, what their models do, and tables of what other commands
// measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/cli/run/run_record.h"

namespace unroll::cli {

// What a command printed: JSON becomes tables, anything else is shown as it is.
struct Attachment {
  std::string name;
  std::string text;
};
// The best checkpoint of a run on its test set.
struct TestResult {
  std::string problem;  // why there is no result, or not all of it
  std::string note;     // what was left out to save time
  std::map<std::string, double> metrics;
  std::map<std::string, std::map<std::string, double>> baselines;  // by method
  std::string examples;                                            // HTML
};
// `results` are those of the runs, in their order, or none.
std::string html_page(const std::vector<RunRecord>& runs, const std::vector<Attachment>& attachments,
                      const std::vector<TestResult>& results = {});

// Parts of the page: page_runs.cc, page_ablation.cc, page_tables.cc.
std::string run_sections(const std::vector<RunRecord>& runs, const std::vector<TestResult>& results);
std::string attached_section(const Attachment& attachment, int& n_pictures);
// "" when the text is not what `ablation` writes.
std::string ablation_section(const Attachment& attachment);

// HTML of a table that scrolls in its own box. With `labels` a narrow page shows each row as a list.
struct Cell {
  std::string html;
  bool is_number = false;
};
Cell text_cell(const std::string& text);
Cell number_cell(const std::string& text);
struct TableOptions {
  bool as_cards = false;       // each row a list where the page is narrow
  std::string caption = {};
};
std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<Cell>>& rows,
                       const TableOptions& options = {});

}  // namespace unroll::cli
