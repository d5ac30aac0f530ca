// SPDX-License-Identifier: Apache-2.0
// What the first rows of a table say: each header, decimal and number is read as it is meant, or is named together with
// the setting that decides. Nothing is dropped, split or made a class without a word.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/data/table/first_rows.h"
#include "tests/training/csv_table.h"
#include "tests/training/small_tables.h"
#include "tests/training/small_tasks.h"
#include "tests/support/text.h"
#include "unroll/data/data_check.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::string counting(int from, int to) {
  std::string line;
  for (int i = from; i < to; ++i) line += (i > from ? "," : "") + std::to_string(i);
  return line;
}

enum class Said : std::uint8_t { nothing, note, warning };
struct HeaderCase {
  const char* name;
  std::string first;    // the first line
  std::string columns;  // of the rows below
  bool header;
  Said said = Said::nothing;  // beside the list of the columns
};

}  // namespace

TEST_CASE("forty first lines are headers or rows as they are meant, or a warning names data.header") {
  std::string many(601, 'f');
  many.back() = 'n';
  const std::vector<HeaderCase> cases = {
      {"names", "date,sales", "dn", true},
      {"names in quotes", "\"date\",\"sales\"", "dn", true},
      {"names with blanks", " date , sales ", "dn", true},
      {"byte order mark", "\xEF\xBB\xBF" "date,sales", "dn", true},
      {"an index without a name", ",sales", "in", true},
      {"a name that is empty", "date,,sales", "dnn", true},
      {"names that repeat", "a,a,b", "nnn", true},
      {"one name", "sales", "n", true},
      {"names of text columns", "name,species", "ts", true},
      {"names with digits", "v1,v2,label", "nns", true},
      {"a comment sign", "# a,b", "nn", true},
      {"a series without a name, by year", ",0", "yf", true, Said::note},
      {"a series without a name, by number", ",0", "in", true, Said::note},
      {"a series without a name, by date", ",0", "dn", true, Said::note},
      {"a frame without names, with its index", ",0,1,2", "ifff", true, Said::note},
      {"a frame without names", "0,1,2,3", "ffff", true, Said::note},
      {"a frame without names and a label", "0,1,2,3,4", "ffffs", true, Said::note},
      {"600 columns", counting(0, 601), many, true, Said::note},
      {"columns from 1", "1,2,3,4", "ffff", true, Said::note},
      {"columns of integers", "0,1,2,3", "nnnn", true, Said::note},
      {"years behind a name", "day,2023,2024", "inn", true, Said::note},
      {"years behind a name, dates below", "date,2023,2024", "dff", true, Said::note},
      {"years behind an empty name", ",2023,2024", "inn", true, Said::warning},
      {"years alone", "2019,2020,2021", "nnn", true, Said::warning},
      {"two years", "2023,2024", "nn", true, Said::warning},
      {"years and a label", "2019,2020,kind", "nns", true, Said::warning},
      {"dates as names", "2024-01,2024-02,2024-03", "nnn", true, Said::note},
      {"dates behind a name", "id,2024-01-01,2024-01-02", "inn", true, Said::note},
      {"numbers in quotes", "\"0\",\"1\"", "nn", true, Said::note},
      {"years in quotes", "\"1999\",\"2003\"", "nn", true, Said::note},
      {"nan as a name", "date,nan", "dn", true, Said::note},
      {"a country called NA", "date,US,NA,DE", "dnnn", true, Said::note},
      {"wave lengths", "400,410,420,430", "ffff", true, Said::warning},
      {"shares", "date,10%,50%,90%", "dnnn", true, Said::note},
      {"zero above decimals", "0", "f", true, Said::warning},
      {"two columns without names, of integers", "0,1", "nn", false, Said::warning},
      {"one column without a name, of integers", "0", "n", false, Said::warning},
      {"no names, only nan", "nan,nan", "nn", false, Said::warning},
      {"only empty names", ",", "nn", false, Said::warning},
      {"only shares", "10%,50%", "nn", false},  // refused: 10% is not a number
      {"numbers", "17,4", "nn", false},
      {"decimals", "1.5,2.5", "ff", false},
      {"a date and a number", "2024-02-29,7", "dn", false},
      {"a number and a species", "5.1,3.5,setosa", "ffs", false},
      {"a missing value", "NA,7", "nn", false},
      {"an empty cell among decimals", ",5.1,3.2", "fff", false},
      {"a species alone", "setosa,1.5", "sf", false},
      {"an index that goes on", "-1,7", "in", false},
      {"a rare number in another notation", "$5,7", "nn", false},
      {"a count that starts at 0", "0,0,0", "nnn", false},
  };
  CHECK(cases.size() >= 40);
  for (const HeaderCase& c : cases) {
    CAPTURE(c.name);
    const std::string text = c.first + "\n" + below(c.columns);
    const TableForm form = form_of(text, CsvFormat::of("auto", "", default_missing_values()));
    CAPTURE(all_lines(form.warnings));
    CHECK(form.has_header == c.header);
    CHECK(form.notes.size() == (c.said == Said::note ? 1 : 0));
    CHECK(form.warnings.size() == (c.said == Said::warning ? 1 : 0));
    for (const auto* lines : {&form.notes, &form.warnings})
      for (const std::string& line : *lines) {
        CHECK(contains(line, "data.header = "));
        CHECK(contains(line, c.header ? "is read as a header because it" : "is read as a row, although it"));
      }
    for (const char* word : {"yes", "no"}) {
      const TableForm set = form_of(text, CsvFormat::of(word, ",", {}));
      CHECK(set.has_header == (word == std::string("yes")));
      CHECK(set.warnings.empty());
    }
  }
}

TEST_CASE("a range of columns is all columns from one to another, by names or numbers") {
  std::string csv = "id,a1,a2,a3,b1,x..y,label\n";
  for (int i = 0; i < 40; ++i) {
    const std::string k = std::to_string(i);
    csv += k + "," + k + "1," + k + "2," + k + "3,5,6," + (i % 2 == 0 ? "up" : "down") + "\n";
  }
  const auto columns = [&](std::vector<std::string> names) {
    ClassifyOptions o;
    o.columns = std::move(names);
    return make_classify(o, csv, "f.csv")->metadata().at("columns");
  };
  CHECK(columns({"a1..b1"}) == columns({"a1", "a2", "a3", "b1"}));
  CHECK(columns({"2..4", "x..y"}) == columns({"a1", "a2", "a3", "x..y"}));
  CHECK(columns({"b1..b1", "id"}) == columns({"b1", "id"}));
  const auto refused = [&](const char* name, const char* what) {
    CHECK_THROWS_WITH_AS(columns({name}), doctest::Contains(what), Error);
  };
  refused("b1..a1", "'b1..a1' is no range of columns");
  refused("a1..", "is no range of columns");
  refused("a1..c1", "has no column 'c1'");
  refused("a1..label", "'label' is the label and one of columns");
}

TEST_CASE("a header of numbers is no row and no class, for each task on tables") {
  ClassifyOptions o;
  o.steps = 1;
  o.model.hidden = 3;
  std::string rows = counting(0, 9) + "\n";
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 8; ++k) rows += std::to_string(i % 4 + 0.1 * k + 0.001 * i) + ",";
    rows += std::to_string(i % 2 + 1) + "\n";
  }
  const auto task = make_classify(o, rows, "f.csv");
  CHECK(task->metadata().at("labels") == "1\n2\n");
  CHECK(task->metadata().at("columns") == "0\n1\n2\n3\n4\n5\n6\n7\n");
  CHECK(contains(all_lines(task->notes()), "f.csv: the first line, '0,1,2,3,4,5,...', is read as a header"));
  CHECK(task->warnings().empty());
  CHECK(check_data(o, rows, "f.csv").findings.empty());
  ForecastOptions f = testing::plain_forecast();
  f.window = 3;
  f.period = 2;
  CHECK(make_forecast(f, ",0\n" + below("yf"), "f.csv")->metadata().at("column") == "0");
  CHECK(contains(all_lines(make_forecast(f, ",0\n" + below("yf"), "f.csv")->notes()), "24 rows, header found"));
}

namespace {

enum class Is : std::uint8_t { number, missing, refused };
struct NumberCase {
  std::string cell;
  Is is;
  double value = 0;
  const char* advice = "";
};
const std::vector<NumberCase>& number_cases() {
  static const std::vector<NumberCase> cases = {
      {"1e5", Is::number, 1e5},
      {"1E+5", Is::number, 1e5},
      {"1e-5", Is::number, 1e-5},
      {".5", Is::number, 0.5},
      {"-.5", Is::number, -0.5},
      {"5.", Is::number, 5},
      {"+5", Is::number, 5},
      {" 7 ", Is::number, 7},
      {"007", Is::number, 7},
      {"-0", Is::number, 0},
      {"999999999.66", Is::number, 999999999.66},
      {"", Is::missing},
      {"nan", Is::missing},
      {"-nan", Is::missing},
      {"+NaN", Is::missing},
      {"-nan(ind)", Is::missing},
      {"NA", Is::missing},
      {"#N/A", Is::missing},
      {"None", Is::missing},
      {"inf", Is::refused, 0, "is not finite"},
      {"-Infinity", Is::refused, 0, "is not finite"},
      {"1e39", Is::refused, 0, "too large"},
      {"1e400", Is::refused, 0, "between 1e-308 and 1e308"},
      {"1e-400", Is::refused, 0, "between 1e-308 and 1e308"},
      {"0x10", Is::refused, 0, "decimal digits"},
      {"1_000", Is::refused, 0, "thousands without a separator"},
      {"1'000", Is::refused, 0, "thousands without a separator"},
      {"1 234", Is::refused, 0, "thousands without a separator"},
      {"1.234.567", Is::refused, 0, "thousands without a separator"},
      {"1,5", Is::refused, 0, "decimals with a point"},
      {"1,234.5", Is::refused, 0, "decimals with a point"},
      {"+-5", Is::refused, 0, "one sign"},
      {"--5", Is::refused, 0, "one sign"},
      {"5-", Is::refused, 0, "one sign"},
      {"(5)", Is::refused, 0, "one sign"},
      {"\u22125", Is::refused, 0, "the digits 0 to 9"},
      {"\u0661\u0662", Is::refused, 0, "the digits 0 to 9"},
      {"\u00bd", Is::refused, 0, "the digits 0 to 9"},
      {"5%", Is::refused, 0, "without a unit"},
      {"$5", Is::refused, 0, "without a unit"},
      {"12 kg", Is::refused, 0, "without a unit"},
      {"1/2", Is::refused, 0, "without a unit"},
      {"TRUE", Is::refused, 0, "data.missing_values"},
      {"-", Is::refused, 0, "data.missing_values"},
  };
  return cases;
}

}  // namespace

TEST_CASE("each of forty notations of a number is read, missing, or refused with its place and what to write") {
  for (const NumberCase& c : number_cases()) {
    CAPTURE(c.cell);
    const CsvTable t = CsvTable::parse("a,b\n1,2\n3," + quoted(c.cell) + "\n", "f.csv", {},
                                       CsvFormat::of("yes", ",", default_missing_values(), ".", "none"));
    const auto read = [&] { return t.number(1, 1, CsvTable::Missing::as_nan); };
    const std::string error = error_of(read);
    CHECK(error.empty() == (c.is != Is::refused));
    if (c.is == Is::number) CHECK(read() == c.value);
    if (c.is == Is::missing) CHECK(read() != read());
    CHECK(contains(error, c.advice));
    if (c.is == Is::refused) CHECK(contains(error, "line 3, column 2 ('b'): '" + c.cell + "' is"));
    if (c.is == Is::missing) CHECK(contains(error_of([&] { return t.number(1, 1); }), "a number is missing"));
  }
}

TEST_CASE("a number in any notation that begins a column without a header is not lost") {
  ForecastOptions o = testing::plain_forecast();
  o.window = 3;
  o.period = 2;
  for (const NumberCase& c : number_cases()) {
    CAPTURE(c.cell);
    const bool needs_quotes = c.cell.empty() || contains(c.cell, ",");
    const std::string text = (needs_quotes ? quoted(c.cell) : c.cell) + "\n" + below("f");
    const std::string error = error_of([&] { return make_forecast(o, text, "f.csv"); });
    const DataCheck check = check_data(o, text, "f.csv");
    if (!error.empty()) {
      CHECK(contains(error, "line 1, column 1: '" + c.cell + "'"));
      CHECK(contains(error, c.advice));
      REQUIRE(!check.findings.empty());
      CHECK(check.findings[0].error);
      continue;
    }
    const std::string notes = all_lines(make_forecast(o, text, "f.csv")->notes());
    CHECK(contains(notes, c.is == Is::refused ? "header found, columns " + c.cell : "25 rows, no header"));
  }
}

TEST_CASE("a decimal comma or a separator of thousands is refused, or a warning shows how the number was split") {
  struct Case {
    const char* name;
    std::string text;
    std::string refused, warned;
  };
  const auto lines = [](const std::string& format) {  // # becomes a digit that varies, @ a date
    std::string text;
    for (int r = 0; r < 12; ++r) {
      int k = 0;
      for (const char c : format) {
        if (c == '#') text += std::to_string((r * 7 + 3 * k++) % 10);
        else if (c == '@') text += "2024-01-" + std::to_string(10 + r);
        else text += c;
      }
      text += '\n';
    }
    return text;
  };
  const std::string point = "Write decimals with a point", two = "is read as two columns";
  const std::vector<Case> cases = {
      {"a column", lines("1#,#"), "", two},
      {"with a header", "value\n" + lines("1#,#"), point, ""},
      {"behind dates", lines("@,1#,#"), "", two},
      {"behind dates with a header", "date,value\n" + lines("@,1#,#"), point, ""},
      {"two digits", lines("1#,0#"), "", two},
      {"four columns that are two", lines("1#,#,2#,#"), "", two},
      {"negative ones", lines("-1#,#"), "", two},
      {"thousands", lines("1#,#0#"), "", two},
      {"thousands with a header", "value\n" + lines("1#,#0#"), point, ""},
      {"thousands in quotes", "a,b\n" + lines("3#,\"1,#0#\""), point, ""},
      {"points of thousands", "a;b\n" + lines("3#;1.#0#") + "3;980\n4;75\n", "", "If the point separates thousands"},
      {"two columns with names", "a,b\n" + lines("1#,#"), "", ""},
      {"decimals with points", lines("1#.#,2#.#"), "", ""},
      {"an index and integers", below("in"), "", ""},
      {"integers of several lengths", below("nn") + "5,7\n", "", ""},
      {"labels of a digit", below("nfffs"), "", ""},
  };
  ForecastOptions o = testing::plain_forecast();
  o.window = 3;
  o.period = 2;
  for (const Case& c : cases) {
    CAPTURE(c.name);
    if (std::string(c.name) != "labels of a digit") {
      const std::string error = error_of([&] { return make_forecast(o, c.text, "f.csv"); });
      CHECK(error.empty() == c.refused.empty());
      CHECK(contains(error, c.refused));
    }
    const TableForm form = form_of(c.text, CsvFormat::of("auto", "", {}));
    CAPTURE(all_lines(form.warnings));
    CHECK(form.warnings.size() == (c.warned.empty() ? 0 : 1));
    CHECK(contains(all_lines(form.warnings), c.warned));
    if (c.warned == two) {
      CHECK(contains(all_lines(form.warnings), "data.separator = \",\""));
      CHECK(form_of(c.text, CsvFormat::of("auto", ",", {})).warnings.empty());
    }
  }
}

TEST_CASE("words for missing values can be set, and a label that is one of the usual words stays a class") {
  ClassifyOptions o;
  o.steps = 1;
  o.model.hidden = 3;
  const auto table = [](const std::vector<std::string>& labels, const std::string& cell) {
    std::string text = "a,b,country\n";
    for (int i = 0; i < 36; ++i)
      text += std::to_string(i % 5) + "," + (i == 7 ? cell : std::to_string(i % 4)) + "," +
              labels[static_cast<std::size_t>(i) % labels.size()] + "\n";
    return text;
  };
  const auto task = make_classify(o, table({"NA", "US", "DE"}, "1"), "f.csv");
  CHECK(task->metadata().at("labels") == "DE\nNA\nUS\n");
  const std::string warned = all_lines(task->warnings());
  CHECK(contains(warned, "f.csv: the label 'NA' of 12 rows is read as a class"));
  CHECK(contains(warned, "data.missing_values"));
  const DataCheck check = check_data(o, table({"NA", "US", "DE"}, "1"), "f.csv");
  REQUIRE(check.findings.size() >= 1);
  CHECK(check.findings.back().what + "\n" == warned);
  // Between numbers it is a missing label, and so it is where the config names it.
  CHECK(contains(error_of([&] { return make_classify(o, table({"1", "2", "NA"}, "1"), "f.csv"); }),
                 "line 4, column 3 ('country'): the label is missing"));
  CHECK(contains(error_of([&] { return make_classify(o, table({"1", "2", ""}, "1"), "f.csv"); }), "line 4, column 3"));
  ClassifyOptions set = o;
  set.missing_values = {"NA", "-999"};
  set.missing = "mean";
  CHECK(contains(error_of([&] { return make_classify(set, table({"NA", "US"}, "1"), "f.csv"); }),
                 "the label is missing"));
  for (const char* word : {"-999", "-999.0", "na", "nan", ""}) {
    CAPTURE(word);
    const auto filled = make_classify(set, table({"x", "y"}, word), "f.csv");
    CHECK(contains(all_lines(filled->notes()), "1 missing values filled"));
    CHECK(filled->metadata().at("missing_values") == "NA\n-999\n");
  }
  CHECK(contains(error_of([&] { return make_classify(set, table({"x", "y"}, "null"), "f.csv"); }),
                 "line 9, column 2 ('b'): 'null' is not a number"));
  CHECK(contains(error_of([&] { return make_classify(o, table({"x", "y"}, "null"), "f.csv"); }),
                 "'null': a number is missing"));
}
