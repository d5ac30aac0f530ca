// SPDX-License-Identifier: Apache-2.0
// Kinds of options. Each kind has one form in --help and messages. Help shows "[allowed values; default: value]".
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // CLI11: only frontends/cli/options includes it
class App;
class Option;
}  // namespace CLI

namespace unroll::cli {

// Inclusive bounds; messages suggest `example`. An infinite bound is no bound.
struct Bounds {
  double lowest = 0;
  double highest = HUGE_VAL;
  double example = 1;
};

void add_flag(CLI::App& app, const char* name, bool& to, const char* doc);
// A value out of bounds is refused with the range and an example. `fallback` describes the default if the variable does
// not: "the config's train.seed".
CLI::Option* add_integer(CLI::App& app, const char* name, std::int64_t& to, const char* doc, Bounds bounds);
CLI::Option* add_integer(CLI::App& app, const char* name, std::optional<std::int64_t>& to, const char* fallback,
                         const char* doc, Bounds bounds);
CLI::Option* add_number(CLI::App& app, const char* name, double& to, const char* doc, Bounds bounds);
// Refuses an unknown word, and lists the nearest one and all words.
CLI::Option* add_choice(CLI::App& app, const char* name, std::string& to, const char* doc,
                        std::vector<std::string> words);
// `what` is the placeholder of the value: FILE. An empty default is shown as `fallback`; if that is empty too, the help
// shows no default.
CLI::Option* add_text(CLI::App& app, const char* name, std::string& to, const char* what, const char* doc,
                      const char* fallback = "");
CLI::Option* add_text(CLI::App& app, const char* name, std::optional<std::string>& to, const char* what,
                      const char* doc, const char* fallback);
// Comma-separated, or repeated.
CLI::Option* add_texts(CLI::App& app, const char* name, std::vector<std::string>& to, const char* what,
                       const char* doc, const char* fallback = "");

// An operand: `unroll train CONFIG`. It is required.
CLI::Option* add_operand(CLI::App& app, const char* name, std::string& to, const char* doc);
CLI::Option* add_operands(CLI::App& app, const char* name, std::vector<std::string>& to, const char* doc);

// Overrides the default that --help shows.
void show_default(CLI::Option* option, const char* text);
void allow_only(CLI::Option* option, std::vector<std::string> words);
void make_required(CLI::Option* option, bool required = true);
// Adds text below the options: example calls, one per line, then further notes.
void add_examples(CLI::App& app, const char* text);

}  // namespace unroll::cli
