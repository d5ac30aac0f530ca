// SPDX-License-Identifier: Apache-2.0
// Lines into lines: what the decoder reads in training is the target (teacher forcing) or, for a share of the tokens,
// what it predicts itself from a first pass over the target (parallel scheduled sampling, Duckworth et al. 2019).
#include <algorithm>
#include <optional>

#include "frontends/data/text/pairs.h"
#include "frontends/tasks/common/split_buckets.h"
#include "frontends/tasks/common/split_records.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/scheduled_sampling.h"
#include "frontends/tasks/translate/translate_network.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

class Translate : public PairTask, public SplitExamples {
 public:
  Translate(const TranslateOptions& options, RecordFile file, const Metadata& fitted)
      : options_(options), file_(records_of(std::move(file), options.validation, options.test)),
        reader_(file_.name(), {}) {
    check_sampling(options, "translate");
    index_pairs(file_, reader_);
    SplitRows rows = split_rows(file_, options.validation, options.test, options.split_seed);
    source_.emplace(coder(&TextPair::source, "source", rows[0], fitted));
    target_.emplace(coder(&TextPair::target, "target", rows[0], fitted));
    network().check();
    std::vector<Buckets::Lengths> lengths;
    lengths.reserve(static_cast<std::size_t>(file_.size()));
    file_.for_each([&](std::int64_t row, std::string_view record) {
      const Encoded pair = encoded(row, record);
      lengths.push_back(
          {static_cast<std::int64_t>(pair.source.size()), static_cast<std::int64_t>(pair.target.size()) + 1});
    });
    parts_ = SplitBuckets(std::move(rows), lengths, {options.batch, options.batch_tokens});
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto input = [&](const char* name) { return scope.graph().input(name, like.inputs.at(name).type()); };
    const Value source = input("source"), lengths = input("lengths");  // [S,B], [B]
    const Value before = input("before"), labels = input("labels");    // [T,B], [B,T]
    const TranslateNetwork n = network();
    const TranslateNetwork::Encoded e = n.encode(scope, source, lengths);
    const auto logits_after = [&](const TranslateNetwork& of, Value ids) {
      return of.decode(scope, ids, e.states, e.memory, lengths).logits;
    };
    Value read = before;
    if (scope.training() && options_.scheduled_sampling > 0) {
      TranslateNetwork first = n;  // a pass that is only looked at has nothing to be penalised for
      first.model.activation_penalty = first.model.temporal_penalty = 0;
      read = sampled_inputs(scope, options_, before, transpose(argmax(logits_after(first, before), -1), {1, 0}));
    }
    const Value logits = logits_after(n, read);
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    const Value real = less_equal(scalar_like(labels, 0), labels);
    const Value count = sum(cast(real, DType::f32));
    const Value nats = sum(softmax_cross_entropy(logits, labels));
    TaskGraph t;
    t.weight = count;
    t.loss = sum(smoothed_cross_entropy(scope, logits, labels, options_.label_smoothing)) /
             maximum(count, scalar_like(count, 1));
    t.metrics.push_back({"token_accuracy", sum(cast(equal(argmax(logits, -1), labels), DType::f32)), count});
    t.metrics.push_back({"perplexity", nats, count, MetricForm::exponential});
    return t;
  }

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(parts_.rows(split).size()); }
  std::int64_t n_batches(Split split) const override { return parts_.n_batches(split); }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const SplitBuckets::Chosen chosen = parts_.choose(split, seed, epoch, index);
    const std::int64_t S = chosen.padded.first, T = chosen.padded.second, B = chosen.batch;
    Tensor source_ids(DType::i32, {S, B}), lengths(DType::i32, {B}),
        before = Tensor::filled({DType::i32, {T, B}}, static_cast<double>(end())),
        labels = Tensor::filled({DType::i32, {B, T}}, k_no_label);
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(chosen.rows.size()); ++b) {
      const std::int64_t row = chosen.rows[static_cast<std::size_t>(b)];
      Encoded pair = encoded(row, file_.text(row));
      if (static_cast<std::int64_t>(pair.source.size()) > S || static_cast<std::int64_t>(pair.target.size()) >= T)
        file_.refuse_changed();
      lengths.values<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(pair.source.size());
      put_column(source_ids, b, pair.source);
      put_column(before, b, pair.target, 1);
      pair.target.push_back(end());
      put_row(labels, b, pair.target);
    }
    Batch result;
    result.inputs.emplace("source", std::move(source_ids));
    result.inputs.emplace("lengths", std::move(lengths));
    result.inputs.emplace("before", std::move(before));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "translate"},
               {"tokens", options_.tokens},
               {"source.vocabulary", source_->tokenizer().stored()},
               {"target.vocabulary", target_->tokenizer().stored()},
               {"attention", options_.attention},
               {"embedding", std::to_string(options_.embedding)},
               {"tied", std::string(1, options_.tied ? '1' : '0')}};
    put_model_options(m, options_.model);
    return m;
  }

  std::vector<std::string> notes() const override { return {file_.name() + ": " + reader_.found(file_.size())}; }

  void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const override {
    file_.for_each(parts_.rows(split), [&](std::int64_t, std::string_view record) {
      const TextPair pair = reader_.pair_in(file_, record);
      take({pair.source, pair.target});
    });
  }

 private:
  struct Encoded {
    std::vector<std::int32_t> source, target;
  };
  Encoded encoded(std::int64_t row, std::string_view record) const {
    const TextPair pair = reader_.pair_in(file_, record);
    return {tokens_of(*source_, pair.source, row), tokens_of(*target_, pair.target, row)};
  }
  std::int32_t end() const { return static_cast<std::int32_t>(target_->tokenizer().size()); }
  TranslateNetwork network() const {
    return {options_.model, options_.attention, options_.embedding, source_->tokenizer().size(), end() + 1,
            options_.tied};
  }

  LineCoder coder(std::string TextPair::*side, const std::string& which, const std::vector<std::int64_t>& train,
                  const Metadata& fitted) const {
    const std::string& name = file_.name();
    if (!fitted.empty())
      return LineCoder(
          Tokenizer::from_stored(get_text(fitted, "tokens"), get_text(fitted, which + ".vocabulary"), name));
    const std::string before = options_.tokens == "words" || options_.tokens == "bpe" ? " " : "";
    const Tokenizer::Texts texts = [&](const auto& take) {
      file_.for_each(
          train, [&](std::int64_t, std::string_view record) { take(before + reader_.pair_in(file_, record).*side); });
    };
    return LineCoder(Tokenizer::train(options_.tokens, texts, {options_.vocabulary, options_.min_count}, name));
  }

  std::vector<std::int32_t> tokens_of(const LineCoder& coder, const std::string& text, std::int64_t row) const {
    std::vector<std::int32_t> ids = coder.encode(text, file_.name());
    if (ids.size() > k_max_line_tokens)
      file_.refuse(row, "a side has more than " + std::to_string(k_max_line_tokens) + " tokens");
    return ids;
  }

  TranslateOptions options_;
  RecordFile file_;  // of a pair each
  PairsReader reader_;
  std::optional<LineCoder> source_, target_;
  SplitBuckets parts_;
};

}  // namespace

std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options, std::string_view text,
                                                    const std::string& name, const Metadata& fitted) {
  return std::make_shared<Translate>(options, RecordFile(text, name), fitted);
}

std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options,
                                                    std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                    const Metadata& fitted) {
  return std::make_shared<Translate>(options, RecordFile(std::move(file), name, options.memory_limit), fitted);
}

}  // namespace unroll
