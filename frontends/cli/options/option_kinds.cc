// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/options/option_kinds.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>

#include "core/support/text/nearest_name.h"

namespace unroll::cli {
namespace {

std::string text_of(const Bounds& b) {
  return std::isinf(b.highest) ? fmt::format("{} or more", b.lowest) : fmt::format("{} to {}", b.lowest, b.highest);
}

template <class T> bool is_within(const std::string& text, const Bounds& bounds) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const auto number = static_cast<double>(value);
  return error == std::errc() && stopped == end && number >= bounds.lowest && number <= bounds.highest;
}

template <class T> CLI::Validator within(const char* kind, const std::string& name, const Bounds& bounds) {
  const auto check = [=](std::string& text) -> std::string {
    if (is_within<T>(text, bounds)) return {};
    return fmt::format("expected {}, {}, got \"{}\". Write for example: {} {}", kind, text_of(bounds), text, name,
                       bounds.example);
  };
  return {check, text_of(bounds)};
}

// "0 to 4096" for help.
CLI::Validator whole_number(const std::string& name, Bounds bounds) {
  return within<std::int64_t>("a whole number", name, bounds);
}

CLI::Validator any_number(const std::string& name, Bounds bounds) { return within<double>("a number", name, bounds); }

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string description = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto check = [words = std::move(words)](std::string& text) -> std::string {
    const std::vector<std::string_view> known(words.begin(), words.end());
    if (std::find(known.begin(), known.end(), text) != known.end()) return {};
    const std::string_view near = nearest_name(text, known);
    const std::string hint = near.empty() ? "" : fmt::format(" Did you mean {}?", near);
    return fmt::format("expected one of {}, got \"{}\".{}", fmt::join(known, ", "), text, hint);
  };
  return {check, description};
}

}  // namespace

void add_flag(CLI::App& app, const char* name, bool& to, const char* doc) { app.add_flag(name, to, doc); }

CLI::Option* add_integer(CLI::App& app, const char* name, std::int64_t& to, const char* doc, Bounds bounds) {
  return app.add_option(name, to, doc)->type_name("N")->default_str(fmt::format("{}", to))->check(
      whole_number(name, bounds));
}

CLI::Option* add_integer(CLI::App& app, const char* name, std::optional<std::int64_t>& to, const char* fallback,
                         const char* doc, Bounds bounds) {
  return app.add_option(name, to, doc)->type_name("N")->default_str(fallback)->check(whole_number(name, bounds));
}

CLI::Option* add_number(CLI::App& app, const char* name, double& to, const char* doc, Bounds bounds) {
  return app.add_option(name, to, doc)->type_name("X")->default_str(fmt::format("{}", to))->check(
      any_number(name, bounds));
}

CLI::Option* add_choice(CLI::App& app, const char* name, std::string& to, const char* doc,
                        std::vector<std::string> words) {
  return app.add_option(name, to, doc)->type_name("NAME")->default_str(to)->check(one_of(std::move(words)));
}

CLI::Option* add_text(CLI::App& app, const char* name, std::string& to, const char* what, const char* doc,
                      const char* fallback) {
  return app.add_option(name, to, doc)->type_name(what)->default_str(to.empty() ? fallback : to);
}

CLI::Option* add_text(CLI::App& app, const char* name, std::optional<std::string>& to, const char* what,
                      const char* doc, const char* fallback) {
  return app.add_option(name, to, doc)->type_name(what)->default_str(fallback);
}

CLI::Option* add_texts(CLI::App& app, const char* name, std::vector<std::string>& to, const char* what,
                       const char* doc, const char* fallback) {
  return app.add_option(name, to, doc)->type_name(what)->default_str(fallback)->delimiter(',')->allow_extra_args(false);
}

CLI::Option* add_operand(CLI::App& app, const char* name, std::string& to, const char* doc) {
  return app.add_option(name, to, doc)->type_name("")->required();
}

CLI::Option* add_operands(CLI::App& app, const char* name, std::vector<std::string>& to, const char* doc) {
  return app.add_option(name, to, doc)->type_name("")->required();
}

void show_default(CLI::Option* option, const char* text) { option->default_str(text); }
void allow_only(CLI::Option* option, std::vector<std::string> words) { option->check(one_of(std::move(words))); }
void make_required(CLI::Option* option, bool required) { option->required(required); }
void add_examples(CLI::App& app, const char* text) { app.footer(text); }

}  // namespace unroll::cli
