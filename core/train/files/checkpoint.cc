// SPDX-License-Identifier: Apache-2.0
#include "core/train/files/checkpoint.h"

#include <charconv>

#include "core/support/text/exact_text.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_format = "unroll run 1";

class Reader {
 public:
  Reader(const TensorFile& file, const std::string& path) : file_(file), path_(path) {}

  const std::string& text(const std::string& key) const {
    const auto at = file_.metadata.find(key);
    if (at == file_.metadata.end()) refuse("has no '" + key + "' in its metadata");
    return at->second;
  }
  template <class T>
  T number(const std::string& key) const {
    const std::string& from = text(key);
    T value{};
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (error != std::errc() || end != from.data() + from.size())
      refuse("has " + in_quotes(from) + " as '" + key + "'");
    return value;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input_file, path_, what,
                "The file is not a checkpoint of a run; start a new run in another folder");
  }

 private:
  const TensorFile& file_;
  const std::string& path_;
};

}  // namespace

void put_run_state(TensorFile& file, const RunState& s) {
  auto& m = file.metadata;
  m["trainer.format"] = k_format;
  m["trainer.update"] = exact_text(s.update);
  m["trainer.seed"] = exact_text(s.seed);
  m["trainer.batches_per_epoch"] = exact_text(s.batches_per_epoch);
  m["trainer.accumulate"] = exact_text(s.accumulate);
  m["trainer.metrics_bytes"] = exact_text(s.metrics_bytes);
  m["trainer.best_loss"] = s.best_loss ? exact_text(*s.best_loss) : "none";
  m["trainer.last_loss"] = exact_text(s.last_loss);
  if (s.lr) m["trainer.lr"] = exact_text(*s.lr);
  m["trainer.validations_without_better"] = exact_text(s.validations_without_better);
  m["trainer.plateaus"] = exact_text(s.plateau.plateaus);
  m["trainer.plateau_waited"] = exact_text(s.plateau.waited);
  m["trainer.rollbacks"] = exact_text(s.rollbacks);
  for (const auto& [name, value] : s.best_metrics) m["trainer.best." + name] = exact_text(value);
  if (!s.data_digest.empty()) m["trainer.data_digest"] = s.data_digest;
  if (!s.validation_digest.empty()) m["trainer.validation_digest"] = s.validation_digest;
}

RunState get_run_state(const TensorFile& file, const std::string& path) {
  const Reader read(file, path);
  if (read.text("trainer.format") != k_format)
    read.refuse("is of the format " + in_quotes(read.text("trainer.format")));
  RunState s;
  s.update = read.number<std::int64_t>("trainer.update");
  s.seed = read.number<std::uint64_t>("trainer.seed");
  s.batches_per_epoch = read.number<std::int64_t>("trainer.batches_per_epoch");
  s.accumulate = read.number<std::int64_t>("trainer.accumulate");
  s.metrics_bytes = read.number<std::size_t>("trainer.metrics_bytes");
  if (read.text("trainer.best_loss") != "none") s.best_loss = read.number<double>("trainer.best_loss");
  s.last_loss = read.number<double>("trainer.last_loss");
  if (file.metadata.contains("trainer.lr")) s.lr = read.number<double>("trainer.lr");
  s.validations_without_better = read.number<std::int64_t>("trainer.validations_without_better");
  s.plateau.plateaus = read.number<std::int64_t>("trainer.plateaus");
  s.plateau.waited = read.number<std::int64_t>("trainer.plateau_waited");
  s.rollbacks = read.number<std::int64_t>("trainer.rollbacks");
  if (file.metadata.contains("trainer.data_digest")) s.data_digest = read.text("trainer.data_digest");
  if (file.metadata.contains("trainer.validation_digest")) s.validation_digest = read.text("trainer.validation_digest");
  const std::string prefix = "trainer.best.";
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(prefix)) s.best_metrics[key.substr(prefix.size())] = read.number<double>(key);
  if (s.update < 0 || s.plateau.plateaus < 0 || s.plateau.waited < 0 || s.rollbacks < 0)
    read.refuse("has a negative count");
  return s;
}

}  // namespace unroll
