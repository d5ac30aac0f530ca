// SPDX-License-Identifier: Apache-2.0
// Batches with the extended vocabulary of each source, and the loss (See, Liu, Manning 2017, eq. 6, 9, 12 and 13).
#include "core/tasks/decode/text_pairs.h"

#include "core/support/text/counted.h"
#include "core/tasks/common/split_buckets.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/decode/scheduled_sampling.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Written = AttentionNetwork::Written;

class TextPairsTask : public PairTask, public SplitExamples {
 public:
  TextPairsTask(TextPairs pairs, const TextRowsOptions& rows, const DecoderOptions& decoder)
      : pairs_(std::move(pairs)), decoder_(decoder), smoothing_(rows.label_smoothing) {
    pairs_.network.check();
    std::vector<Buckets::Lengths> lengths;
    lengths.reserve(file().size());
    file().for_each([&](std::int64_t row, std::string_view record) {
      const Encoded pair = encoded(record);
      lengths.push_back({std::ssize(pair.source.ids), std::ssize(pair.target.ids) + 1});
      if (pairs_.refuses_long && pair.source.cut + pair.target.cut > 0)
        file().refuse(row, "a side has more than " + std::to_string(coder().limits().source) + " tokens");
      sources_cut_ += pair.source.cut > 0;
      targets_cut_ += pair.target.cut > 0;
    });
    parts_ = SplitBuckets(std::move(pairs_.rows), lengths, {rows.batch, rows.batch_tokens});
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const AttentionNetwork& n = pairs_.network;
    const auto input = [&](const char* name) { return scope.graph().input(name, like.inputs.at(name).type()); };
    const Value source = input("source"), lengths = input("lengths");  // [S,B], [B]
    const Value copies = n.pointer ? input("copies") : Value();        // [B,S]
    const Value before = input("before"), by_step = input("labels");   // [T,B]
    const AttentionNetwork::Encoded e = n.encode(scope, source, lengths);
    Value read = before;
    if (scope.training() && decoder_.scheduled_sampling > 0) {
      AttentionNetwork first = n;  // the first pass has no penalties, because it yields only predictions
      first.model = first.model.without_penalties();
      const Written seen = first.decode(scope, before, e.states, e.memory);
      const Value own = n.likeliest(seen, n.pointer ? as_read(copies) : Value());
      read = sampled_inputs(scope, decoder_, before, n.reordered(own));
    }
    const Value tokens = reduce_sum(cast(less_equal(scalar_like(by_step, 0), by_step), DType::i32), {0});
    const Written written = n.decode(scope, read, e.states, e.memory, tokens);

    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    const Value labels = n.reordered(by_step);
    const Value real = less_equal(scalar_like(labels, 0), labels);
    const Value count = sum(cast(real, DType::f32));
    const auto total = [&](Value x) { return sum(select(real, x, scalar_like(x, 0))); };
    const Value nats = -n.log_probability(written, labels, copies);
    TaskGraph t;
    t.weight = count;
    Value loss = total(smoothed(scope, nats, written.logits));
    if (pairs_.token_accuracy)
      t.metrics.push_back(
          {"token_accuracy", sum(cast(equal(n.likeliest(written, copies), labels), DType::f32)), count});
    t.metrics.push_back({"perplexity", total(nats), count, MetricForm::exponential});
    if (n.pointer) t.metrics.push_back({"p_gen", total(reshape(sigmoid(written.switched), labels.shape())), count});
    if (n.coverage) {
      const Value covered = total(reduce_sum(minimum(written.weights, written.covered), {2}));  // eq. 12
      t.metrics.push_back({"coverage_loss", covered, count});
      loss = loss + covered * decoder_.coverage_weight;  // eq. 13
    }
    t.loss = loss / maximum(count, scalar_like(count, 1));
    return t;
  }

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(parts_.rows(split).size()); }
  std::int64_t n_batches(Split split) const override { return parts_.n_batches(split); }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const SplitBuckets::Chosen chosen = parts_.choose(split, seed, epoch, index);
    const std::int64_t S = chosen.padded.first, T = chosen.padded.second, B = chosen.batch;
    Tensor source(DType::i32, {S, B}), lengths(DType::i32, {B}),
        copies = Tensor::filled({DType::i32, {B, S}}, k_no_source),
        before = Tensor::filled({DType::i32, {T, B}}, static_cast<double>(coder().end())),
        labels = Tensor::filled({DType::i32, {T, B}}, k_no_label);
    for (std::int64_t b = 0; b < std::ssize(chosen.rows); ++b) {
      Encoded pair = encoded(file().text(chosen.rows[b]));
      std::vector<std::int32_t>& target = pair.target.ids;
      if (std::ssize(pair.source.ids) > S || std::ssize(target) >= T)
        file().refuse_changed();
      lengths.values<std::int32_t>()[b] = static_cast<std::int32_t>(pair.source.ids.size());
      put_column(source, b, pair.source.ids);
      put_row(copies, b, pair.source.copies);
      std::vector<std::int32_t> read;
      for (const std::int32_t id : target) read.push_back(coder().known(id));
      put_column(before, b, read, 1);
      target.push_back(coder().end());
      put_column(labels, b, target);
    }
    Batch result;
    result.inputs.emplace("source", std::move(source));
    result.inputs.emplace("lengths", std::move(lengths));
    if (pairs_.network.pointer) result.inputs.emplace("copies", std::move(copies));
    result.inputs.emplace("before", std::move(before));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", pairs_.task}};
    coder().put(m);
    pairs_.network.put(m);
    return m;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> list{file().name() + ": " + pairs_.reader.found(file().size())};
    const auto add = [&](std::int64_t n, const char* what, const char* key, std::int64_t limit) {
      if (n > 0)
        list.push_back(counted(n, what) + " of " + std::to_string(file().size()) + " cut to " + key + " = " +
                       std::to_string(limit));
    };
    add(sources_cut_, "source", "source_tokens", coder().limits().source);
    add(targets_cut_, "target", "target_tokens", coder().limits().target);
    return list;
  }

  void for_each_pair(Split split, const std::function<void(const Pair&)>& take) const override {
    file().for_each(parts_.rows(split), [&](std::int64_t, std::string_view record) {
      const TextPair pair = pairs_.reader.pair_in(file(), record);
      take({pair.source, pair.target});
    });
  }

 private:
  struct Encoded {
    SourceTokens source;
    PairCoder::Target target;
  };
  Encoded encoded(std::string_view record) const {
    const TextPair pair = pairs_.reader.pair_in(file(), record);
    Encoded e{coder().source(pair.source, file().name()), {}};
    e.target = coder().target(pair.target, e.source, file().name());
    return e;
  }
  const RecordFile& file() const { return pairs_.file; }
  const PairCoder& coder() const { return pairs_.coder; }

  // Returns the decoder inputs after copied positions [B,S]: target ids, with the unknown token for extended words.
  Value as_read(Value copies) const {
    const std::int32_t unknown = coder().target_tokenizer().unknown();
    const Value is_known = logical_and(less_equal(scalar_like(copies, 0), copies),
                                       less(copies, scalar_like(copies, static_cast<double>(coder().tokens()))));
    return select(is_known, copies, scalar_like(copies, static_cast<double>(unknown < 0 ? coder().end() : unknown)));
  }

  // Returns the loss of each label in nats; in training with label smoothing over the vocabulary (Szegedy et al. 2016).
  Value smoothed(const Scope& scope, Value nats, Value logits) const {
    if (!scope.training() || smoothing_ == 0) return nats;
    const Value even = reduce_sum(log_softmax(logits), {2}) / static_cast<double>(-pairs_.network.targets);
    return nats * (1 - smoothing_) + even * smoothing_;
  }

  TextPairs pairs_;
  DecoderOptions decoder_;
  double smoothing_;
  SplitBuckets parts_;
  std::int64_t sources_cut_ = 0, targets_cut_ = 0;
};

}  // namespace

AttentionNetwork network_of(const TextRowsOptions& rows, const DecoderOptions& decoder, const PairCoder& coder) {
  AttentionNetwork n;
  n.model = rows.model;
  n.attention = decoder.attention;
  n.embedding = rows.embedding;
  n.sources = coder.source_tokenizer().size();
  n.targets = coder.tokens();
  n.input_feeding = decoder.input_feeding;
  n.pointer = decoder.pointer;
  n.coverage = decoder.coverage;
  n.tied = decoder.tied;
  return n;
}

std::shared_ptr<const PairTask> make_text_pairs(TextPairs pairs, const TextRowsOptions& rows,
                                                const DecoderOptions& decoder) {
  return std::make_shared<TextPairsTask>(std::move(pairs), rows, decoder);
}

}  // namespace unroll
