// SPDX-License-Identifier: Apache-2.0
// One HTML file that needs no other: runs side by side as curves, and tables of what other commands measured.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/run_record.h"

namespace unroll::cli {

// What a command printed: JSON becomes tables, anything else is shown as it is.
struct Attachment {
  std::string name;
  std::string text;
};
std::string html_page(const std::vector<RunRecord>& runs, const std::vector<Attachment>& attachments);

// Of the page: CSS and JavaScript (page_style.cc).
extern const char* const k_page_palette;  // colours by day and by night
extern const char* const k_page_style;
extern const char* const k_page_script;

}  // namespace unroll::cli
