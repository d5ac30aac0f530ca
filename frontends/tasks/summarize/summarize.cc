// SPDX-License-Identifier: Apache-2.0
// Texts into summaries: batches with the extended vocabulary of each source, and the loss of the pointer-generator
// network (See, Liu, Manning 2017, eq. 6, 9, 12 and 13).
#include <optional>

#include "core/support/counted.h"
#include "frontends/tasks/common/split_buckets.h"
#include "frontends/tasks/common/split_records.h"
#include "frontends/tasks/decode/scheduled_sampling.h"
#include "frontends/tasks/summarize/summarize_network.h"
#include "frontends/tasks/summarize/summary_text.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

void check_options(const SummarizeOptions& o) {
  if (o.source_tokens < 1 || o.target_tokens < 1)
    throw Error(ErrorKind::usage, "summarize",
                "source_tokens and target_tokens must be at least 1; got " + std::to_string(o.source_tokens) + " and " +
                    std::to_string(o.target_tokens));
  if (!(o.coverage_weight >= 0))
    throw Error(ErrorKind::usage, "summarize",
                "coverage_weight must be at least 0; got " + std::to_string(o.coverage_weight));
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1))
    throw Error(ErrorKind::usage, "summarize",
                "label_smoothing must be in [0,1); got " + std::to_string(o.label_smoothing));
  check_sampling(o, "summarize");
}

class Summarize : public PairTask, public SplitExamples {
 public:
  Summarize(const SummarizeOptions& options, RecordFile file, const Metadata& fitted)
      : options_(options), file_(records_of(std::move(file), options.validation, options.test)),
        reader_(summary_reader(options, file_.name())) {
    check_options(options);
    index_pairs(file_, reader_);
    SplitRows rows = summary_rows(file_, reader_, options);
    coder_.emplace(LineCoder(fitted.empty() ? summary_tokenizer(file_, reader_, rows[0], options)
                                            : Tokenizer::from_stored(get_text(fitted, "tokens"),
                                                                     get_text(fitted, "vocabulary"), file_.name())),
                   options.lowercase, SummaryCoder::Limits{options.source_tokens, options.target_tokens});
    network().check();
    std::vector<Buckets::Lengths> lengths;
    lengths.reserve(static_cast<std::size_t>(file_.size()));
    file_.for_each([&](std::int64_t, std::string_view record) {
      const Encoded pair = encoded(record);
      lengths.push_back({static_cast<std::int64_t>(pair.source.ids.size()),
                         static_cast<std::int64_t>(pair.target.ids.size()) + 1});
      sources_cut_ += pair.source.cut > 0;
      targets_cut_ += pair.target.cut > 0;
    });
    parts_ = SplitBuckets(std::move(rows), lengths, {options.batch, options.batch_tokens});
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const auto input = [&](const char* name) { return scope.graph().input(name, like.inputs.at(name).type()); };
    const Value source = input("source"), lengths = input("lengths");  // [S,B], [B]
    const Value copies = options_.pointer ? input("copies") : Value();  // [B,S]
    const Value before = input("before"), labels = input("labels");    // [T,B]
    const SummarizeNetwork n = network();
    const SummarizeNetwork::Encoded e = n.encode(scope, source, lengths);
    const bool smooths = scope.training() && options_.label_smoothing > 0;
    // nats [T,B], then p_gen, coverage loss and even nats as far as there are any.
    const auto outputs = [&](Step& step, const SummarizeNetwork::Written& w) {
      const Value label = step.slice_of(labels);
      std::vector<Value> list{
          -n.log_probability(w, label, options_.pointer ? step.outer(copies) : Value())};
      if (options_.pointer) list.push_back(reshape(sigmoid(w.switched), label.shape()));
      if (options_.coverage) list.push_back(reduce_sum(minimum(w.weights, w.covered), {1}));  // eq. 12
      if (smooths) list.push_back(reduce_sum(log_softmax(w.logits), {1}) / static_cast<double>(-n.tokens));
      return list;
    };
    const Value read = scope.training() && options_.scheduled_sampling > 0
                           ? sampled_inputs(scope, options_, before, predicted(scope, n, e, source, before))
                           : before;
    std::vector<Value> written = n.decode(scope, read, e.states, e.memory, outputs).outputs;

    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    const Value real = less_equal(scalar_like(labels, 0), labels);
    const Value count = sum(cast(real, DType::f32));
    const auto total = [&](Value x) { return sum(select(real, x, scalar_like(x, 0))); };
    const Value nats = total(written[0]), divisor = maximum(count, scalar_like(count, 1));
    TaskGraph t;
    t.weight = count;
    t.metrics.push_back({"perplexity", nats, count, MetricForm::exponential});
    Value loss = smooths ? nats * (1 - options_.label_smoothing) + total(written.back()) * options_.label_smoothing
                         : nats;
    if (options_.pointer) t.metrics.push_back({"p_gen", total(written[1]), count});
    if (options_.coverage) {
      const Value covered = total(written[options_.pointer ? 2 : 1]);
      t.metrics.push_back({"coverage_loss", covered, count});
      loss = loss + covered * options_.coverage_weight;  // eq. 13
    }
    t.loss = loss / divisor;
    return t;
  }

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(parts_.rows(split).size()); }
  std::int64_t n_batches(Split split) const override { return parts_.n_batches(split); }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const SplitBuckets::Chosen chosen = parts_.choose(split, seed, epoch, index);
    const std::int64_t S = chosen.padded.first, T = chosen.padded.second, B = chosen.batch;
    Tensor source(DType::i32, {S, B}), lengths(DType::i32, {B}),
        copies = Tensor::filled({DType::i32, {B, S}}, k_no_source),
        before = Tensor::filled({DType::i32, {T, B}}, static_cast<double>(coder_->end())),
        labels = Tensor::filled({DType::i32, {T, B}}, k_no_label);
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(chosen.rows.size()); ++b) {
      Encoded pair = encoded(file_.text(chosen.rows[static_cast<std::size_t>(b)]));
      std::vector<std::int32_t>& target = pair.target.ids;
      if (static_cast<std::int64_t>(pair.source.ids.size()) > S || static_cast<std::int64_t>(target.size()) >= T)
        file_.refuse_changed();
      lengths.values<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(pair.source.ids.size());
      put_column(source, b, pair.source.ids);
      put_row(copies, b, pair.source.copies);
      std::vector<std::int32_t> read;
      for (const std::int32_t id : target) read.push_back(coder_->known(id));
      put_column(before, b, read, 1);
      target.push_back(coder_->end());
      put_column(labels, b, target);
    }
    Batch result;
    result.inputs.emplace("source", std::move(source));
    result.inputs.emplace("lengths", std::move(lengths));
    if (options_.pointer) result.inputs.emplace("copies", std::move(copies));
    result.inputs.emplace("before", std::move(before));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    const auto flag = [](bool b) { return std::string(1, b ? '1' : '0'); };
    Metadata m{{"task", "summarize"},
               {"tokens", options_.tokens},
               {"vocabulary", coder_->tokenizer().stored()},
               {"lowercase", flag(options_.lowercase)},
               {"source_tokens", std::to_string(options_.source_tokens)},
               {"target_tokens", std::to_string(options_.target_tokens)},
               {"embedding", std::to_string(options_.embedding)},
               {"chunk", std::to_string(options_.chunk)},
               {"pointer", flag(options_.pointer)},
               {"coverage", flag(options_.coverage)},
               {"shared_embedding", flag(options_.shared_embedding)},
               {"tied", flag(options_.tied)}};
    put_model_options(m, options_.model);
    return m;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> list{file_.name() + ": " + reader_.found(file_.size())};
    const auto add = [&](std::int64_t n, const char* what, const char* key, std::int64_t limit) {
      if (n > 0)
        list.push_back(counted(n, what) + " of " + std::to_string(file_.size()) + " cut to " + key + " = " +
                       std::to_string(limit));
    };
    add(sources_cut_, "source", "source_tokens", options_.source_tokens);
    add(targets_cut_, "target", "target_tokens", options_.target_tokens);
    return list;
  }

  void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const override {
    file_.for_each(parts_.rows(split), [&](std::int64_t, std::string_view record) {
      const TextPair pair = reader_.pair_in(file_, record);
      take({pair.source, pair.target});
    });
  }

 private:
  // What the decoder would write after each token of `before`, as it reads it: [T,B].
  static Value predicted(Scope& scope, const SummarizeNetwork& n, const SummarizeNetwork::Encoded& e, Value source,
                         Value before) {
    const Value words = transpose(source, {1, 0});  // [B,S]: a word that is copied is read as the encoder read it
    const auto likeliest = [&](Step& step, const SummarizeNetwork::Written& w) {
      return std::vector{n.likeliest(w, n.pointer ? step.outer(words) : Value())};
    };
    return n.decode(scope, before, e.states, e.memory, likeliest).outputs[0];
  }

  struct Encoded {
    SourceTokens source;
    SummaryCoder::Target target;
  };
  Encoded encoded(std::string_view record) const {
    const TextPair pair = reader_.pair_in(file_, record);
    Encoded e{coder_->source(pair.source, file_.name()), {}};
    // Without a pointer nothing can be copied: an unknown word is the unknown token.
    e.target = coder_->target(pair.target, options_.pointer ? e.source : SourceTokens(), file_.name());
    return e;
  }
  SummarizeNetwork network() const {
    return {options_.model,   options_.embedding, coder_->tokens(),          options_.chunk,
            options_.pointer, options_.coverage,  options_.shared_embedding, options_.tied};
  }

  SummarizeOptions options_;
  RecordFile file_;  // of a pair each
  PairsReader reader_;
  std::optional<SummaryCoder> coder_;
  SplitBuckets parts_;
  std::int64_t sources_cut_ = 0, targets_cut_ = 0;
};

}  // namespace

std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options, std::string_view text,
                                               const std::string& name, const Metadata& fitted) {
  return std::make_shared<Summarize>(options, RecordFile(text, name), fitted);
}

std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options,
                                               std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                               const Metadata& fitted) {
  return std::make_shared<Summarize>(options, RecordFile(std::move(file), name, options.memory_limit), fitted);
}

}  // namespace unroll
