// SPDX-License-Identifier: Apache-2.0
// Which candidate is the fastest, and the text in which that is kept: it is read as it was written, and nothing else is
// a choice.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backends/common/autotune/choice.h"

using namespace unroll::common;

namespace {

const Choice k_choice{{{"STANDARD", 812345}, {"PERSIST_STATIC", 401000}, {"PERSIST_DYNAMIC"}}, 1};

std::string chosen_of(std::vector<Candidate> candidates) {
  const auto choice = choose(std::move(candidates));
  return choice ? choice->best().name : "none";
}

}  // namespace

TEST_CASE("the fastest candidate is chosen, unless the preferred one is within five percent") {
  CHECK(chosen_of({{"a", 100}, {"b", 94}, {"c", 93}}) == "c");
  CHECK(chosen_of({{"a", 100}, {"b", 95}}) == "b");
  CHECK(chosen_of({{"a", 100}, {"b", 96}}) == "a");
  CHECK(chosen_of({{"a", 100}, {"b", 50}, {"c", 50}}) == "b");
  CHECK(chosen_of({{"a"}, {"b", 100}, {"c", 97}}) == "b");  // the first that runs is preferred
  CHECK(chosen_of({{"a"}, {"b"}}) == "none");
  CHECK(chosen_of({}) == "none");
  CHECK(chosen_of({{"a", 0}, {"b", 0}}) == "a");
  CHECK(chosen_of({{"a", INT64_MAX}, {"b", 1}}) == "b");
}

TEST_CASE("a choice is read as it was written, and named in reports") {
  const std::string text = print_choice(k_choice);
  CHECK(text == "choice 1\n- STANDARD 812345\n+ PERSIST_STATIC 401000\n- PERSIST_DYNAMIC refused\n");
  REQUIRE(parse_choice(text));
  CHECK(*parse_choice(text) == k_choice);
  CHECK(times_text(k_choice) == "STANDARD 0.812 ms, PERSIST_STATIC 0.401 ms; refused: PERSIST_DYNAMIC");
}

TEST_CASE("nothing else is a choice") {
  const std::string good = print_choice(k_choice);
  for (std::size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    CHECK_FALSE((parse_choice(good.substr(0, at)) && good[at - 1] != '\n'));
    std::string bad = good;
    bad[at] = '\x01';
    CHECK_FALSE(parse_choice(bad));
  }
  const std::string first = "choice 1\n";
  for (const char* rest : {"", "+ a 1", "+ a\n", "+ a \n", "+ a -1\n", "+ a 01\n", "+ a 1 \n", "+  1\n",
                           "+ a refused\n", "- a 1\n", "+ a 1\n+ b 1\n", "+ a/b 1\n", "* a 1\n",
                           "+ a 9223372036854775808\n", "+ a 1\n\n", "+ a 1\r\n"}) {
    CAPTURE(std::string(rest));
    CHECK_FALSE(parse_choice(first + rest));
  }
  CHECK(parse_choice(first + "+ a 9223372036854775807\n"));
}

TEST_CASE("names, candidates and texts have a limit") {
  const auto with = [](std::size_t length, std::size_t n) {
    std::string text = "choice 1\n";
    for (std::size_t k = 0; k < n; ++k) text += (k == 0 ? "+ " : "- ") + std::string(length, 'x') + " 1\n";
    return parse_choice(text).has_value();
  };
  CHECK(with(k_longest_candidate, 4));
  CHECK_FALSE(with(k_longest_candidate + 1, 4));
  CHECK(with(100, k_most_candidates));
  CHECK_FALSE(with(100, k_most_candidates + 1));
  CHECK_FALSE(with(1, 100000));
}
