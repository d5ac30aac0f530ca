// SPDX-License-Identifier: Apache-2.0
// Each thing that can be odd about data is found where it is, and nothing is found in data that are well.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/data/data_check.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// "warning lengths", "error numbers"
std::vector<std::string> found(const DataCheck& c) {
  std::vector<std::string> list;
  for (const DataFinding& f : c.findings) list.push_back((f.error ? "error " : "warning ") + f.check);
  return list;
}
std::string said(const DataCheck& c) {
  std::string text;
  for (const DataFinding& f : c.findings) text += f.what + "\n";
  return text;
}
double figure(const DataCheck& c, const std::string& name) {
  for (const auto& row : c.figures)
    if (row.first == name) return row.second;
  return -1;
}
using Names = std::vector<std::string>;

// Sentences of four tokens out of ten, none twice.
std::string sentences(int n, const std::string& more = {}) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    int number = i;
    for (int t = 0; t < 4; ++t, number /= 10)
      text += "w" + std::to_string(number % 10) + "\t" + (number % 2 == 0 ? "even" : "odd") + "\n";
    text += "\n";
  }
  return text + more;
}
std::string pairs(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "number " + std::to_string(i) + "\tword " + std::to_string(i % 7) + "\n";
  return text;
}
std::string rows(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += std::to_string(i) + "," + std::to_string(i * i) + "," + std::to_string(i % 3) + "\n";
  return text;
}
std::string series(int n) {
  std::string text = "t,v\n";
  for (int i = 0; i < n; ++i) text += std::to_string(i) + "," + std::to_string(i % 17) + "\n";
  return text;
}
ClassifyOptions two_steps() {
  ClassifyOptions o;
  o.steps = 2;
  return o;
}
std::string prose(int n, int period) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += "this is line number " + std::to_string(i % period) + " of a text whose lines differ by it\n";
  return text;
}

}  // namespace

TEST_CASE("data that are well give figures and no finding") {
  CHECK(found(check_data(LabelOptions{}, sentences(300), "f")) == Names{});
  CHECK(found(check_data(TranslateOptions{}, pairs(300), "f")) == Names{});
  CHECK(found(check_data(two_steps(), rows(90), "f")) == Names{});
  CHECK(found(check_data(ForecastOptions{}, series(300), "f")) == Names{});
  CHECK(found(check_data(LanguageModelOptions{}, prose(300, 1000), "f")) == Names{});
  const DataCheck c = check_data(LabelOptions{}, sentences(300), "f");
  CHECK(figure(c, "rows in training") == 210);
  CHECK(figure(c, "rows in validation") == 30);
  CHECK(figure(c, "rows in test") == 60);
  CHECK(figure(c, "longest (tokens)") == 4);
  CHECK(figure(c, "vocabulary") == 10);
  CHECK(figure(c, "unknown in test") == 0);
  CHECK(figure(c, "labels") == 2);
}

TEST_CASE("empty lines are named by number, where they mean nothing") {
  const DataCheck labels = check_data(LabelOptions{}, "\n\n" + sentences(300), "f");
  CHECK(found(labels) == Names{"warning empty lines"});
  CHECK(contains(said(labels), "at line 2"));
  const DataCheck lines = check_data(TranslateOptions{}, pairs(100) + "\n \r\n", "f");
  CHECK(contains(said(lines), "2 empty lines are skipped; first at line 101, 102"));
  CHECK(found(check_data(two_steps(), rows(60) + "\n", "f")) == Names{"warning empty lines"});
  CHECK(found(check_data(LanguageModelOptions{}, "a\n\n\n\nb\n\n\n", "f")).at(0) == "warning empty lines");
}

TEST_CASE("a row far longer than the others is named") {
  std::string row;
  for (int t = 0; t < 33; ++t) row += "w1\todd\n";
  const DataCheck c = check_data(LabelOptions{}, sentences(300, row), "f");
  CHECK(found(c) == Names{"warning lengths"});
  CHECK(contains(said(c), "1 row is longer than 8 times the median (4 tokens); the longest, at line 1501, has 33"));
  CHECK(found(check_data(TranslateOptions{}, pairs(300) + "long\t" + std::string(300, 'w') + "\n", "f")).at(0) ==
        "warning lengths");
}

TEST_CASE("what validation and test share with training is counted") {
  const DataCheck c = check_data(LabelOptions{}, sentences(100) + sentences(100), "f");
  CHECK(found(c) == Names{"warning duplicates", "warning duplicates"});
  CHECK(figure(c, "duplicates in test") > 0.5);  // the other of two is in training with probability 0.7
  CHECK(figure(c, "duplicates in test") < 0.9);
  CHECK(found(check_data(TranslateOptions{}, pairs(150) + pairs(150), "f")).at(0) == "warning duplicates");
  CHECK(found(check_data(two_steps(), rows(60) + rows(60), "f")) == Names{"warning duplicates", "warning duplicates"});
  CHECK(found(check_data(LanguageModelOptions{}, prose(300, 100), "f")) ==
        Names{"warning duplicates", "warning duplicates"});
}

TEST_CASE("tokens that training does not have are unknown") {
  LabelOptions rare;
  rare.vocabulary = 8;  // of ten
  const DataCheck c = check_data(rare, sentences(300), "f");
  CHECK(figure(c, "vocabulary") == 8);
  CHECK(figure(c, "unknown in training") > 0.05);
  CHECK(found(c) == Names{"warning vocabulary", "warning vocabulary", "warning vocabulary"});
  LanguageModelOptions words;
  words.tokens = "words";
  words.validation = 0.5;
  std::string text = prose(100, 1000);
  for (int i = 0; i < 700; ++i) text += "x" + std::to_string(i) + "\n";
  CHECK(contains(said(check_data(words, text, "f")), "of the tokens of the validation set are unknown"));
}

TEST_CASE("labels that are rare, missing or nearly all are named") {
  std::string one;
  for (int i = 0; i < 300; ++i) one += std::to_string(i) + "," + std::to_string(i) + "," + (i == 7 ? "1" : "0") + "\n";
  const DataCheck c = check_data(two_steps(), one, "f");
  CHECK(contains(said(c), "'0' is "));
  CHECK((contains(said(c), "rare in the training set: '1'") || contains(said(c), "absent from the training set: '1'")));
  std::string same;
  for (int i = 0; i < 50; ++i) same += std::to_string(i) + ",1,0\n";
  CHECK(contains(said(check_data(two_steps(), same, "f")), "all rows have the same label"));
  CHECK(figure(check_data(two_steps(), same, "f"), "columns that never change") == 1);
}

TEST_CASE("numbers that are missing, NaN or infinite are errors with their place, in a series gaps are none") {
  for (const char* cell : {"nan", "inf", "1e999", "", "x"}) {
    const DataCheck c = check_data(two_steps(), rows(30) + cell + ",2,1\n", "rows.csv");
    CAPTURE(cell);
    CHECK(found(c).at(0) == "error numbers");
    CHECK(contains(said(c), "line 31"));
  }
  ForecastOptions strict;
  strict.missing = "error";
  CHECK(found(check_data(strict, series(300) + "300,nan\n", "f")).at(0) == "error numbers");
  const DataCheck gap = check_data(ForecastOptions{}, series(300) + "300,\n", "f");
  CHECK(found(gap) == Names{});
  CHECK(figure(gap, "missing numbers") == 1);
  CHECK(found(check_data(ForecastOptions{}, series(300) + "300,5000\n", "f")) == Names{"warning numbers"});
  CHECK(contains(said(check_data(ForecastOptions{}, "v\n1\n1\n1\n1\n2\n", "f")), "little to learn"));
}

TEST_CASE("documents are looked at as words with a label each") {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += std::string(i % 2 == 0 ? "even" : "odd") + "\tIt is number w" + std::to_string(i % 10) + " here. Place p" +
            std::to_string(i / 10) + " is full.\n";
  const DataCheck well = check_data(DocumentOptions{}, text, "f");
  CHECK(found(well) == Names{});
  CHECK(figure(well, "labels") == 2);
  CHECK(figure(well, "longest (words)") == 9);
  CHECK(found(check_data(DocumentOptions{}, text + text, "f")) == Names{"warning duplicates", "warning duplicates"});
}

TEST_CASE("a file that its reader refuses is an error, not an end") {
  CHECK(found(check_data(LabelOptions{}, "no tab\n", "f")) == Names{"error file"});
  CHECK(found(check_data(TranslateOptions{}, "no tab\n", "f")) == Names{"error file"});
  CHECK(found(check_data(two_steps(), "", "f")) == Names{"error file"});
  CHECK(found(check_data(LanguageModelOptions{}, "\xff\xfe", "f")) == Names{"error file"});
  LanguageModelOptions wrong;
  wrong.validation = 2;
  CHECK(found(check_data(wrong, "text", "f")) == Names{"error file"});
}

TEST_CASE("a column named date that has none is a warning of the check and of the task, with the setting to write") {
  std::string text = "date,v\n";
  for (int i = 0; i < 60; ++i) text += "week " + std::to_string(i) + "," + std::to_string(i % 7) + "\n";
  ForecastOptions o;
  o.window = 5;
  const DataCheck c = check_data(o, text, "f.csv");
  CHECK(found(c) == Names{"warning format"});
  CHECK(said(c) == make_forecast(o, text, "f.csv")->warnings().at(0) + "\n");
  CHECK(contains(said(c), "f.csv: column 'date' looks like dates ('week 0') but is not read"));
  CHECK(contains(said(c), "data.date = \"none\""));
  o.date = "none";
  CHECK(found(check_data(o, text, "f.csv")) == Names{});
}
