// SPDX-License-Identifier: Apache-2.0
// Classification of documents by a hierarchical network, in batches of similar sentence counts and lengths.
#include <algorithm>
#include <cmath>

#include "core/data/corpus/documents.h"
#include "core/data/corpus/pairs.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/check/text_checks.h"
#include "core/tasks/common/class_metrics.h"
#include "core/tasks/common/split_buckets.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/document/network.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

Sentences sentences_of(const Document& document, const Lexicon& words) {
  Sentences sentences;
  for (const auto& sentence : document) {
    std::vector<std::int32_t>& ids = sentences.emplace_back();
    for (const std::string& word : sentence) ids.push_back(words.id(word));
  }
  return sentences;
}

std::int64_t most_words(const Sentences& sentences) {
  std::size_t most = 0;
  for (const auto& sentence : sentences) most = std::max(most, sentence.size());
  return static_cast<std::int64_t>(most);
}

TensorMap document_inputs(std::span<const Sentences* const> documents, std::int64_t S, std::int64_t W, std::int64_t B) {
  Tensor ids(DType::i32, {W, S * B}), n_words(DType::i32, {S * B}), n_sentences(DType::i32, {B});
  for (std::size_t b = 0; b < documents.size(); ++b) {
    n_sentences.values<std::int32_t>()[b] = static_cast<std::int32_t>(documents[b]->size());
    for (std::size_t s = 0; s < documents[b]->size(); ++s) {
      const std::vector<std::int32_t>& sentence = (*documents[b])[s];
      const std::size_t column = s * B + b;
      n_words.values<std::int32_t>()[column] = static_cast<std::int32_t>(sentence.size());
      put_column(ids, static_cast<std::int64_t>(column), sentence);
    }
  }
  TensorMap inputs;
  inputs.emplace("ids", std::move(ids));
  inputs.emplace("words", std::move(n_words));
  inputs.emplace("sentences", std::move(n_sentences));
  return inputs;
}

namespace {

PairsReader document_reader(const DocumentOptions& options, const std::string& name) {
  PairsFormat format = document_format();
  format.csv = CsvFormat::of(options.header, options.separator, {});
  format.source = options.label;
  format.target = options.text;
  return {name, std::move(format), k_long_texts};
}

class DocumentTask : public Task, public SplitRecords, public SplitExamples {
 public:
  DocumentTask(const DocumentOptions& options, RecordFile file, const Metadata& fitted)
      : options_(checked_options(options, "document")),
        file_(records_of(std::move(file), options)),
        reader_(document_reader(options, file_.name())) {
    index_pairs(file_, reader_);
    SplitRows rows = split_rows(file_, options);
    std::vector<Buckets::Lengths> lengths;
    lengths.reserve(file_.size());
    Lexicon::Counts labels;
    file_.for_each([&](std::int64_t row, std::string_view record) {
      const TextPair line = reader_.pair_in(file_, record);
      const Document document = document_of(line.target);
      if (document.empty()) file_.refuse(row, "the text has no words");
      if (const std::string excess = excess_of(document); !excess.empty()) file_.refuse(row, excess);
      std::size_t longest = 0;
      for (const auto& sentence : document) longest = std::max(longest, sentence.size());
      lengths.push_back({std::ssize(document), static_cast<std::int64_t>(longest)});
      ++labels[line.source];
    });
    refuse_texts_as_labels(labels.size());
    if (fitted.empty()) {
      // Labels come from the whole file, because the label set is part of the task.
      labels_ = Lexicon::of(labels, 1, Lexicon::k_max_entries);
      fit_words(rows[0]);
    } else {
      words_ = Lexicon::from_lines(get_text(fitted, "vocabulary"), file_.name());
      labels_ = Lexicon::from_lines(get_text(fitted, "labels"), file_.name());
      refuse_unknown(labels);
    }
    parts_ = SplitBuckets(std::move(rows), lengths, {options.batch, options.batch_tokens, /*nested=*/true});
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto input = [&](const char* name) { return scope.graph().input(name, like.inputs.at(name).type()); };
    const Value ids = input("ids"), words = input("words"), sentences = input("sentences"), labels = input("labels");
    const DocumentNetwork network{options_.model, options_.pooling, options_.embedding, words_.size() + 1,
                                  labels_.size()};
    const Value logits = network.build(scope, ids, words, sentences).logits;
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    TaskGraph t;
    t.weight = add_class_metrics(t, argmax(logits, -1), labels, {labels_.size(), -1});
    t.loss = sum(smoothed_cross_entropy(scope, logits, labels, options_.label_smoothing)) /
             maximum(t.weight, scalar_like(t.weight, 1));
    return t;
  }

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(parts_.rows(split).size()); }
  std::int64_t n_batches(Split split) const override { return parts_.n_batches(split); }

  void for_each_record(Split split, const std::function<void(std::string_view)>& take) const override {
    file_.for_each(parts_.rows(split), [&](std::int64_t, std::string_view record) {
      const TextPair pair = reader_.pair_in(file_, record);
      take(pair.source + "\t" + pair.target);
    });
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const SplitBuckets::Chosen chosen = parts_.choose(split, seed, epoch, index);
    std::vector<Sentences> documents;
    Tensor labels = Tensor::filled({DType::i32, {chosen.batch}}, k_no_label);
    for (const std::int64_t row : chosen.rows) {
      Encoded document = encoded(file_.text(row));
      if (std::ssize(document.sentences) > chosen.padded.first ||
          most_words(document.sentences) > chosen.padded.second)
        file_.refuse_changed();
      labels.set(std::ssize(documents), document.label);
      documents.push_back(std::move(document.sentences));
    }
    Batch result;
    std::vector<const Sentences*> in_order;
    for (const Sentences& document : documents) in_order.push_back(&document);
    result.inputs = document_inputs(in_order, chosen.padded.first, chosen.padded.second, chosen.batch);
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "document"},
               {"vocabulary", words_.lines()},
               {"labels", labels_.lines()},
               {"pooling", options_.pooling},
               {"embedding", std::to_string(options_.embedding)}};
    put_model_options(m, options_.model);
    return m;
  }

  std::vector<std::string> notes() const override {
    return {file_.name() + ": " + reader_.found(file_.size()) + "; " + counted(labels_.size(), "label")};
  }

  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    const std::vector<std::int64_t>& scored = parts_.rows(split);
    if (scored.empty()) return {};
    // log of a label's share of the documents, and of a word's share of the label's words, with add-one smoothing.
    const std::size_t K = labels_.size(), V = words_.size() + 1;
    std::vector<double> documents(K, 0), words(K * V, 1), all(K, static_cast<double>(V));
    file_.for_each(parts_.rows(Split::train), [&](std::int64_t, std::string_view record) {
      const Encoded document = encoded(record);
      const std::size_t k = document.label;
      ++documents[k];
      for_each_word(document, [&](std::size_t word) {
        ++words[k * V + word];
        ++all[k];
      });
    });
    const auto largest = [](const std::vector<double>& values) {
      return static_cast<std::int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
    };
    std::vector<std::int32_t> truth, same, bayes;
    file_.for_each(scored, [&](std::int64_t, std::string_view record) {
      const Encoded document = encoded(record);
      std::vector<double> score(K);
      for (std::size_t k = 0; k < K; ++k) score[k] = std::log(documents[k] + 1);
      for_each_word(document, [&](std::size_t word) {
        for (std::size_t k = 0; k < K; ++k) score[k] += std::log(words[k * V + word] / all[k]);
      });
      truth.push_back(document.label);
      same.push_back(largest(documents));
      bayes.push_back(largest(score));
    });
    const ClassSet classes{labels_.size(), -1};
    return {{"most_frequent", class_metrics(same, truth, classes)},
            {"naive_bayes", class_metrics(bayes, truth, classes)}};
  }

 private:
  struct Encoded {
    Sentences sentences;
    std::int32_t label;
  };
  Encoded encoded(std::string_view record) const {
    const TextPair line = reader_.pair_in(file_, record);
    const std::int32_t label = labels_.id(line.source);
    if (label == labels_.size()) file_.refuse_changed();
    return {sentences_of(document_of(line.target), words_), label};
  }

  // Refuses files with text and label columns swapped.
  void refuse_texts_as_labels(std::size_t n) const {
    constexpr std::size_t k_few = 20;  // each label of a small file may have one row
    if (n <= k_few || std::cmp_less_equal(2 * n, file_.size())) return;
    throw Error(ErrorKind::input_file, file_.name(),
                std::to_string(n) + " different labels in " + std::to_string(file_.size()) +
                    " rows: label and text may be swapped",
                "Write label<TAB>text, or set data.label to the label column, for example data.label = \"last\"");
  }
  void fit_words(const std::vector<std::int64_t>& train) {
    Lexicon::Counts words;
    file_.for_each(train, [&](std::int64_t, std::string_view record) {
      for (const auto& sentence : document_of(reader_.pair_in(file_, record).target))
        for (const std::string& word : sentence) ++words[word];
    });
    words_ = Lexicon::of(words, options_.min_count, options_.vocabulary);
  }
  // Refuses the first record with a label unknown to the model.
  void refuse_unknown(const Lexicon::Counts& labels) const {
    const auto is_known = [&](const std::string& label) { return labels_.id(label) < labels_.size(); };
    if (std::all_of(labels.begin(), labels.end(), [&](const auto& row) { return is_known(row.first); })) return;
    file_.for_each([&](std::int64_t row, std::string_view record) {
      const std::string label = reader_.pair_in(file_, record).source;
      if (!is_known(label)) file_.refuse(row, "the model has no label " + in_quotes(label));
    });
  }
  template <class F>
  static void for_each_word(const Encoded& document, const F& see) {
    for (const auto& sentence : document.sentences)
      for (const std::int32_t word : sentence) see(word);
  }

  DocumentOptions options_;
  RecordFile file_;  // one record per document
  PairsReader reader_;
  Lexicon words_, labels_;
  SplitBuckets parts_;
};

}  // namespace

std::shared_ptr<const Task> make_document(const DocumentOptions& options, DataSource data, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<DocumentTask>(options, record_file(data, name, options), fitted);
}

DataCheck check_data(const DocumentOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(from.file, name, o);
    PairsReader reader = document_reader(o, name);
    c.empty_lines(file, 0, joins_lines(file, reader));
    index_pairs(file, reader);
    const DataRows data(file, split_rows(file, o));
    LabeledWords found;
    data.for_each([&](const DataRows::Row& row) {
      const TextPair pair = reader.pair_in(file, row.record);
      std::int64_t n = 0;
      for (const std::vector<std::string>& sentence : document_of(pair.target)) {
        n += std::ssize(sentence);
        for (const std::string& word : sentence) ++found.words[row.split][word];
      }
      found.rows.push_back({content_of(pair.target), n, row.line, row.split});
      ++found.labels[pair.source][row.split];
    });
    found.report(c, data, o, "words");
  });
}

}  // namespace unroll
