// SPDX-License-Identifier: Apache-2.0
// Numbers as programs write them: decimal commas, marks of thousands, comments and units. They are read as they are
// meant, or named with the setting that decides.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/text.h"
#include "tests/training/small_tables.h"
#include "tests/training/small_tasks.h"
#include "unroll/data/data_check.h"
#include "unroll/tasks/predict_tables.h"
#include "unroll/tasks/tasks.h"

namespace test_number_marks {

using namespace unroll;
using namespace unroll::testing;

namespace {

double figure(const DataCheck& check, const std::string& name) {
  for (const auto& [of, value] : check.figures)
    if (of == name) return value;
  return -1;
}

}  // namespace

TEST_CASE("decimal commas and marks of thousands are found in the first rows, printed, and kept by the model") {
  struct Case {
    const char* name;
    std::string cells;  // of a column, between blanks
    const char *decimal, *thousands;
    double highest;
  };
  const Case cases[] = {
      {"decimal commas", "112,5|118,25|98,75|100", ",", "none", 118.25},
      {"negative ones", "-12,5|-3,25|-1,75|0", ",", "none", 0},
      {"points of thousands before a comma", "1.112,5|2.334,75|980,5|75", ",", ".", 2334.75},
      {"commas of thousands before a point", "1,112.5|2,334.75|980.5|75", ".", ",", 2334.75},
      {"millions", "1,112,000|2,334,500|980,250|75", ".", ",", 2334500},
      {"points of millions", "1.112.000|2.334.500|980.250|75", ",", ".", 2334500},
      {"commas of thousands, below them none", "1,112|2,334|1,980|75|980", ".", ",", 2334},
      {"spaces of thousands", "1 112|2 334|980|2 075", ".", "space", 2334},
      {"spaces of thousands before a comma", "1 112,5|2 334,75|980,5|2 075", ",", "space", 2334.75},
      {"no-break spaces", "1\u00a0112,5|2\u202f334,75|980,5|75", ",", "space", 2334.75},
      {"apostrophes", "1'112.5|2'334.75|980.5|75", ".", "'", 2334.75},
      {"typographic apostrophes", "1\u2019112.5|2\u2019334.75|980.5|75", ".", "'", 2334.75},
      {"underscores", "1_112|2_334|980|75", ".", "_", 2334},
      {"exponents", "1,5e3|2,25e3|7,5|8,5", ",", "none", 2250},
      {"missing values", "112,5|NA|98,75|", ",", "none", 112.5},
      {"points", "112.5|118.25|98.75|100", ".", "none", 118.25},
  };
  ForecastOptions o = testing::plain_forecast();
  o.window = 2;
  o.period = 2;
  o.column = "v";
  for (const Case& c : cases) {
    CAPTURE(c.name);
    std::vector<std::string> cells;
    for (std::size_t at = 0; at <= c.cells.size();) {
      const std::size_t end = std::min(c.cells.find('|', at), c.cells.size());
      cells.push_back(c.cells.substr(at, end - at));
      at = end + 1;
    }
    std::string text = "v;name\n", quoted_text = "name,v\n";
    for (int r = 0; r < 24; ++r) {
      const std::string& cell = cells[static_cast<std::size_t>(r) % cells.size()];
      text += cell + ";x\n";
      quoted_text += "x," + quoted(cell) + "\n";
    }
    const bool is_plain = std::string(c.thousands) == "none" && std::string(c.decimal) == ".";
    for (const std::string& file : {text, quoted_text}) {
      const auto task = make_forecast(o, file, "f.csv");
      const Metadata model = task->metadata();
      CHECK(model.at("data.decimal") == c.decimal);
      CHECK(model.at("data.thousands") == c.thousands);
      CHECK(task->warnings().empty());
      CHECK(contains(all_lines(task->notes()), "is read as") == !is_plain);
      if (!is_plain) CHECK(contains(all_lines(task->notes()), std::string("data.decimal = \"") + c.decimal + "\""));
      CHECK(make_forecast(o, file, "f.csv", model)->metadata() == model);
      const DataCheck check = check_data(o, file, "f.csv");
      CHECK(check.findings.empty() == !contains(c.cells, "NA"));
      CHECK(figure(check, "highest") == c.highest);
    }
  }
}

TEST_CASE("marks that can mean two numbers are named, and settings decide") {
  ForecastOptions o = testing::plain_forecast();
  o.window = 2;
  o.period = 2;
  o.column = "v";
  std::string text = "v;name\n", two = "a\n";
  for (int r = 0; r < 24; ++r) {
    text += std::to_string(1 + r % 4) + ",1" + std::to_string(10 + r) + ";x\n";
    two += std::to_string(r) + " 1" + std::to_string(10 + r) + "\n";
  }
  CHECK(contains(error_of([&] { return make_forecast(o, text, "f.csv"); }),
                 "line 2, column 1 ('v'): '1,110' is not a number"));
  CHECK(contains(error_of([&] { return make_forecast(o, text, "f.csv"); }),
                 "set data.decimal = \",\" or data.thousands = \",\""));
  const auto highest = [&] { return figure(check_data(o, text, "f.csv"), "highest"); };
  o.decimal = ",";
  CHECK(highest() == 4.133);
  o.decimal = "auto";
  o.thousands = ",";
  CHECK(highest() == 4133);
  o.decimal = ",";
  CHECK(contains(error_of([&] { return make_forecast(o, text, "f.csv"); }), "is the decimal mark too"));
  o = testing::plain_forecast();
  CHECK(contains(error_of([&] { return make_forecast(o, two, "f.csv"); }), "set data.thousands"));
  // A later file with other marks than the training file is refused.
  o.column = "v";
  o.window = 2;
  o.period = 2;
  o.decimal = ",";
  const Metadata model = make_forecast(o, text, "f.csv")->metadata();
  CHECK(contains(error_of([&] { return make_forecast(o, "v;name\n1.5;x\n2.5;x\n", "g.csv", model); }),
                 "'1.5' is not a number with the decimal mark ','"));
}

TEST_CASE("features and targets with decimal commas are those with points") {
  std::string comma = "a;b;y\n", point = comma;
  for (int r = 0; r < 40; ++r) {
    const std::string a = std::to_string(r % 7), b = std::to_string(r % 5), y = std::to_string(r % 3);
    comma += a + ",5;" + b + ",25;" + y + ",75\n";
    point += a + ".5;" + b + ".25;" + y + ".75\n";
  }
  RegressOptions o;
  o.model.hidden = 3;
  const auto with_comma = make_regress(o, comma, "f"), with_point = make_regress(o, point, "f");
  const Batch a = with_comma->batch(Split::train, 1, 0, 0), b = with_point->batch(Split::train, 1, 0, 0);
  for (const auto& [name, tensor] : a.inputs)
    for (std::int64_t k = 0; k < tensor.elements(); ++k) REQUIRE(b.inputs.at(name).at(k) == tensor.at(k));
  CHECK(contains(all_lines(with_comma->notes()), "is read as"));
  CHECK(check_data(o, comma, "f").figures == check_data(o, point, "f").figures);
  FeatureReader reader(with_comma->metadata(), "rows");
  const std::string head = "a;b;y\n", row = "1,5;2,25;3,75";
  CHECK_FALSE(reader.read("a;b;y", 1));
  const auto read = reader.read(row, 2);
  REQUIRE(read);
  CHECK(read->values == std::vector<double>{1.5, 2.25});
  CHECK(read->targets == std::vector<std::string>{"3.75"});
}

TEST_CASE("comments before a table and units below its header are skipped, which is said") {
  struct Case {
    const char *name, *head;
    std::string columns;
    const char* note;
    const char* header;
  };
  const Case cases[] = {
      {"a comment", "# Made by us, in 2024\ndate,v\n", "dn", "1 comment before the table skipped", "columns date, v"},
      {"comments", "#one\n# two;\n#\ndate,v\n", "dn", "3 comments before the table skipped", "columns date, v"},
      {"a header in a comment", "# a,b\n", "nn", "", "columns # a, b"},
      {"comments and a header in one", "# made\n# a,b\n", "nn", "1 comment before", "columns # a, b"},
      {"units in brackets", "date,v\n,(kWh)\n", "dn", "',(kWh)', has units and is skipped", "columns date, v"},
      {"units", "date,v,w\nYYYY-MM-DD,kWh,%\n", "dnf", "has units and is skipped", "columns date, v, w"},
      {"units of one column", "v\n[kW]\n", "n", "'[kW]', has units and is skipped", "columns v"},
      {"comment and units", "# x\ndate,v\n,[°C]\n", "dn", "has units and is skipped", "columns date, v"},
  };
  ForecastOptions o = testing::plain_forecast();
  o.window = 3;
  o.period = 2;
  for (const Case& c : cases)
    for (const std::size_t limit : {std::size_t{0}, std::size_t{1}}) {
      CAPTURE(c.name);
      o.memory_limit = limit;
      const std::string text = c.head + below(c.columns);
      const auto task = make_forecast(o, split_from_text(text, "f.csv").file, "f.csv");
      const std::string notes = all_lines(task->notes());
      CHECK(contains(notes, c.note));
      CHECK(contains(notes, std::string("24 rows, header found, ") + c.header));
      CHECK(task->warnings().empty());
      CHECK(check_data(o, text, "f.csv").findings.empty());
    }
  // A row of words is no units: it is refused where it stands.
  for (const char* row : {"2024-02-29,unknown\n", "2024-02-29,(none)\n"})
    CHECK(contains(error_of([&] { return make_forecast(o, std::string("date,v\n") + row + below("dn"), "f.csv"); }),
                   "line 2, column 2 ('v')"));
  CHECK(contains(error_of([&] { return make_forecast(o, "v\nunknown\n" + below("n"), "f.csv"); }), "line 2, column 1"));
  // Newest rows first are sorted without the comment and the units.
  const std::string newest =
      "# x\ndate,v\n,(m)\n2024-01-05,5\n2024-01-04,4\n2024-01-03,3\n2024-01-02,2\n2024-01-01,1\n";
  o.memory_limit = 0;
  o.window = 1;
  o.test = 0.0;
  o.validation = 0.0;
  CHECK(contains(all_lines(make_forecast(o, newest, "f.csv")->notes()), "5 rows, header found"));
}

}  // namespace test_number_marks
