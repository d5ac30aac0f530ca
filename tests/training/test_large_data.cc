// SPDX-License-Identifier: Apache-2.0
// Texts that are larger than the memory they may take, and batches of a budget of tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/data/batch/buckets.h"
#include "core/data/tokens/tokens.h"
#include "core/tasks/common/split_buckets.h"
#include "tests/support/temp_folder.h"
#include "tests/training/held_memory.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// A file that is made as it is read: a line of words again and again, numbered, some of its letters of two bytes.
class EndlessText : public Vfs::Reader {
 public:
  explicit EndlessText(std::size_t size) : size_(size) {}
  std::size_t size() const override { return size_; }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(at(offset + i));
    largest_read = std::max(largest_read, to.size());
  }
  mutable std::size_t largest_read = 0;

 private:
  static constexpr std::string_view k_line = "the c\xC3\xA9t sat on mat 0000 and sang of r\xC3\xA4ts,  0\n";
  char at(std::size_t i) const {
    const std::size_t line = i / k_line.size(), column = i % k_line.size();
    if (const std::size_t digit = column - k_line.find("0000"); column >= k_line.find("0000") && digit < 4) {
      std::size_t value = line * 2654435761u >> 7;
      for (std::size_t k = digit; k < 3; ++k) value /= 10;
      return static_cast<char>('0' + value % 10);
    }
    return k_line[column];
  }
  std::size_t size_;
};

bool equal_batches(const Batch& a, const Batch& b) {
  for (const auto& [name, tensor] : a.inputs) {
    const auto x = tensor.bytes(), y = b.inputs.at(name).bytes();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return a.starts_stream == b.starts_stream;
}

LanguageModelOptions text_options(const char* tokens) {
  LanguageModelOptions o = small_language_options();
  o.tokens = tokens;
  o.vocabulary = 300;
  o.batch = 4;
  o.steps = 16;
  o.evaluation_batch = 2;
  return o;
}

}  // namespace

TEST_CASE("a text above the memory limit gives the batches that it gives in memory, whatever the tokens") {
  for (const char* tokens : {"bytes", "characters", "words", "bpe"}) {
    CAPTURE(tokens);
    LanguageModelOptions o = text_options(tokens);
    const auto file = std::make_shared<EndlessText>(std::size_t{300000});
    const auto whole = make_language_model(o, file, "t");
    o.memory_limit = 200000;
    file->largest_read = 0;
    const auto blocks = make_language_model(o, file, "t");
    CHECK(file->largest_read < 10000);
    CHECK(blocks->metadata() == whole->metadata());
    for (const Split split : {Split::train, Split::validation, Split::test}) {
      const std::int64_t n = whole->n_batches(split);
      REQUIRE(blocks->n_batches(split) == n);
      for (std::int64_t i = 0; i < n; i += 1 + n / 50)
        CHECK(equal_batches(blocks->batch(split, 3, 1, i), whole->batch(split, 3, 1, i)));
      // In any order, as after a resumed run: the batch is a function of its number.
      for (const std::int64_t i : {n - 1, n / 2, std::int64_t{0}})
        CHECK(equal_batches(blocks->batch(split, 3, 0, i), whole->batch(split, 3, 0, i)));
    }
    for (const auto& [method, metrics] : whole->baselines(Split::test))
      for (const auto& [name, value] : metrics)
        CHECK(blocks->baselines(Split::test).at(method).at(name) == doctest::Approx(value).epsilon(1e-9));
  }
}

TEST_CASE("what is held of a text of 64 MB stays within a limit of 1 MiB") {
  LanguageModelOptions o = text_options("bytes");
  o.memory_limit = std::size_t{1} << 20;
  const auto file = std::make_shared<EndlessText>(std::size_t{64} << 20);
  counting = true;
  {
    const auto task = make_language_model(o, file, "t");
    for (const std::int64_t i : {0, 1, 500000, 800000}) task->batch(Split::train, 0, 0, i);
    CHECK(task->n_batches(Split::train) > 800000);
    for (std::int64_t i = 0; i < 200; ++i) task->batch(Split::test, 0, 0, i);
  }
  counting = false;
  // The index (16 bytes for each block of 26 kB) and a batch come on top: far below a quarter of the limit.
  CHECK(most_held < o.memory_limit + o.memory_limit / 4);
  CHECK(most_held > o.memory_limit / 4);  // or nothing was counted
}

TEST_CASE("a run on a text above the limit is resumed in the middle of an epoch to the same bits") {
  LanguageModelOptions o = text_options("words");
  o.memory_limit = 200000;
  const auto task = make_language_model(o, std::make_shared<EndlessText>(std::size_t{150000}), "t");
  const auto backend = make_backend("cpu");
  const auto run = [&](const std::string& folder, std::int64_t stop_at, bool resume) {
    TrainerOptions t = small_training(20);
    t.folder = folder;
    t.stop_at = stop_at;
    t.resume = resume;
    Trainer trainer(task, *backend, t);
    trainer.fit();
    return trainer.parameters();
  };
  const TempFolder folder;
  const TensorMap straight = run(folder.path() + "/a", 0, false);
  run(folder.path() + "/b", 7, false);
  const TensorMap resumed = run(folder.path() + "/b", 0, true);
  REQUIRE(task->n_batches(Split::train) > 20);
  for (const auto& [name, tensor] : straight) {
    const auto a = tensor.bytes(), b = resumed.at(name).bytes();
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST_CASE("a limit that the streams do not fit into, and a file that changes, are refused") {
  LanguageModelOptions o = text_options("bytes");
  o.memory_limit = 4096;
  CHECK_THROWS_WITH_AS(make_language_model(o, std::make_shared<EndlessText>(std::size_t{100000}), "t"),
                       doctest::Contains("or more"), Error);

  const TempFolder folder;
  const std::string path = folder.path() + "/text.txt";
  const auto write = [&](const std::string& text) {
    const auto file = disk().create(path);
    file->write(std::as_bytes(std::span(text)));
    file->close();
  };
  std::string text;
  for (int i = 0; i < 30000; ++i) text += "line " + std::to_string(i) + "\n";
  write(text);
  o.memory_limit = 200000;
  const auto task = make_language_model(o, std::shared_ptr<const Vfs::Reader>(disk().open(path)), path);
  write(text.substr(0, 1000));
  CHECK_THROWS_WITH_AS(task->batch(Split::train, 0, 0, task->n_batches(Split::train) - 1),
                       doctest::Contains("Do not modify the file while it is in use"), Error);
  CHECK_THROWS_AS(disk().open(folder.path()), Error);
  CHECK_THROWS_AS(disk().open(path + ".none"), Error);
}

TEST_CASE("text that is not UTF-8 is refused with its place in the file, in whichever block it lies") {
  std::string text(100000, 'a');
  text[77777] = '\xFF';
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
  LanguageModelOptions o = text_options("characters");
  o.memory_limit = 170000;
  CHECK_THROWS_WITH_AS(make_language_model(o, std::make_shared<Memory>(text), "t"),
                       doctest::Contains("is not UTF-8 at byte 77778"), Error);
}

TEST_CASE("a budget of tokens bounds every batch, keeps each sequence once, and gives a shape per padded length") {
  std::vector<Buckets::Lengths> lengths;
  for (std::int64_t i = 0; i < 203; ++i) lengths.push_back({1 + i * 37 % 60, 1 + i * 11 % 17});
  const Buckets buckets(lengths, {16, 200});
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::int64_t> seen;
    std::size_t most = 0;
    for (std::int64_t i = 0; i < buckets.n_batches(); ++i) {
      const Buckets::Rows r = buckets.shuffled(5, epoch, i);
      const std::int64_t B = buckets.batch_at(r.padded);
      CHECK(B * std::max(r.padded.first, r.padded.second) <= 200);
      CHECK(static_cast<std::int64_t>(r.rows.size()) <= B);
      most = std::max(most, r.rows.size());
      seen.insert(seen.end(), r.rows.begin(), r.rows.end());
    }
    CHECK(most >= 12);  // short ones; of the longest there are 3
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> all(203);
    std::iota(all.begin(), all.end(), 0);
    CHECK(seen == all);
  }
  // A longer sequence is a batch of its own.
  const Buckets single(lengths, {16, 10});
  for (std::int64_t i = 0; i < single.n_batches(); ++i)
    if (const auto r = single.sorted(i); r.padded.first > 10) CHECK(r.rows.size() == 1);
  CHECK_THROWS_AS(Buckets(lengths, {0, 10}), Error);
  CHECK_THROWS_AS(Buckets(lengths, {4, -1}), Error);
}

TEST_CASE("label and translate keep to the budget and learn from every sequence") {
  std::string sentences, pairs;
  for (int i = 0; i < 60; ++i) {
    for (int t = 0; t <= i % 19; ++t) sentences += "w" + std::to_string(t % 3) + "\tl\n";
    sentences += "\n";
    const auto times = [](int n, char c) { return std::string(static_cast<std::size_t>(n), c); };
    pairs += times(1 + i % 23, 'a') + "\t" + times(1 + i % 7, 'b') + "\n";
  }
  LabelOptions label;
  label.batch_tokens = 48;
  TranslateOptions translate;
  translate.batch_tokens = 48;
  const std::shared_ptr<const Task> tasks[] = {make_label(label, sentences, "t"),
                                               make_translate(translate, pairs, "t")};
  for (const auto& task : tasks) {
    double n = 0, widest = 0;
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Batch batch = task->batch(Split::train, 1, 0, i);
      const Tensor& lengths = batch.inputs.at("lengths");
      const bool labels = batch.inputs.contains("ids");
      const Shape& shape = batch.inputs.at(labels ? "ids" : "source").type().shape;
      CHECK(shape[0] * shape[1] <= 48);
      widest = std::max(widest, static_cast<double>(shape[1]));
      for (std::int64_t b = 0; b < lengths.elements(); ++b) n += lengths.at(b) > 0;
    }
    CHECK(n == 42);  // 70 % of 60
    CHECK(widest >= 6);
  }
}
