// SPDX-License-Identifier: Apache-2.0
// Data as people have them: headers, separators, names, missing values, dates, labels as texts, files for splits.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "core/data/corpus/documents.h"
#include "core/data/corpus/pairs.h"
#include "core/data/dates/date_format.h"
#include "core/data/file/gzip.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

namespace test_data_files {

namespace {

using namespace unroll;
using testing::small_training;

std::string day(int d) {
  const DateReading first = date_readings("2022-01-01")[0];
  return date_text(after(first.at, d, {k_day, 0}), first.format);
}

ForecastOptions daily() {
  ForecastOptions o = testing::plain_forecast();
  o.model.hidden = 3;
  o.window = 7;
  o.period = 7;
  o.column = "sales";
  return o;
}
// A weekly season; `skip` says which days have no row.
template <class Skip>
std::string sales(int n, const Skip& skip, const std::string& separator = ",") {
  std::string csv = "date" + separator + "sales" + separator + "promo\n";
  for (int d = 0; d < n; ++d)
    if (!skip(d)) csv += day(d) + separator + std::to_string(100 + d % 7) + separator + std::to_string(d % 2) + "\n";
  return csv;
}
constexpr auto k_none = [](int) { return false; };

std::string flowers(const std::string& separator = ",") {
  std::string csv = "length" + separator + "width" + separator + "id" + separator + "species\n";
  for (int i = 0; i < 60; ++i) {
    csv += std::to_string(i % 3 * 10 + i % 5) + separator + std::to_string(1000 + i % 7) + separator;
    csv += "x" + std::to_string(i) + separator +
           (i % 3 == 0   ? "setosa"
            : i % 3 == 1 ? "virginica"
                         : "versicolor") +
           "\n";
  }
  return csv;
}
ClassifyOptions flower_options() {
  ClassifyOptions o;
  o.model.hidden = 4;
  o.columns = {"length", "width"};
  o.steps = 0;
  o.normalize = true;
  return o;
}

std::string notes_of(const Task& task) {
  std::string all;
  for (const std::string& note : task.notes()) all += note + "\n";
  return all;
}

#define CHECK_REFUSED(expression, ...)                                            \
  do {                                                                            \
    for (const char* part : {__VA_ARGS__})                                        \
      CHECK_THROWS_WITH_AS((void)(expression), doctest::Contains(part), Error);   \
  } while (false)

}  // namespace

TEST_CASE("missing days become missing values, so that a week keeps seven steps") {
  const auto gap = [](int d) { return d >= 40 && d < 65; };
  const auto task = make_forecast(daily(), sales(200, gap), "sales.csv");
  CHECK(notes_of(*task).find("175 rows, header found, columns date, sales, promo") != std::string::npos);
  CHECK(notes_of(*task).find("25 dates are missing (2022-02-10 to 2022-03-06)") != std::string::npos);
  CHECK(task->metadata().at("date") == "date");
  CHECK(task->metadata().at("date_step") == "1 day");
  CHECK(task->metadata().at("date_form") == "iso");
  CHECK(task->metadata().at("column") == "sales");
  // The season is exact, so that seasonal-naive errs nowhere; with joined rows it would err after the gap.
  CHECK(task->baselines(Split::test).at("seasonal_naive").at("mae") == 0);
  ForecastOptions strict = daily();
  strict.missing = "error";
  CHECK_REFUSED(make_forecast(strict, sales(200, gap), "f"), "25 dates are missing", "data.missing");
  CHECK(make_forecast(strict, sales(200, k_none), "f")->n_batches(Split::train) > 0);
}

TEST_CASE("a file that is read again gives the rows of one that is held, missing dates among them") {
  const auto gap = [](int d) { return d % 50 > 40 || (d > 255 && d < 300); };
  ForecastOptions held = daily(), again = held;
  again.memory_limit = 1;
  const std::string csv = sales(900, gap);
  const auto file = split_from_text(csv, "f").file;
  const auto a = make_forecast(held, file, "f"), b = make_forecast(again, file, "f");
  REQUIRE(a->n_batches(Split::train) == b->n_batches(Split::train));
  CHECK(a->metadata() == b->metadata());
  for (std::int64_t i = 0; i < a->n_batches(Split::train); ++i)
    for (const auto& [name, tensor] : a->batch(Split::train, 1, 0, i).inputs) {
      const Batch other = b->batch(Split::train, 1, 0, i);
      for (std::int64_t k = 0; k < tensor.elements(); ++k) REQUIRE(other.inputs.at(name).at(k) == tensor.at(k));
    }
}

TEST_CASE("interpolation fills a gap between neighbors of the window and never looks ahead of it") {
  ForecastOptions o = daily();
  o.date = "none";
  o.column = "";
  o.window = 5;
  o.test = 0.0;
  o.validation = 0.0;
  o.missing = "interpolate";
  std::string csv;
  for (int t = 0; t < 12; ++t) csv += (t == 4 || t == 5 ? "NA" : std::to_string(10 * t)) + "\n";
  const auto task = make_forecast(o, csv, "f");
  const double mean = std::stod(task->metadata().at("scaler.mean")),
               deviation = std::stod(task->metadata().at("scaler.deviation"));
  const Batch b = task->batch(Split::train, 0, 0, 0);
  const Tensor &x = b.inputs.at("x"), &target = b.inputs.at("target");
  const std::int64_t B = target.elements();
  int seen = 0;
  for (std::int64_t k = 0; k < B; ++k) {
    const auto value = [&](std::int64_t w) { return x.at(w * B + k) * deviation + mean; };
    const long next = std::lround(target.at(k) * deviation + mean);
    if (next == 60) {  // reads 10 20 30 and the gap, behind which it may not look
      CHECK(value(3) == doctest::Approx(30));
      CHECK(value(4) == doctest::Approx(30));
      ++seen;
    }
    if (next == 80) {  // reads 30, the gap, 60 70
      CHECK(value(1) == doctest::Approx(40));
      CHECK(value(2) == doctest::Approx(50));
      ++seen;
    }
  }
  CHECK(seen == 2);
}

TEST_CASE("words for missing values are alike") {
  for (const char* word : {"", "NaN", "nan", "NA", "N/A", "null", "?"}) {
    CAPTURE(word);
    ForecastOptions o = daily();
    o.column = "v";
    o.window = 1;
    const auto task = make_forecast(o, "t,v\n1,5\n2," + std::string(word) + "\n3,7\n4,8\n5,9\n6,4\n7,4\n8,3\n", "f");
    CHECK(notes_of(*task).find("1 value is missing: filled in as inputs") != std::string::npos);
  }
}

TEST_CASE("rows of measurements and a species train with each feature standardized") {
  for (const char* separator : {",", ";", "\t"}) {
    CAPTURE(separator);
    const auto task = make_classify(flower_options(), flowers(separator), "flowers.csv");
    const Metadata m = task->metadata();
    CHECK(m.at("labels") == "setosa\nversicolor\nvirginica\n");
    CHECK(m.at("columns") == "length\nwidth\n");
    CHECK(m.at("label") == "species");
    CHECK(m.at("steps") == "2");
    CHECK(m.at("separator") == separator);
    double sum = 0, square = 0, n = 0;
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Batch b = task->batch(Split::train, 0, 0, i);
      for (std::int64_t k = 0; k < b.inputs.at("x").elements(); ++k, ++n) {
        sum += b.inputs.at("x").at(k);
        square += b.inputs.at("x").at(k) * b.inputs.at("x").at(k);
      }
    }
    CHECK(sum / n == doctest::Approx(0).epsilon(1e-5));
    CHECK(square / n == doctest::Approx(1).epsilon(1e-4));
    CHECK(notes_of(*task).find("60 rows, header found, columns length, width, id, species") != std::string::npos);
    CHECK(make_classify(flower_options(), flowers(separator), "f", m)->metadata() == m);
  }
}

TEST_CASE("labels that are no labels and features that are no numbers are refused with the way out") {
  ClassifyOptions o = flower_options();
  o.label = "id";
  CHECK_REFUSED(make_classify(o, flowers(), "f"), "60 different labels in 60 rows", "data.label");
  ClassifyOptions all = flower_options();
  all.columns = {};
  CHECK_REFUSED(make_classify(all, flowers(), "f"), "line 2, column 3 ('id')", "'x0' is not a number");
  CHECK_REFUSED(make_classify(all, "The plot is thin.,1\nI left early.,0\n", "f"), "document");
  ClassifyOptions mean = all;
  mean.missing = "mean";
  const std::string gaps = "a,b,c\n1,?,x\n3,5,y\n,5,x\n2,7,y\n1,1,x\n2,3,y\n3,3,x\n3,2,y\n2,2,x\n1,1,y\n";
  CHECK(notes_of(*make_classify(mean, gaps, "f")).find("2 missing values filled") != std::string::npos);
  CHECK_REFUSED(make_classify(all, gaps, "f"), "line 2, column 2 ('b')", "a number is missing");
}

TEST_CASE("a header that is said to be there is no row, and one that is said not to be is one") {
  ClassifyOptions o = flower_options();
  o.columns = {};
  o.header = "yes";
  std::string csv = "2019,2020,kind\n";
  for (int i = 0; i < 20; ++i) csv += std::to_string(i) + ",1," + (i % 2 ? "a" : "b") + "\n";
  CHECK(make_classify(o, csv, "f")->metadata().at("columns") == "2019\n2020\n");
  o.header = "auto";
  CHECK(make_classify(o, csv, "f")->metadata().at("labels") == "a\nb\nkind\n");
  CHECK_REFUSED((o.header = "maybe", make_classify(o, csv, "f")), "Use one of auto|yes|no");
}

TEST_CASE("train, validation and test are apart for every task, and sum up to the data") {
  const auto task = make_classify(flower_options(), flowers(), "f");
  const auto rows = [&](Split split) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < task->n_batches(split); ++i)
      n += task->batch(split, 0, 0, i).inputs.at("labels").elements();
    return n;
  };
  CHECK(rows(Split::train) == 42);
  CHECK(rows(Split::validation) == 6);
  CHECK(rows(Split::test) == 12);
  LanguageModelOptions l = testing::small_language_options();
  l.evaluation_batch = 1;
  l.tokens = "bytes";
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(33 + i % 90);
  const auto model = make_language_model(l, text, "t");
  std::map<Split, std::string> read;
  for (const Split split : {Split::validation, Split::test})
    for (std::int64_t i = 0; i < model->n_batches(split); ++i) {
      const Batch b = model->batch(split, 0, 0, i);
      CHECK(b.starts_stream == (i == 0));
      const Tensor& labels = b.inputs.at("labels");
      if (i == 0) read[split] += static_cast<char>(b.inputs.at("ids").at(0));
      for (std::int64_t k = 0; k < labels.elements(); ++k) read[split] += static_cast<char>(labels.at(k));
    }
  CHECK(read[Split::validation] == text.substr(160, 20));
  CHECK(read[Split::test] == text.substr(180));
}

TEST_CASE("baselines are those of the split that is asked for") {
  std::string csv;
  for (int t = 0; t < 100; ++t) csv += std::to_string(t < 80 ? t : 10 * t) + "\n";
  ForecastOptions o = daily();
  o.column = "";
  const auto task = make_forecast(o, csv, "f");
  CHECK(task->baselines(Split::validation).at("persistence").at("mae") == doctest::Approx(1));
  CHECK(task->baselines(Split::test).at("persistence").at("mae") > 10);
}

TEST_CASE("validation and test may be files of their own, whose errors name them and their lines") {
  ClassifyOptions o = flower_options();
  o.test = split_from_text(flowers(), "test.csv");
  o.validation = 0.5;
  const auto task = make_classify(o, flowers(), "train.csv");
  CHECK(task->n_batches(Split::test) == 2);
  CHECK(task->n_batches(Split::train) == 1);
  o.test = split_from_text("length,width,id,species\n1,x,3,setosa\n", "test.csv");
  CHECK_REFUSED(make_classify(o, flowers(), "train.csv"), "[test.csv] line 2, column 2");
  o.test = split_from_text("width,length,id,species\n1,2,3,setosa\n", "test.csv");
  CHECK_REFUSED(make_classify(o, flowers(), "train.csv"), "all files need the same columns");

  ForecastOptions f = daily();
  f.test = split_from_text(sales(50, k_none), "later.csv");
  f.validation = 0.0;
  const auto series = make_forecast(f, sales(100, k_none), "sales.csv");
  CHECK(series->n_batches(Split::validation) == 0);
  CHECK(series->n_batches(Split::train) == (100 - 7 + 31) / 32);
  CHECK(series->n_batches(Split::test) == (50 - 7 + 31) / 32);
  CHECK(series->baselines(Split::test).at("seasonal_naive").at("mae") == 0);

  LanguageModelOptions l = testing::small_language_options();
  l.validation = split_from_text(testing::small_text(5), "v");
  CHECK(make_language_model(l, testing::small_text(), "t")->n_batches(Split::validation) > 0);
  DocumentOptions d;
  d.model.hidden = 3;
  const std::string documents = "a\tOne two.\nb\tThree.\na\tTwo one.\nb\tFour.\n";
  d.validation = split_from_text(documents, "v");
  d.test = split_from_text(documents, "t");
  CHECK(make_document(d, documents, "f")->n_batches(Split::test) ==
        make_document(d, documents, "f")->n_batches(Split::train));
}

TEST_CASE("gzip is unpacked up to the limit; damaged and larger files are refused with the way out") {
  const auto corpus = [](const char* name) {
    const std::string path = std::string(UNROLL_SOURCE_ROOT) + "/tests/fuzz/corpus/gzip/" + name;
    return std::shared_ptr<const Vfs::Reader>(disk().open(path));
  };
  const auto text_of = [&](const char* name) {
    const auto reader = unpacked(corpus(name), "data.gz", 1000);
    std::string text(reader->size(), '\0');
    reader->read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  };
  CHECK(text_of("ok_gzip") == "a,b\n1,2\n");
  CHECK(text_of("ok_two_members") == "a,b\n1,2\n");
  CHECK(text_of("ok_plain") == "a,b\n1,2\n");
  CHECK_REFUSED(text_of("bad_bomb"), "unpacks to more than 1000 bytes", "gzip -d");
  CHECK_REFUSED(text_of("bad_cut"), "ends too early");
  CHECK_REFUSED(text_of("bad_crc"), "is damaged");
  CHECK_REFUSED(text_of("bad_behind"), "other bytes");
}

TEST_CASE("documents: a header is no class, a CSV is read, and label and text the wrong way round are refused") {
  std::string tabbed = "label\ttext\n", swapped, csv = "id,review,sentiment\n", plain;
  for (int i = 0; i < 60; ++i) {
    const std::string label = i % 2 ? "good" : "bad", text = "Number " + std::to_string(i) + ", it is " + label + ".";
    tabbed += label + "\t" + text + "\n";
    plain += label + "\t" + text + "\n";
    swapped += text + "\t" + label + "\n";
    csv += std::to_string(i) + ",\"" + text + "\"," + label + "\n";
  }
  DocumentOptions o;
  const auto labels = [&](const std::string& text, const std::string& name) {
    return make_document(o, text, name)->metadata().at("labels");
  };
  CHECK(labels(plain, "f.tsv") == "bad\ngood\n");
  CHECK(labels(tabbed, "f.tsv") == "bad\ngood\n");
  CHECK(labels(csv, "f.csv") == "bad\ngood\n");
  CHECK_REFUSED(labels(swapped, "f.tsv"), "60 different labels in 60 rows", "label<TAB>text", "data.label = \"last\"");
  o.label = "last";
  CHECK(labels(swapped, "f.tsv") == "bad\ngood\n");
  o.label = "";
  CHECK_REFUSED(labels("no tab here\n", "f.txt"), "line 1", "a label, one tab and a text", ".csv");
  const std::string broken = "label,text\ngood,\"One.\n\nTwo \"\"tabs\"\"\"\nbad,Three.\n";
  const std::vector<TextPair> documents = read_pairs(broken, "f.csv", {}, document_format());
  CHECK((documents.size() == 2 && documents[0].target == "One.\n\nTwo \"tabs\"" && documents[1].line == 5));
  CHECK(document_of(documents[0].target).size() == 2);
  CHECK_REFUSED(read_pairs(broken, "f.csv"), "line 2", "the target has a line break");
  CHECK(read_pairs("text,title\n\"One.\nTwo\",\"a\nb\"\n", "f.csv", {}, summary_format())[0].source == "One. Two");
  CHECK_REFUSED(labels("id,text,stars\n1,Good.,5\n", "f.csv"), "3 columns, and no header that names a label and a text",
                "data.label and data.text");
  CHECK_REFUSED(labels("a\tb\tc\n", "f.txt"), "3 columns, and no header that names a label and a text");
  CHECK_REFUSED(read_pairs("label,text\n\"go\nod\",One.\n", "f.csv", {}, document_format()), "line 2",
                "the label has a line break");
  CHECK_REFUSED(read_pairs("label,text\ngood,\"One.\nbad,Two.\n", "f.csv", {}, document_format()), "misplaced quote");
  const std::string json =
      "{\"id\": 7, \"summary\": \"One\", \"text\": \"One,\\n\\u00e9 \\\"two\\\"\", \"tags\": [{\"text\": 1}]}\n\n"
      "{\"text\": \"Three\", \"more\": {\"text\": \"x\"}, \"summary\": \"Two\"}\n";
  for (const char* name : {"f.jsonl", "f.jsonl.gz", "f.txt"}) {
    const std::vector<TextPair> objects = read_pairs(json, name, {}, summary_format());
    REQUIRE(objects.size() == 2);
    CHECK((objects[0].source == "One, \u00e9 \"two\"" && objects[0].target == "One"));
    CHECK((objects[1].source == "Three" && objects[1].target == "Two" && objects[1].line == 3));
  }
  const auto json_refused = [](const std::string& text, auto... what) {
    CHECK_REFUSED(read_pairs(text, "f.jsonl", {}, summary_format()), what...);
  };
  json_refused("{\"text\": \"a\", \"summary\": \"b\"}\n{\"text\": \"a\"}\n", "line 2", "has no member 'summary'",
               "The line has 'text'");
  CHECK(read_pairs("{\"text\": \"a\", \"summary\": 3}\n{\"text\": -1.50, \"summary\": \"b\"}\n", "f.jsonl", {},
                   summary_format())[1].source == "-1.50");
  for (const auto& [value, kind] : {std::pair{"null", "null"}, {"[\"b\"]", "a list"}, {"{\"b\": 1}", "an object"},
                                    {"true", "true or false"}}) {
    const std::string line = std::string("{\"text\": \"a\", \"summary\": ") + value + "}\n",
                      says = std::string("has ") + kind + " as 'summary'; expected a text";
    for (const char* first : {"", "{\"text\": \"a\", \"summary\": \"b\"}\n"})
      json_refused(first + line, *first == '\0' ? "line 1" : "line 2", says.c_str());
    json_refused("{\"id\": \"7\", " + line.substr(1), "line 1", says.c_str());
  }
  json_refused("{\"a\": \"x\", \"b\": null}\n", "line 1", "an object with two texts; 'b' is null");
  json_refused("{\"text\": \"a\", \"summary\": \"b\", \"text\": \"c\"}\n", "line 1", "two members 'text'");
  json_refused("{\"text\": \"a\", \"summary\": \"\"}\n", "line 1", "the target is empty");
  json_refused("{\"text\": \"a\", \"summary\": \"b\"\n", "line 1", "not JSON at byte");
  json_refused("[\"a\", \"b\"]\n", "line 1", "not an object");
  json_refused("a\tb\n", "line 1", "not JSON at byte");
  json_refused(std::string(100000, '[') + "\n", "line 1", "not an object");
  json_refused("{\"text\": " + std::string(100000, '[') + "\n", "line 1", "not JSON at byte");
  const auto pairs = make_translate({}, "source,target\n\"one, two\",1 2\nthree,3\nfour,4\nfive,5\nsix,6\n", "p.csv");
  CHECK(notes_of(*pairs).find("5 rows, header found, columns source, target") != std::string::npos);
}

}  // namespace test_data_files
