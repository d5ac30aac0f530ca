// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of one run, besides the sums of gradients.
#include <algorithm>
#include <cstring>

#include "core/parallel/collectives.h"
#include "core/support/tensor_role.h"
#include "core/train/loop/trainer_state.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::span<const std::byte> text_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const ByteList& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first line in which the two differ, of `mine`.
std::string first_difference(const std::string& mine, const std::string& other) {
  const auto a = std::ranges::mismatch(mine, other).in1;
  constexpr std::size_t k_shown = 80;
  const std::string before(mine.begin(), a);
  const std::string line = mine.substr(before.rfind('\n') + 1, k_shown);
  return line.substr(0, line.find('\n'));
}

}  // namespace

// One line for each thing that has to be equal: "name=value".
std::string Trainer::State::facts() const {
  std::map<std::string, std::string> facts = task->metadata();
  for (const auto& [key, value] : options.metadata) facts.insert_or_assign(key, value);
  facts["version"] = UNROLL_VERSION;
  facts["seed"] = std::to_string(options.seed);
  facts["accumulate"] = std::to_string(options.accumulate);
  facts["batches per epoch"] = std::to_string(n_batches);
  facts["estimate"] = options.estimate_seconds > 0 ? "yes" : "no";
  facts["updates"] = std::to_string(options.max_updates);
  facts["run folder"] = options.folder;
  facts["first batch"] = digest_of(task->batch(Split::train, options.seed, 0, 0));
  std::string text;
  for (const auto& [key, value] : facts) {
    std::string line = key + "=" + value;
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += line + "\n";
  }
  return text;
}

bool Trainer::State::on_any_rank(bool mine) const { return ranks ? any(*ranks, mine) : mine; }

bool Trainer::State::from_rank_0(bool mine) const {
  const std::byte own{static_cast<unsigned char>(mine)};
  return broadcast(*ranks, std::span(&own, 1))[0] != std::byte{0};
}

std::string Trainer::State::first_text(Communicator& ranks, const std::string& mine) {
  for (const ByteList& bytes : all_gather(ranks, text_bytes(mine)))
    if (!bytes.empty()) return text_of(bytes);
  return {};
}

void Trainer::State::require_equal_ranks() const {
  if (!ranks) return;
  const std::string mine = facts();
  const std::vector<ByteList> all = all_gather(*ranks, text_bytes(mine));
  const std::string first = text_of(all[0]);
  for (std::size_t r = 1; r < all.size(); ++r)
    if (const std::string other = text_of(all[r]); other != first)
      throw Error(ErrorKind::usage, "ranks",
                  "rank " + std::to_string(r) + " has " + first_difference(other, first) + ", and rank 0 has " +
                      first_difference(first, other),
                  "Start the same version with the same config and data on all ranks");
}

TrainResult Trainer::State::failing_together(const std::function<TrainResult()>& work) {
  if (!ranks) return work();
  try {
    return work();
  } catch (const std::exception& e) {
    ranks->fail(e.what());
    model.end_exchanges();
    throw;
  }
}

std::optional<TensorFile> Trainer::State::from_first(const std::optional<TensorFile>& file) const {
  const ByteList own = is_first() && file ? safetensors_bytes(*file) : ByteList();
  const ByteList bytes = broadcast(*ranks, own);
  if (bytes.empty()) return std::nullopt;
  return parse_safetensors(bytes, "the checkpoint of rank 0");
}

TensorMap Trainer::State::carried_by_all() const {
  TensorMap tensors = model.tensors().carried().views(), states;
  for (const auto& [name, tensor] : tensors)
    if (role_of(name) == TensorRole::state) states.emplace(name, tensor);
  for (const ByteList& bytes : all_gather(*ranks, safetensors_bytes({states, {}})))
    tensors.merge(parse_safetensors(bytes, "the states of a rank").tensors);
  return tensors;
}

}  // namespace unroll
