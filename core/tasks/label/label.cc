// SPDX-License-Identifier: Apache-2.0
// Sequence labeling: embedding, recurrent layers with sequence lengths, a linear layer at every token.
#include <algorithm>
#include <functional>

#include "core/data/corpus/labeled.h"
#include "core/data/tokens/lexicon.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/utf8.h"
#include "core/tasks/check/text_checks.h"
#include "core/tasks/common/class_metrics.h"
#include "core/tasks/common/split_buckets.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/label/network.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_max_crf_labels = 1024;  // updates with more labels take minutes
constexpr std::int64_t k_slow_crf_labels = 128;

// Counts entities that begin with B-X after other text (IOB2), and those that begin with I-X (IOB1).
class EntityBegins {
 public:
  void add(const std::vector<std::string>& labels) {
    std::string_view before = "O";
    for (const std::string_view label : labels) {
      const bool goes_on = before.size() > 2 && label.size() > 2 && before.substr(2) == label.substr(2);
      b_ += label.starts_with("B-") && !goes_on;
      i_ += label.starts_with("I-") && !goes_on;
      before = label;
    }
  }
  std::string mixed() const {
    if (b_ == 0 || i_ == 0) return {};
    return "two schemes of tags: " + counted(b_, "entity") + " begin with B- (IOB2), " + counted(i_, "entity") +
           " with I- (IOB1); write one of them throughout";
  }

 private:
  std::int64_t b_ = 0, i_ = 0;
};

class Label : public Task, public SplitRecords, public SplitExamples {
 public:
  Label(const LabelOptions& options, RecordFile file, const Metadata& fitted)
      : options_(options), file_(records_of(std::move(file), options)) {
    check(options);
    reader_.index(file_);
    const std::string& name = file_.name();
    SplitRows rows = split_rows(file_, options);
    require_as_trained(fitted, name, "tokens", options.tokens);
    if (fitted.empty()) {
      fit(rows[0]);
    } else {
      tokens_ = Lexicon::from_lines(get_text(fitted, "vocabulary"), name);
      labels_ = Lexicon::from_lines(get_text(fitted, "labels"), name);
    }
    if (fitted.empty() && options.output == "crf" && labels_.size() > k_max_crf_labels)
      throw Error(ErrorKind::usage, name,
                  "output = crf scores every pair of labels at each token: " + counted(labels_.size(), "label") +
                      " are " + std::to_string(labels_.size() * labels_.size()) + " pairs; at most " +
                      std::to_string(k_max_crf_labels) + " labels are supported",
                  "Set output = \"softmax\", or check that the labels are classes");
    classes_ = {labels_.size(), -1};
    if (!options.outside.empty()) classes_.outside = labels_.id(options.outside);
    if (classes_.outside == labels_.size())
      throw Error(ErrorKind::usage, name, "no token has the outside label '" + options.outside + "'",
                  "Set outside to a label of the file, or remove the key");
    std::vector<Buckets::Lengths> lengths;
    lengths.reserve(file_.size());
    file_.for_each([&](std::int64_t row, std::string_view record) {
      const LabeledSentence sentence = reader_.sentence_in(file_, record);
      check(row, sentence);
      lengths.push_back({std::ssize(sentence.tokens), 0});
    });
    parts_ = SplitBuckets(std::move(rows), lengths, {options.batch, options.batch_tokens});
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto input = [&](const char* name) { return scope.graph().input(name, like.inputs.at(name).type()); };
    const Value ids = input("ids"), labels = input("labels"), lengths = input("lengths");  // [T,B], [T,B], [B]
    const LabelNetwork network{options_.model, options_.embedding, tokens_.size() + 1, labels_.size(),
                               options_.output == "crf"};
    const Value logits = network.build(scope, ids, lengths);
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    TaskGraph t;
    t.weight = add_class_metrics(t, network.decode(scope, logits, lengths), labels, classes_);
    const Value loss = network.crf ? crf_loss(network.field(scope), logits, labels, lengths)
                                   : smoothed_cross_entropy(scope, logits, labels, options_.label_smoothing);
    t.loss = sum(loss) / maximum(t.weight, scalar_like(t.weight, 1));
    return t;
  }

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(parts_.rows(split).size()); }
  std::int64_t n_batches(Split split) const override { return parts_.n_batches(split); }

  void for_each_record(Split split, const std::function<void(std::string_view)>& take) const override {
    file_.for_each(parts_.rows(split), [&](std::int64_t, std::string_view record) {
      const LabeledSentence sentence = reader_.sentence_in(file_, record);
      std::string lines;
      for (std::size_t t = 0; t < sentence.tokens.size(); ++t)
        lines += sentence.tokens[t] + "\t" + sentence.labels[t] + "\n";
      take(lines);
    });
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const SplitBuckets::Chosen chosen = parts_.choose(split, seed, epoch, index);
    const std::int64_t T = chosen.padded.first, B = chosen.batch;
    Tensor ids(DType::i32, {T, B}), labels = Tensor::filled({DType::i32, {T, B}}, k_no_label), lengths(DType::i32, {B});
    for (std::size_t b = 0; b < chosen.rows.size(); ++b) {
      const Encoded sentence = encoded(file_.text(chosen.rows[b]));
      if (std::ssize(sentence.ids) > T) file_.refuse_changed();
      lengths.values<std::int32_t>()[b] = static_cast<std::int32_t>(sentence.ids.size());
      put_column(ids, static_cast<std::int64_t>(b), sentence.ids);
      put_column(labels, static_cast<std::int64_t>(b), sentence.labels);
    }
    Batch result;
    result.inputs.emplace("ids", std::move(ids));
    result.inputs.emplace("labels", std::move(labels));
    result.inputs.emplace("lengths", std::move(lengths));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "label"},
               {"tokens", options_.tokens},
               {"vocabulary", tokens_.lines()},
               {"labels", labels_.lines()},
               {"embedding", std::to_string(options_.embedding)},
               {"output", options_.output}};
    put_model_options(m, options_.model);
    return m;
  }

  std::vector<std::string> notes() const override {
    return {file_.name() + ": " + counted(file_.size(), "sentence") + ", " + reader_.found() + "; " +
            counted(labels_.size(), "label")};
  }
  std::vector<std::string> warnings() const override {
    std::vector<std::string> all = reader_.warnings();
    if (options_.output == "crf" && labels_.size() > k_slow_crf_labels)
      all.push_back("output = crf scores " + std::to_string(labels_.size() * labels_.size()) +
                    " pairs of labels at each token; softmax is faster");
    return all;
  }

  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    const std::vector<std::int64_t>&train = parts_.rows(Split::train), &scored = parts_.rows(split);
    if (scored.empty()) return {};
    std::map<std::int32_t, std::map<std::int32_t, std::int64_t>> by_token;
    std::map<std::int32_t, std::int64_t> all;
    for_each_token(train, [&](std::int32_t token, std::int32_t label) {
      ++by_token[token][label];
      ++all[label];
    });
    const auto most = [](const std::map<std::int32_t, std::int64_t>& counts) {
      return std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })
          ->first;
    };
    const std::int32_t usual = most(all);
    std::vector<std::int32_t> labels, same, of_token;
    for_each_token(scored, [&](std::int32_t token, std::int32_t label) {
      labels.push_back(label);
      same.push_back(usual);
      const auto at = by_token.find(token);
      of_token.push_back(at == by_token.end() ? usual : most(at->second));
    });
    return {{"most_frequent", class_metrics(same, labels, classes_)},
            {"most_frequent_of_token", class_metrics(of_token, labels, classes_)}};
  }

 private:
  struct Encoded {
    std::vector<std::int32_t> ids, labels;  // of one size
  };
  Encoded encoded(std::string_view record) const {
    const LabeledSentence sentence = reader_.sentence_in(file_, record);
    Encoded e;
    for (const std::string& token : sentence.tokens) e.ids.push_back(tokens_.id(token));
    for (const std::string& label : sentence.labels) e.labels.push_back(labels_.id(label));
    return e;
  }

  static void check(const LabelOptions& o) {
    checked_options(o, "label");
    if (o.tokens != "words" && o.tokens != "characters")
      throw Error(ErrorKind::usage, "label", "tokens must be words or characters; got '" + o.tokens + "'");
    if (o.output == "crf" && o.label_smoothing != 0)
      throw Error(ErrorKind::usage, "label", "label_smoothing needs output = softmax; a crf scores whole sentences",
                  "Set label_smoothing = 0");
  }

  // Labels come from the whole file, because the label set is part of the task.
  void fit(const std::vector<std::int64_t>& train) {
    Lexicon::Counts tokens, labels;
    file_.for_each(train, [&](std::int64_t, std::string_view record) {
      for (const std::string& token : reader_.sentence_in(file_, record).tokens) ++tokens[token];
    });
    file_.for_each([&](std::int64_t, std::string_view record) {
      for (const std::string& label : reader_.sentence_in(file_, record).labels) ++labels[label];
    });
    tokens_ = Lexicon::of(tokens, options_.min_count, options_.vocabulary);
    labels_ = Lexicon::of(labels, 1, Lexicon::k_max_entries);
  }

  void check(std::int64_t row, const LabeledSentence& s) const {
    for (std::size_t t = 0; t < s.tokens.size(); ++t) {
      if (labels_.id(s.labels[t]) == labels_.size())
        file_.refuse(row, "the model has no label " + in_quotes(s.labels[t]), {}, t);
      if (options_.tokens == "characters" && !is_character(s.tokens[t]))
        file_.refuse(row, "the token " + in_quotes(s.tokens[t]) + " is not one character",
                     "Set tokens = \"words\"", t);
    }
  }
  static bool is_character(const std::string& token) {
    return std::count_if(token.begin(), token.end(), std::not_fn(continues_character)) == 1;
  }

  template <class F>
  void for_each_token(const std::vector<std::int64_t>& rows, const F& see) const {
    file_.for_each(rows, [&](std::int64_t, std::string_view record) {
      const Encoded sentence = encoded(record);
      for (std::size_t i = 0; i < sentence.ids.size(); ++i) see(sentence.ids[i], sentence.labels[i]);
    });
  }

  LabelOptions options_;
  RecordFile file_;  // one record per sentence
  LabeledReader reader_;
  Lexicon tokens_, labels_;
  ClassSet classes_;
  SplitBuckets parts_;
};

}  // namespace

std::shared_ptr<const Task> make_label(const LabelOptions& options, DataSource data, const std::string& name,
                                       const Metadata& fitted) {
  return std::make_shared<Label>(options, record_file(data, name, options), fitted);
}

DataCheck check_data(const LabelOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(from.file, name, o);
    c.empty_lines(file, 1);  // an empty line ends a sentence
    LabeledReader reader;
    reader.index(file);
    c.format(reader.warnings());
    const DataRows data(file, split_rows(file, o));
    LabeledWords found;
    EntityBegins begins;
    data.for_each([&](const DataRows::Row& row) {
      const LabeledSentence s = reader.sentence_in(file, row.record);
      std::string content;
      for (const std::string& token : s.tokens) {
        content += token + "\t";
        ++found.words[row.split][token];
      }
      found.rows.push_back({content_of(content), std::ssize(s.tokens), row.line, row.split});
      begins.add(s.labels);
      for (const std::string& label : s.labels) ++found.labels[label][row.split];
    });
    found.report(c, data, o, "tokens");
    if (const std::string what = begins.mixed(); !what.empty()) c.warn("labels", what);
  });
}

}  // namespace unroll
