// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/text_lanes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/tasks/common/split_buckets.h"
#include "core/tasks/decode/attention_network.h"

namespace unroll {

namespace {

// A state [L,lanes,size].
struct State {
  std::span<float> values;
  std::size_t L, lanes, size;
  State(std::span<float> v, const Shape& shape) : values(v), L(shape[0]), lanes(shape[1]), size(shape[2]) {}
  void copy_lane(std::size_t lane, const State& to, std::size_t to_lane) const {
    for (std::size_t l = 0; l < L; ++l)
      std::ranges::copy(values.subspan((l * lanes + lane) * size, size),
                        to.values.begin() + static_cast<std::ptrdiff_t>((l * to.lanes + to_lane) * size));
  }
};

}  // namespace

TextLanes::TextLanes(const PairCoder& coder, Programs programs, const LaneSize& size, Sources sources,
                     const DecodeOptions& options, const WritingLimits& limits)
    : coder_(coder), encoder_(std::move(programs.encoder)), step_(std::move(programs.step)), size_(size),
      sources_(sources), options_(options), limits_(limits), pointer_(step_.has_output("copied")) {}

// Encodes the next B sources, from `first` on.
void TextLanes::encode(std::size_t first) {
  Tensor ids(DType::i32, {size_.steps, size_.rows}), lengths(DType::i32, {size_.rows});
  for (std::size_t b = 0; std::cmp_less(b, size_.rows) && first + b < sources_.size(); ++b) {
    const std::vector<std::int32_t>& source = sources_[first + b]->ids;
    put_column(ids, static_cast<std::int64_t>(b), source);
    lengths.set(static_cast<std::int64_t>(b), static_cast<double>(source.size()));
  }
  encoded_ = encoder_->run({{"source", std::move(ids)}, {"lengths", lengths}});
  encoded_.emplace("lengths", std::move(lengths));
}

BeamSearch TextLanes::start(std::size_t source, std::size_t row) {
  const SourceTokens& text = *sources_[source];
  BeamSearch search({.beam = options_.beam,
                     .length_penalty = options_.length_penalty,
                     .no_repeat_ngram = options_.no_repeat_ngram,
                     .min_length = options_.min_length,
                     .max_length = options_.max_length > 0
                                       ? options_.max_length
                                       : std::max(limits_.longest(text, coder_), options_.min_length),
                     .end = coder_.end(),
                     .never = coder_.target_tokenizer().unknown()});
  const std::size_t b = source % size_.rows, lane = row * size_.lanes;
  if (b == 0) encode(source);
  for (auto& [name, tensor] : encoded_) {
    if (std::ranges::count(step_.states(), name) > 0) {
      State(tensor.values<float>(), tensor.shape())
          .copy_lane(b, State(step_.output(name), step_.type(name).shape), lane);
      continue;
    }
    const std::size_t bytes = tensor.bytes().size() / size_.rows;
    step_.set_row(name, row, tensor.bytes().subspan(b * bytes, bytes));
  }
  std::ranges::fill(step_.output("attended").subspan(lane * size_.steps, size_.steps), 0.0F);
  return search;
}

void TextLanes::run(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) {
  std::vector<std::int32_t> read;
  for (const std::int32_t id : tokens) read.push_back(coder_.known(id));
  step_.set("ids", Tensor::from<std::int32_t>({1, std::ssize(read)}, read));
  for (const std::string& name : step_.states()) {
    const State last(step_.output(name), step_.type(name).shape), next(step_.input(name), step_.type(name).shape);
    for (std::size_t lane = 0; lane < parents.size(); ++lane) last.copy_lane(parents[lane], next, lane);
  }
  step_.run();
}

void TextLanes::copy_words(const SourceTokens& source, std::span<float> logits, double shift,
                           std::span<const float> copied) {
  mass_.resize(std::max(mass_.size(), logits.size() + source.extended.size()));
  for (std::size_t i = 0; i < source.copies.size(); ++i)
    if (source.copies[i] != k_no_source) mass_[source.copies[i]] += static_cast<double>(copied[i]);
  for (const std::int32_t id : source.copies) {
    if (id == k_no_source) continue;
    const double mass = std::exchange(mass_[id], 0);
    if (!(mass > 0)) continue;  // also skips repeated source words
    const bool known = std::cmp_less(id, logits.size());
    const double written = known ? std::exp(static_cast<double>(logits[id]) + shift) : 0;
    others_.push_back({id, std::log(written + mass)});
    if (known) logits[id] = -HUGE_VALF;
  }
}

void TextLanes::advance(std::size_t source, std::size_t row, BeamSearch& search) {
  const SourceTokens& text = *sources_[source];
  const std::size_t n = search.tokens().size(), first = row * size_.lanes, V = coder_.tokens();
  const auto of_lane = [&](const char* name, std::size_t i, std::size_t width) {
    return step_.output(name).subspan((first + i) * width, width);
  };
  std::vector<NextTokens> lanes;
  std::vector<std::size_t> ends;  // end of each lane's words in others_
  others_.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const auto logits = of_lane("logits", i, V);
    const auto shift = static_cast<double>(of_lane("shift", i, 1)[0]);
    if (pointer_) copy_words(text, logits, shift, of_lane("copied", i, size_.steps));
    lanes.push_back({logits, shift});
    ends.push_back(others_.size());
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t begin = i > 0 ? ends[i - 1] : 0;
    lanes[i].others = std::span(others_).subspan(begin, ends[i] - begin);
  }
  std::vector<double> bonuses;
  for (std::size_t i = 0; options_.coverage_penalty != 0 && i < n; ++i)
    bonuses.push_back(options_.coverage_penalty *
                      coverage_penalty(of_lane("attended", i, size_.steps).first(text.ids.size())));
  search.advance(lanes, bonuses);
}

}  // namespace unroll
