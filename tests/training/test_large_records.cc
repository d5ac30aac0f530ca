// SPDX-License-Identifier: Apache-2.0
// Tasks on files of records that are larger than the memory they may take.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/data/batch/records.h"
#include "tests/support/temp_folder.h"
#include "tests/training/held_memory.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// A file that is made as it is read, from any thread: `record` gives each of n records, all of one length.
class MadeFile : public Vfs::Reader {
 public:
  using Record = std::function<void(std::size_t number, std::string& text)>;
  MadeFile(std::size_t n, Record record) : n_(n), record_(std::move(record)) {
    std::string text;
    record_(0, text);
    length_ = text.size();
  }
  std::size_t size() const override { return n_ * length_; }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    if (to.size() > largest_read) largest_read = to.size();
    std::string text;
    for (std::size_t done = 0; done < to.size();) {
      const std::size_t at = offset + done, from = at % length_;
      record_(at / length_, text);
      const std::size_t some = std::min(length_ - from, to.size() - done);
      std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<std::ptrdiff_t>(from), some,
                  to.begin() + static_cast<std::ptrdiff_t>(done));
      done += some;
    }
  }
  mutable std::atomic<std::size_t> largest_read = 0;

 private:
  std::size_t n_, length_ = 0;
  Record record_;
};

// Three digits of something that no short period has.
void put_number(std::string& to, std::size_t n) {
  n = n * 2654435761u >> 7;
  for (int k = 0; k < 3; ++k, n /= 10) to += static_cast<char>('0' + n % 10);
}
void labeled(std::size_t number, std::string& text) {
  text.clear();
  for (std::size_t t = 0; t < 40; ++t) {
    text += "word";
    put_number(text, number * 41 + t);
    text += t % 3 == 0 ? "\tA\n" : "\tB\n";
  }
  text += "\n";
}
void pair(std::size_t number, std::string& text) {
  text.clear();
  for (std::size_t t = 0; t < 60; ++t) put_number(text, number * 61 + t);
  std::string target(text.rbegin(), text.rend());
  text += "\t" + target + "\r\n";
}
void document(std::size_t number, std::string& text) {
  text = number % 2 == 0 ? "even\t" : "uneven\t";
  if (number % 2 == 0) text += "so. ";
  else text += "s. ";
  while (text.size() < 490) {
    text += "in ";
    put_number(text, number * 67 + text.size());
    text += text.size() % 4 == 0 ? " it is. " : " it was ";
  }
  text.resize(495, 'x');
  text += "\n";
}
void row(std::size_t number, std::string& text) {
  text.clear();
  for (std::size_t t = 0; t < 64; ++t) {
    put_number(text, number * 71 + t);
    text += ",";
  }
  text += number % 3 == 0 ? "1\n" : "0\n";
}

using Make = std::function<std::shared_ptr<const Task>(std::shared_ptr<const Vfs::Reader>, std::size_t limit,
                                                       const Metadata&)>;
template <class Options>
Options small(std::size_t limit) {
  Options o;
  o.model.hidden = 4;
  o.batch = 8;
  o.memory_limit = limit;
  return o;
}
struct Kind {
  std::string name;
  MadeFile::Record record;
  Make make;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {
      {"label", labeled,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         return make_label(small<LabelOptions>(limit), file, "data.txt", fitted);
       }},
      {"translate", pair,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         return make_translate(small<TranslateOptions>(limit), file, "data.txt", fitted);
       }},
      {"document", document,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         return make_document(small<DocumentOptions>(limit), file, "data.txt", fitted);
       }},
      {"forecast", row,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         ForecastOptions o = small<ForecastOptions>(limit);
         o.columns = {"3", "65", "40"};
         o.window = 9;
         o.horizon = 3;
         o.period = 7;
         o.difference = "first";
         return make_forecast(o, file, "data.txt", fitted);
       }},
      {"classify", row,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         return make_classify(small<ClassifyOptions>(limit), file, "data.txt", fitted);
       }},
      {"regress", row,
       [](auto file, std::size_t limit, const Metadata& fitted) -> std::shared_ptr<const Task> {
         return make_regress(small<RegressOptions>(limit), file, "data.txt", fitted);
       }},
  };
  return list;
}

bool equal_batches(const Batch& a, const Batch& b) {
  for (const auto& [name, tensor] : a.inputs) {
    const auto x = tensor.bytes(), y = b.inputs.at(name).bytes();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return a.inputs.size() == b.inputs.size();
}

std::string text_of(const MadeFile& file) {
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write(const std::string& path, const std::string& text) {
  const auto file = disk().create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

}  // namespace

// A sanitizer that allocates this memory itself ends the program when it is freed here.
TEST_CASE("memory that a stable sort borrows is counted, and given back") {
  std::vector<std::size_t> numbers(100000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i * 2654435761u % 1000;
  held = most_held = 0;
  counting = true;
  std::stable_sort(numbers.begin(), numbers.end());
  counting = false;
  CHECK(most_held >= numbers.size() / 2 * sizeof(std::size_t));
  CHECK(held == 0);
}

TEST_CASE("a file of records that is read again and again gives the batches, model and baselines of one that is held") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const auto file = std::make_shared<MadeFile>(3000, kind.record);
    const auto whole = kind.make(file, 0, {});
    CHECK((kind.name == "forecast" || file->largest_read == file->size()));  // which holds numbers
    file->largest_read = 0;
    const auto parts = kind.make(file, file->size() - 1, {});
    CHECK(file->largest_read < file->size() / 2);
    CHECK(parts->metadata() == whole->metadata());
    for (const Split split : {Split::train, Split::validation, Split::test})
      CHECK(parts->baselines(split) == whole->baselines(split));
    for (const Split split : {Split::train, Split::validation, Split::test}) {
      const std::int64_t n = whole->n_batches(split);
      REQUIRE(n > 10);
      REQUIRE(parts->n_batches(split) == n);
      for (const std::int64_t epoch : {1, 0})
        for (std::int64_t i = n - 1; i >= 0; i -= 7)
          CHECK(equal_batches(parts->batch(split, 3, epoch, i), whole->batch(split, 3, epoch, i)));
    }
    const auto later = kind.make(file, 1, whole->metadata());
    CHECK(later->metadata() == whole->metadata());
  }
}

TEST_CASE("what is held of a file of 24 MB and more is at most 64 bytes of each record, and two pieces of the file") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const std::size_t n = 96000;
    const auto file = std::make_shared<MadeFile>(n, kind.record);
    REQUIRE(file->size() > 24'000'000);
    held = most_held = 0;
    counting = true;
    {
      const auto task = kind.make(file, std::size_t{1} << 20, {});
      for (std::int64_t i = 0; i < 100; ++i) task->batch(Split::train, 0, i % 3, i);
    }
    counting = false;
    CAPTURE(most_held);
    CAPTURE(file->size());
    CHECK(most_held < 64 * n + (std::size_t{2} << 20));
    CHECK(most_held > 8 * n);  // or nothing was counted
  }
}

TEST_CASE("a mistake is named with its line, wherever in the file it lies") {
  struct Row {
    const char* kind;
    std::string bad;
    std::size_t line;  // within what is put in
    const char* says;
  };
  const Row rows[] = {
      {"label", "a\tA\nb B\n\n", 2, "one tab"},
      {"label", "a\tA\n\tB\n\n", 2, "the token is empty"},
      {"translate", "a\tb\nab\n", 2, "one tab"},
      {"translate", "a\tb\xC3\n", 1, "is not UTF-8 at byte 4"},
      {"translate", std::string(1500, 'a') + "\tb\n", 1, "more than 1024 tokens"},
      {"document", "even\t--\n", 1, "the text has no word"},
      {"classify", "1,2\n", 1, "2 cells, but the first line has 65"},
      {"forecast", "1,2\n", 1, "2 cells, but the first line has 65"},
  };
  for (const Row& bad : rows) {
    CAPTURE(bad.says);
    const Kind& kind = *std::find_if(kinds().begin(), kinds().end(), [&](const Kind& k) { return k.name == bad.kind; });
    const std::string text = text_of(MadeFile(2000, kind.record));
    const std::string message =
        "line " + std::to_string(std::count(text.begin(), text.end(), '\n') + static_cast<std::ptrdiff_t>(bad.line));
    const TempFolder folder;
    write(folder.path() + "/data.txt", text + bad.bad + text);
    for (const std::size_t limit : {0, 1000})
      for (const std::string& part : {message, std::string(bad.says)})
        CHECK_THROWS_WITH_AS(kind.make(disk().open(folder.path() + "/data.txt"), limit, {}),
                             doctest::Contains(part.c_str()), Error);
  }
}

TEST_CASE("a file that is written to while it is used is found and named, one that another takes the place of is not") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempFolder folder;
    const std::string path = folder.path() + "/data.txt", text = text_of(MadeFile(300, kind.record));
    write(path, text);
    const auto batch_after = [&](const std::function<void()>& change) {
      const auto task = kind.make(disk().open(path), 1000, {});
      task->batch(Split::train, 0, 0, 0);
      change();
      task->batch(Split::train, 0, 0, 1);
    };
    CHECK_THROWS_WITH_AS(batch_after([&] { write(path, text + text); }), doctest::Contains(path.c_str()), Error);
    write(path, text);
    CHECK_THROWS_WITH_AS(batch_after([&] { write(path, text.substr(0, 1000)); }),
                         doctest::Contains("Do not modify the file while it is in use"), Error);
    write(path, text);
    batch_after([&] {
      write(path + ".new", "x");
      disk().rename(path + ".new", path);
    });
  }
}

TEST_CASE("a run on a file above the limit is resumed in the middle of an epoch to the same bits") {
  const auto backend = make_backend("cpu");
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const auto task = kind.make(std::make_shared<MadeFile>(300, kind.record), 1000, {});
    const auto run = [&](const std::string& folder, std::int64_t stop_at, bool resume) {
      TrainerOptions t = small_training(6);
      t.folder = folder;
      t.stop_at = stop_at;
      t.resume = resume;
      t.validation_batches = 1;
      Trainer trainer(task, *backend, t);
      trainer.fit();
      return trainer.parameters();
    };
    const TempFolder folder;
    const TensorMap straight = run(folder.path() + "/a", 0, false);
    run(folder.path() + "/b", 3, false);
    const TensorMap resumed = run(folder.path() + "/b", 0, true);
    for (const auto& [name, tensor] : straight) {
      const auto a = tensor.bytes(), b = resumed.at(name).bytes();
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    }
  }
}

TEST_CASE("lines are the same in pieces as in one, marks and endings included, and one without an end is refused") {
  const std::string mark = "\xEF\xBB\xBF";
  std::string text = mark + "first\r\n\n";
  for (int i = 0; i < 60000; ++i)
    text += "line " + std::to_string(i) + (i % 3 == 0 ? "\r\n" : "\n") + (i % 1000 == 0 ? mark : "");
  text += "last";
  class Memory : public Vfs::Reader {
   public:
    explicit Memory(std::string text) : text_(std::move(text)) {}
    std::size_t size() const override { return text_.size(); }
    void read_at(std::size_t offset, std::span<std::byte> to) const override {
      std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    }

   private:
    std::string text_;
  };
  using Seen = std::vector<std::tuple<std::string, std::size_t, std::size_t>>;
  const auto lines_of = [](const RecordFile& file) {
    Seen seen;
    file.for_each_line([&](const Line& l) { seen.emplace_back(std::string(l.text), l.number, l.at); });
    return seen;
  };
  const Seen whole = lines_of(RecordFile(text, "t"));
  CHECK(whole.size() == 60003);
  CHECK(std::get<0>(whole[0]) == "first");
  CHECK(std::none_of(whole.begin(), whole.end(),
                     [&](const auto& line) { return std::get<0>(line).find(mark) != std::string::npos; }));
  CHECK((lines_of(RecordFile(std::make_shared<Memory>(text), "t", 1)) == whole));
  const RecordFile endless(std::make_shared<Memory>("a\n" + std::string(RecordFile::k_max_line + 300000, 'b')), "t", 1);
  CHECK_THROWS_WITH_AS(lines_of(endless), doctest::Contains("line 2: has more than 16777216 bytes"), Error);
}
