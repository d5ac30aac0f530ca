// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/tasks/language_model.h"

#include <cmath>
#include <numbers>

#include "frontends/data/streams.h"
#include "frontends/data/text.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

CellLayerResult language_network(Scope& scope, Value ids, std::span<const Value> states,
                                 const RecurrentModelOptions& model, std::int64_t embedding, std::int64_t vocabulary) {
  if (model.bidirectional)
    throw Error(ErrorKind::usage, "language_model", "bidirectional would let the model read the character it predicts",
                "Set bidirectional = false");
  const Value x = embedding_layer(scope.child("embedding"), ids, vocabulary, embedding);
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states);
  r.y = linear_layer(scope.child("output"), dropout_layer(scope, r.y, model.dropout), vocabulary);
  return r;
}

namespace {

class LanguageModel : public Task {
 public:
  LanguageModel(const LanguageModelOptions& options, std::string_view bytes, const std::string& name,
                const Metadata& fitted)
      : options_(options) {
    const std::vector<char32_t> text = decode_utf8(bytes, name);
    const auto n = static_cast<std::int64_t>(text.size());
    if (n < 2)
      throw Error(ErrorKind::input_file, name,
                  "holds " + std::to_string(n) + " characters; a language model needs text");
    if (options.embedding < 1)
      throw Error(ErrorKind::usage, "language_model",
                  "embedding must be at least 1; got " + std::to_string(options.embedding));
    const std::int64_t n_train = n - part_of(n, options.held_out, "held_out");
    const auto train = std::span(text).first(static_cast<std::size_t>(n_train));
    vocabulary_ = fitted.empty() ? Vocabulary::of(train, name)
                                 : Vocabulary::from_characters(get_text(fitted, "vocabulary"), name);
    ids_ = vocabulary_.encode(text);
    const auto ids = std::span<const std::int32_t>(ids_);
    train_ =
        std::make_unique<Streams>(ids.first(train.size()), Streams::Layout{options.batch, options.steps, false}, name);
    if (n_train < n)
      held_out_ = std::make_unique<Streams>(ids.subspan(train.size()),
                                            Streams::Layout{options.evaluation_batch, options.steps, true},
                                            name + " (held out)");
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value ids = scope.graph().input("ids", like.inputs.at("ids").type());
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());
    std::vector<CarriedState> states = carried_states(scope, options_.model, ids.shape()[1]);
    std::vector<Value> initial;
    for (const CarriedState& s : states) initial.push_back(s.in);
    const CellLayerResult network =
        language_network(scope, ids, initial, options_.model, options_.embedding, vocabulary_.size());
    for (std::size_t i = 0; i < states.size(); ++i) states[i].out = network.states[i];
    const Value nats = softmax_cross_entropy(network.y, labels);
    const Value total = sum(nats), count = scalar_like(total, static_cast<double>(labels.shape().elements()));
    TaskGraph t;
    t.loss = total / count;
    t.weight = count;
    t.metrics.push_back({"bits_per_character", total * std::numbers::log2e, count});
    t.states = std::move(states);
    return t;
  }

  std::int64_t n_batches(Split split) const override {
    if (split == Split::train) return train_->n_windows();
    return held_out_ ? held_out_->n_windows() : 0;
  }

  Batch batch(Split split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Streams::Window w = (split == Split::train ? *train_ : *held_out_).window(index);
    Batch b;
    b.inputs.emplace("ids", std::move(w.ids));
    b.inputs.emplace("labels", std::move(w.labels));
    b.starts_stream = index == 0;
    return b;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "language_model"},
               {"vocabulary", vocabulary_.characters()},
               {"embedding", std::to_string(options_.embedding)}};
    put_model_options(m, options_.model);
    return m;
  }

  // The same character frequencies at every place.
  std::map<std::string, std::map<std::string, double>> baselines() const override {
    if (!held_out_) return {};
    std::vector<double> count(static_cast<std::size_t>(vocabulary_.size()), 1.0);
    const std::size_t n_train = ids_.size() - static_cast<std::size_t>(part_of(static_cast<std::int64_t>(ids_.size()),
                                                                               options_.held_out, "held_out"));
    for (std::size_t i = 0; i < n_train; ++i) ++count[static_cast<std::size_t>(ids_[i])];
    const double all = static_cast<double>(n_train) + static_cast<double>(count.size());
    double bits = 0;
    for (std::size_t i = n_train; i < ids_.size(); ++i)
      bits -= std::log2(count[static_cast<std::size_t>(ids_[i])] / all);
    return {{"frequency", {{"bits_per_character", bits / static_cast<double>(ids_.size() - n_train)}}}};
  }

 private:
  LanguageModelOptions options_;
  Vocabulary vocabulary_;
  std::vector<std::int32_t> ids_;
  std::unique_ptr<Streams> train_, held_out_;
};

}  // namespace

std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, std::string_view text,
                                                const std::string& name, const Metadata& fitted) {
  return std::make_shared<LanguageModel>(options, text, name, fitted);
}

}  // namespace unroll
