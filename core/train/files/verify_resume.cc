// SPDX-License-Identifier: Apache-2.0
// Compares an uninterrupted run with an interrupted and resumed one.
#include <algorithm>
#include <iterator>

#include "core/support/text/exact_text.h"
#include "core/support/text/in_quotes.h"
#include "core/train/files/checkpoint.h"
#include "core/train/files/run_folder.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_max_differences = 20;

// The first element in which two tensors of one type differ.
std::string first_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.bytes(), y = b.bytes();
  const auto same = std::ranges::mismatch(x, y).in1 - x.begin();
  const std::int64_t element = same * a.elements() / std::ssize(x);
  return "differs first at [" + std::to_string(element) + "] of " + a.type().text() + " in memory order: " +
         exact_text(a.at(element)) + ", resumed " + exact_text(b.at(element));
}

class RunComparison {
 public:
  explicit RunComparison(std::vector<std::string>& found) : found_(found) {}

  void files(const std::string& name, const std::string& straight, const std::string& resumed, Vfs& vfs) {
    if (!vfs.exists(straight) || !vfs.exists(resumed)) {
      if (vfs.exists(straight) != vfs.exists(resumed)) add(name, "is only in one of the runs");
      return;
    }
    const TensorFile a = load_safetensors(straight, vfs), b = load_safetensors(resumed, vfs);
    for (const auto& [tensor, value] : a.tensors) {
      const auto at = b.tensors.find(tensor);
      if (at == b.tensors.end() || at->second.type() != value.type())
        add(name, "'" + tensor + "' is missing after the resume, or of another type");
      else if (!std::equal(value.bytes().begin(), value.bytes().end(), at->second.bytes().begin()))
        add(name, "'" + tensor + "' " + first_difference(value, at->second));
    }
    for (const auto& [tensor, value] : b.tensors)
      if (!a.tensors.contains(tensor)) add(name, "'" + tensor + "' is there after the resume alone");
    for (const auto& [key, value] : a.metadata) {
      if (key == "digest") continue;  // follows from the rest
      const auto at = b.metadata.find(key);
      if (at == b.metadata.end() || at->second != value)
        add(name, "metadata '" + key + "' is " + in_quotes(value) + ", resumed " +
                      (at == b.metadata.end() ? std::string("(none)") : in_quotes(at->second)));
    }
  }

  void lines(const std::string& name, const std::string& straight, const std::string& resumed, Vfs& vfs) {
    const Bytes a = vfs.read(straight, k_max_metrics_bytes), b = vfs.read(resumed, k_max_metrics_bytes);
    if (a.size() == b.size() && std::equal(a.data(), a.data() + a.size(), b.data())) return;
    std::size_t i = 0;
    while (i < std::min(a.size(), b.size()) && a.data()[i] == b.data()[i]) ++i;
    const auto line = 1 + std::count(a.data(), a.data() + i, std::byte{'\n'});
    add(name, "differs first in line " + std::to_string(line));
  }

 private:
  void add(const std::string& file, const std::string& what) {
    if (found_.size() < k_max_differences) found_.push_back(file + ": " + what);
  }
  std::vector<std::string>& found_;
};

std::int64_t often(std::int64_t every, std::int64_t updates) {
  return every > 0 ? std::min(every, std::max<std::int64_t>(updates / 4, 1)) : 0;
}

}  // namespace

ResumeCheck verify_resume(const std::shared_ptr<const Task>& task, Backend& backend, const TrainerOptions& options,
                          std::int64_t updates, const std::string& folder) {
  if (updates < 2)
    throw Error(ErrorKind::usage, "verify_resume", "needs at least 2 updates; got " + std::to_string(updates));
  ResumeCheck check;
  TrainerOptions o = options;
  o.resume = o.overwrite = false;
  o.max_minutes = o.estimate_seconds = 0;
  if (o.epochs == 0) o.max_updates = std::max(o.max_updates, updates);
  o.validate_every = often(o.validate_every, updates);
  o.log_every = often(o.log_every, updates);
  o.checkpoint_every = often(o.checkpoint_every, updates);
  const auto run = [&](const std::string& name, std::int64_t stop_at, bool resume) {
    o.folder = folder + "/" + name;
    o.stop_at = stop_at;
    o.resume = resume;
    return Trainer(task, backend, o).fit().updates;
  };
  check.updates = run("straight", updates, false);  // the run may be shorter
  check.stopped_after = check.updates / 2;
  run("resumed", check.stopped_after, false);
  run("resumed", updates, true);
  RunComparison compare(check.differences);
  Vfs& vfs = o.vfs ? *o.vfs : disk();
  for (const char* name : {"last.safetensors", "best.safetensors"})
    compare.files(name, folder + "/straight/" + name, folder + "/resumed/" + name, vfs);
  compare.lines("metrics.jsonl", folder + "/straight/metrics.jsonl", folder + "/resumed/metrics.jsonl", vfs);
  return check;
}

}  // namespace unroll
