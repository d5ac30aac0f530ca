// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "core/data/batch/shuffle.h"
#include "core/data/batch/streams.h"
#include "core/data/series/series_rows.h"
#include "core/data/series/windows.h"
#include "core/data/text/text.h"
#include "tests/training/csv_table.h"
#include "unroll/support/error.h"

namespace test_data {

using namespace unroll;
using unroll::testing::CsvTable;

namespace {

template <class F>
std::string error_text(ErrorKind kind, const F& call) {
  try {
    call();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  FAIL("no error");
  return {};
}
bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("valid UTF-8 of every length decodes and encodes back") {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const auto text = decode_utf8(bytes, "t");
  CHECK(text == std::vector<char32_t>{U'a', 0xE9, 0x20AC, 0x1F600});
  std::string back;
  for (const char32_t c : text) append_utf8(back, c);
  CHECK(back == bytes);
}

TEST_CASE("text that is not UTF-8 is refused with the byte offset") {
  struct Row {
    const char* why;
    std::string bytes;
    int at;
  };
  const Row rows[] = {
      {"latin-1", "caf\xE9!", 3},          {"lone continuation", "ab\x80", 2},
      {"overlong slash", "\xC0\xAF", 0},   {"overlong three", "x\xE0\x80\xAF", 1},
      {"surrogate", "\xED\xA0\x80", 0},    {"above U+10FFFF", "\xF4\x90\x80\x80", 0},
      {"cut at the end", "ok\xE2\x82", 2}, {"five bytes", "\xF8\x88\x80\x80\x80", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.why);
    CHECK(mentions(error_text(ErrorKind::input_file, [&] { decode_utf8(row.bytes, "book.txt"); }),
                   "byte " + std::to_string(row.at + 1)));
  }
}

TEST_CASE("a vocabulary numbers characters in code point order and the last number is the unknown one") {
  const auto text = decode_utf8("banana\xC3\xA9", "t");
  const Vocabulary v = Vocabulary::of(text, "t");
  CHECK(v.size() == 5);
  CHECK(v.id(U'a') == 0);
  CHECK(v.id(0xE9) == 3);
  CHECK(v.id(U'z') == v.unknown());
  CHECK(v.text(1) == "b");
  const Vocabulary again = Vocabulary::from_characters(v.characters(), "t");
  CHECK(again.encode(text) == v.encode(text));
  CHECK_THROWS_AS(Vocabulary::from_characters("ba", "t"), Error);
}

TEST_CASE("CSV: header, quotes, CRLF, blank lines and a byte order mark") {
  const CsvTable t =
      CsvTable::parse("\xEF\xBB\xBF\"YEAR\",\"a \"\"b\"\"\"\r\n1700,5\r\n\r\n\"1701\", 11.5 \r\n", "f.csv");
  CHECK(t.header() == std::vector<std::string>{"YEAR", "a \"b\""});
  CHECK(t.n_rows() == 2);
  CHECK(t.number(1, 0) == 1701);
  CHECK(t.number(1, t.column("")) == 11.5);
  CHECK(t.column("YEAR") == 0);
  CHECK(mentions(error_text(ErrorKind::usage, [&] { t.column("year"); }), "YEAR"));
}

TEST_CASE("CSV: a quoted cell may have line breaks, and rows are counted by their first line") {
  const std::string text = "v,\"a\"\"\nb\r\n\",w\n1,\"x, \n\ny\",3\n\n4,z,5\n";
  std::vector<std::pair<std::string, std::size_t>> rows;
  csv_rows(lines_of(text))([&](const Line& row) { rows.emplace_back(row.text, row.number); });
  using Rows = std::vector<std::pair<std::string, std::size_t>>;
  CHECK(rows == Rows{{"v,\"a\"\"\nb\n\",w", 1}, {"1,\"x, \n\ny\",3", 4}, {"", 7}, {"4,z,5", 8}});
  CHECK(first_csv_row(text) == rows[0].first);
  const CsvTable t = CsvTable::parse(text.substr(text.find("1,")), "f");
  CHECK((t.n_rows() == 2 && t.number(0, 2) == 3 && t.number(1, 0) == 4));
  CHECK(mentions(error_text(ErrorKind::input_file, [&] { (void)t.number(1, 1); }), "line 5, column 2"));
  CHECK(mentions(error_text(ErrorKind::input_file, [&] { CsvTable::parse(text, "f"); }),
                 "line 1, column 2: a column name has a line break"));
  const std::string open = "1,2\n3,\"4\n5,6\n";
  CHECK(mentions(error_text(ErrorKind::input_file, [&] { CsvTable::parse(open, "f"); }),
                 "line 2, column 2: misplaced quote"));
  const std::string endless = "1,\"" + std::string(CsvRows::k_max_row, '2') + "\n3\",4\n";
  CHECK(mentions(error_text(ErrorKind::input_file, [&] { CsvTable::parse(endless, "f"); }), "line 1, column 2"));
}

TEST_CASE("CSV: a missing value is a NaN only where it is allowed") {
  const CsvTable t = CsvTable::parse("d,v\n1,2\n2,\n", "f.csv");
  CHECK(std::isnan(t.number(1, 1, CsvTable::Missing::as_nan)));
  CHECK(mentions(error_text(ErrorKind::input_file, [&] { (void)t.number(1, 1); }), "line 3, column 2"));
}

TEST_CASE("CSV: what is not a finite number is refused with line and column") {
  for (const std::string cell : {"nan", "inf", "-inf", "1e999", "1e39", "0x10", "1,5x", "abc", "1 2"}) {
    CAPTURE(cell);
    const std::string text = "1,2\n3,\"" + cell + "\"\n";
    const std::string error =
        error_text(ErrorKind::input_file, [&] { (void)CsvTable::parse(text, "f.csv").number(1, 1); });
    CHECK(mentions(error, "f.csv"));
    CHECK(mentions(error, "line 2, column 2"));
  }
}

TEST_CASE("CSV: damaged structure is refused") {
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("1,2\n3\n", "f"); }), "line 2"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("1,\"2\n", "f"); }), "quote"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("1,2\"3\n", "f"); }), "quote"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("", "f"); }), "no data rows"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("a,b\n", "f"); }), "no data rows"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("1,2,3\n", "f", {2, 100}); }), "columns"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("1,2\n1,2\n", "f", {2, 3}); }), "cells"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("a,b\n1,\xFC\n", "f"); }),
                 "line 2: is not UTF-8 at byte 3. It looks like Latin-1. Convert it: iconv -f LATIN1"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("\xFF\xFE" "a", "f"); }), "iconv -f UTF-16"));
  CHECK(mentions(error_text(ErrorKind::input_file, [] { CsvTable::parse("a,b\r1,2\r", "f"); }), "tr '\\r' '\\n'"));
}

TEST_CASE("streams cut a text into B pieces side by side that predict the next character") {
  std::vector<std::int32_t> ids(23);
  std::iota(ids.begin(), ids.end(), 0);
  const auto tokens = std::make_shared<TokenList>(ids);
  const Streams streams(tokens, {2, 4, true}, "t");
  CHECK(streams.per_stream() == 11);
  CHECK(streams.n_windows() == 3);
  const auto w = streams.window(1);
  CHECK(w.ids.shape() == Shape{4, 2});
  CHECK(w.ids.at(0) == 4);
  CHECK(w.ids.at(1) == 15);
  for (std::int64_t e = 0; e < 8; ++e) CHECK(w.labels.at(e) == w.ids.at(e) + 1);
  CHECK(streams.window(2).ids.shape() == Shape{3, 2});
  CHECK(Streams(tokens, {2, 4, false}, "t").n_windows() == 2);
  CHECK_THROWS_AS(Streams(tokens, {24, 4, true}, "t"), Error);
}

TEST_CASE("a permutation holds every number once and is a function of seed and epoch") {
  auto order = permutation(1000, 5, 3);
  CHECK(order == permutation(1000, 5, 3));
  CHECK(order != permutation(1000, 5, 4));
  CHECK(order != permutation(1000, 6, 3));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("each place of a permutation is taken by each number about equally often") {
  // 6000 draws of 3! orders: the largest of the six counts' deviations is within 5 standard deviations (29) of 1000.
  std::map<std::vector<std::int64_t>, int> count;
  for (int epoch = 0; epoch < 6000; ++epoch) ++count[permutation(3, 9, epoch)];
  CHECK(count.size() == 6);
  for (const auto& [order, n] : count) CHECK(std::abs(n - 1000) < 145);
}

TEST_CASE("a gap is read as the last value and is never a target") {
  using Numbers = std::vector<std::int64_t>;
  const auto list = [](const Runs& runs) {
    Numbers numbers;
    runs.for_each([&](std::int64_t n) { numbers.push_back(n); });
    return numbers;
  };
  for (const bool hold : {true, false}) {
    const auto series = [&](const char* csv, std::vector<std::string> columns) {
      return SeriesRows(RecordFile(csv, "t"), {.columns = columns, .date = {}, .csv = {}}, hold);
    };
    const auto levels = [](const SeriesRows& rows) {
      SeriesPiece piece;
      rows.read(0, rows.size(), piece);
      return piece.levels;
    };
    const SeriesRows one = series("d,a\n0,\n1,1\n2,2\n3,\n4,4\n5,5\n", {"a"});
    CHECK(levels(one) == std::vector<double>{1, 2, 2, 4, 5});
    const auto targets = [&](std::int64_t end, const TargetOptions& o) {
      return list(targets_between(one.observed(), 0, end, o));
    };
    CHECK(targets(5, {1, 1, 0}) == Numbers{1, 3, 4});
    CHECK(targets(4, {1, 1, 0}) == Numbers{1, 3});
    CHECK(targets(5, {2, 1, 1}) == Numbers{3, 4});
    CHECK(targets(5, {1, 3, 0}) == Numbers{1, 2});
    CHECK(targets(5, {1, 1, 0, 2}) == Numbers{1, 3});
    CHECK(targets(5, {1, 1, 0, 3}) == Numbers{1, 4});
    const SeriesRows two = series("a,b\n0,\n,\n2,12\n,13\n4,\n5,\n", {"b", "a"});
    CHECK(levels(two) == std::vector<double>{12, 2, 13, 2, 13, 4, 13, 5});
    SeriesPiece piece;
    two.read(1, 3, piece);
    CHECK(piece.level(2, 1) == 4);
    CHECK(piece.is_observed(1, 0));
    CHECK_FALSE(piece.is_observed(2, 0));
    CHECK(list(targets_between(two.observed(), 0, 4, {1, 1})) == Numbers{1, 2, 3});
    CHECK_THROWS_AS(series("a,b\n1,\n2,\n", {"a", "b"}), Error);
  }
}

TEST_CASE("rising numbers are kept as runs and found by their index") {
  for (const std::int64_t step : {1, 3}) {
    Runs runs(step);
    std::vector<std::int64_t> numbers;
    for (std::int64_t n = 2, i = 0; i < 200; n += i % 17 == 0 ? step + 4 : step, ++i) {
      runs.add(n);
      numbers.push_back(n);
      CHECK(runs[runs.size() - 1] == n);
    }
    REQUIRE(runs.size() == 200);
    for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(runs[static_cast<std::int64_t>(i)] == numbers[i]);
    std::size_t i = 0;
    runs.for_each([&](std::int64_t n) { CHECK(n == numbers[i++]); });
    CHECK(i == numbers.size());
  }
}

TEST_CASE("a z-score has mean 0 and deviation 1 on what it was fitted to") {
  const std::vector<double> values{1, 2, 3, 10};
  const auto fit = [](const std::vector<double>& to) {
    ZScoreFit f(static_cast<std::int64_t>(to.size()));
    for (const double v : to) f.first(v);
    for (const double v : to) f.second(v);
    return f.score();
  };
  const ZScore z = fit(values);
  double mean = 0, square = 0;
  for (const double v : values) {
    mean += z.apply(v) / 4;
    square += z.apply(v) * z.apply(v) / 4;
  }
  CHECK(mean == doctest::Approx(0).epsilon(1e-12));
  CHECK(square == doctest::Approx(1).epsilon(1e-12));
  CHECK(fit({2, 2}).deviation == 1);
  // The mean of equal values is off by a rounding; what is left must not become a deviation of 1e-17.
  CHECK(fit(std::vector<double>(85, 0.1)).deviation == 1);
  CHECK(fit({1e9, 1e9 + 1, 1e9 - 1}).deviation == doctest::Approx(std::sqrt(2.0 / 3)));
}

TEST_CASE("least squares finds the weights of an autoregression") {
  std::vector<double> exact{1, -2};
  while (exact.size() < 40) exact.push_back(0.4 + 0.6 * exact.back() - 0.95 * exact[exact.size() - 2]);
  const auto before = [&](std::size_t t) { return std::span<const double>(exact).subspan(t - 2, 2); };
  Autoregression ar(2);
  for (std::size_t t = 5; t < 35; ++t) ar.learn(before(t), exact[t]);
  ar.solve();
  // The ridge of 1e-9 moves the solution by about that much times the condition of the problem (about 10).
  CHECK(ar.fit().intercept(0) == doctest::Approx(0.4).epsilon(1e-6));
  CHECK(ar.fit().weight(0, 0) == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(ar.fit().weight(1, 0) == doctest::Approx(-0.95).epsilon(1e-6));
  const std::vector<double> path = ar.predict(before(33), 3);  // knows nothing from 33 on
  CHECK(path.size() == 3);
  for (std::size_t h = 0; h < 3; ++h) CHECK(path[h] == doctest::Approx(exact[33 + h]).epsilon(1e-5));
}

}  // namespace test_data
