// SPDX-License-Identifier: Apache-2.0
// `unroll profile`: runs updates of a training and shows their time.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/support/files/paths.h"
#include "core/train/device/options.h"
#include "frontends/cli/bench/compare_model.h"
#include "frontends/cli/bench/self_test.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/chrome_trace.h"
#include "frontends/cli/explain/plan_table.h"
#include "frontends/cli/explain/timed_task.h"
#include "frontends/cli/run/launched_ranks.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/signals.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/support/error.h"
#include "unroll/support/trace.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct ProfileArguments : ComparedArguments {
  std::int64_t updates = 0;
  std::string trace;                  // file for a Chrome trace
  std::int64_t trace_events = 20000;  // maximum per thread
  bool json = false;
};

void add_options(CLI::App& app, ProfileArguments& o) {
  add_operand(app, "model", o.config, "Run folder or config file.");
  group(app, "Model");
  add_weights(app, o);
  add_precision(app, o.precision);
  add_set(app, o);
  add_seed(app, o);
  group(app, "Measurement");
  show_default(add_integer(app, "--updates", o.updates, "Most updates to measure, after at most 20 warm-up updates.",
                           {1, 100000, 50}), "20");
  add_text(app, "--trace", o.trace, "FILE",
           "Write a Chrome trace of three further updates, for chrome://tracing or ui.perfetto.dev.");
  add_integer(app, "--trace-events", o.trace_events, "Most events to keep per thread in the trace.",
              {1, 1e7, 20000});
  group(app, "Output");
  add_json(app, o.json);
  add_config_device(app, o);
  add_examples(app,
               "  unroll profile docs/examples/char-lm.toml\n"
               "  unroll profile runs/char-lm --updates 50 --trace trace.json");
}

using Clock = ProfilingBackend::Clock;

// Updates before measuring starts, because timings of the first runs choose schedules. A slow device runs and measures
// fewer updates, unless their number is given.
constexpr std::int64_t k_warm_up = 20, k_least_warm_up = 3, k_least_updates = 3;
constexpr double k_long = 5;  // limit in seconds for the warm-up, and for measuring
constexpr std::int64_t k_traced_updates = 3;

// The exchanges of one of several ranks, per update.
struct Exchanges {
  double update_ms = 0;
  double milliseconds = 0, bytes = 0;  // all exchanges; bytes that this rank sent
  double waiting_ms = 0;               // part that waits for later ranks
  double hidden_ms = 0;                // part that overlaps computation of this rank
  double before_calls_ms = 0;          // exchanges that are not calls of a plan
};

struct Measured {
  UpdateProfile calls;
  std::vector<Exchanges> exchanges;  // by rank; empty: one process
  std::int64_t updates = 0;
  double update_ms = 0, least_ms = 0, median_ms = 0;  // mean, minimum and median of an update
  double data_ms = 0, transfer_ms = 0, batch_ms = 0;
  Roofline roofline;
  Clock::time_point trace_begin{};
};

Config config_of(const ProfileArguments& options) {
  const bool run = is_folder(options.config) || !options.weights.empty();
  return run ? open_run(options).config : load_config(options, options.config);
}

Exchanges exchanges_since(const Communicator& ranks, const Communicator::Exchanged& before, double updates) {
  const Communicator::Exchanged now = ranks.exchanged();
  const auto ms = [&](double from, double to) { return 1e3 * (to - from) / updates; };
  return {.milliseconds = ms(before.seconds, now.seconds),
          .bytes = static_cast<double>(now.sent_bytes - before.sent_bytes) / updates,
          .waiting_ms = ms(before.waiting_seconds, now.waiting_seconds),
          .hidden_ms = ms(before.hidden_seconds, now.hidden_seconds)};
}

// Gathers the exchanges of all ranks on rank 0.
std::vector<Exchanges> of_all_ranks(Communicator& ranks, const Exchanges& own) {
  std::vector<Exchanges> all(ranks.size(), own);
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  if (ranks.rank() != 0) out.push_back({0, std::as_bytes(std::span(&own, 1))});
  for (int r = 1; r < ranks.size() && ranks.rank() == 0; ++r)
    in.push_back({r, std::as_writable_bytes(std::span(&all[r], 1))});
  ranks.exchange(out, in);
  return all;
}

// Times updates: some to warm up, then the measured ones, then those of the trace. on_update() is called before each
// update and after the last.
class UpdateTimer {
 public:
  // is_given: the number of updates holds on a slow device, too.
  UpdateTimer(ProfilingBackend& backend, std::int64_t most, bool is_given, Trace* trace)
      : backend_(backend), ranks_(backend.communicator()), trace_(trace), most_(most), is_given_(is_given),
        end_(warm_ + most) {
    if (ranks_) ranks_->measure_waiting();
  }
  std::int64_t n_traced() const { return trace_ ? k_traced_updates : 0; }
  std::int64_t n_updates() const { return k_warm_up + most_ + n_traced(); }  // at most

  // Returns true when all is measured.
  bool on_update() {
    const auto now = Clock::now();
    ++done_;
    if (done_ == 0) begin_ = now;
    shorten(now);
    if (done_ > warm_ && done_ <= end_) times_.push_back(1e3 * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    if (done_ == warm_) begin_measuring(now);
    if (done_ == end_) end_measuring(now);
    backend_.await_call_from(Clock::now());
    return done_ == end_ + n_traced();
  }

  Measured finish() {
    if (trace_) trace_->record(false);
    if (ranks_) measured_.exchanges = of_all_ranks(*ranks_, own_);
    return std::move(measured_);
  }

 private:
  // A slow device warms up and is measured for fewer updates. Ranks must not decide this on their own.
  void shorten(Clock::time_point now) {
    if (ranks_ || std::chrono::duration<double>(now - begin_).count() <= k_long) return;
    if (done_ >= k_least_warm_up && done_ < warm_) {
      warm_ = done_;
      end_ = done_ + most_;
    } else if (done_ >= warm_ + k_least_updates && done_ < end_ && !is_given_) {
      end_ = done_;
    }
  }

  void begin_measuring(Clock::time_point now) {
    backend_.mark();
    begin_ = now;
    if (ranks_) exchanged_before_ = ranks_->exchanged();
  }

  void end_measuring(Clock::time_point now) {
    Measured& m = measured_;
    m.updates = end_ - warm_;
    const auto n = static_cast<double>(m.updates);
    m.calls = profile_updates(backend_.plans(), m.updates);
    m.update_ms = 1e3 * std::chrono::duration<double>(now - begin_).count() / n;
    std::sort(times_.begin(), times_.end());
    m.least_ms = times_.front();
    m.median_ms = times_[times_.size() / 2];
    m.data_ms = 1e3 * backend_.seconds_before_calls() / n;
    m.transfer_ms = 1e3 * backend_.transfer_seconds() / n;
    if (ranks_) own_ = exchanges_since(*ranks_, exchanged_before_, n);
    own_.update_ms = m.update_ms;
    own_.before_calls_ms = 1e3 * backend_.exchanges_before_calls() / n;
    m.trace_begin = Clock::now();
    if (!trace_) return;
    backend_.keep_spans(k_most_host_spans);
    trace_->record(true);
  }

  ProfilingBackend& backend_;
  Communicator* ranks_;
  Trace* trace_;
  std::int64_t most_;
  bool is_given_;
  std::int64_t done_ = -1, warm_ = k_warm_up, end_;
  Clock::time_point begin_{}, last_{};
  std::vector<double> times_;  // milliseconds of measured updates
  Communicator::Exchanged exchanged_before_;
  Exchanges own_;
  Measured measured_;
};

Measured measure(const CompareModel& model, ProfilingBackend& backend, std::int64_t most, bool is_given, Trace* trace,
                 std::vector<HostLane>& lanes) {
  const auto task = std::make_shared<TimedTask>(model.task);
  UpdateTimer timer(backend, most, is_given, trace);
  TrainerOptions options = updates_alone(model.training);
  options.epochs = 0;
  options.stop_at = timer.n_updates();
  options.max_updates = std::max(options.max_updates, options.stop_at);
  Trainer trainer(task, backend, options);
  if (!model.parameters.empty()) trainer.set_parameters(model.parameters);
  // Several ranks have caught the signal.
  trainer.fit({}, [&] { return timer.on_update() || stop_signal() != 0; });
  Measured m = timer.finish();
  m.batch_ms = 1e3 * task->seconds_each() * static_cast<double>(options.accumulate);
  lanes = {{"trainer", backend.spans()}, {"loader", task->spans_since(m.trace_begin)}};
  return m;
}

// ---- output

struct PhaseRow {
  std::string name;
  double milliseconds;
};
std::vector<PhaseRow> phases_of(const Measured& m) {
  std::vector<PhaseRow> rows{{"data", m.data_ms}};
  double in_calls = 0;
  for (std::size_t p = 0; p < m.calls.phase_ms.size(); ++p) {
    const auto phase = static_cast<Origin::Phase>(p);
    const bool exchanges = phase == Origin::Phase::communication;
    in_calls += m.calls.phase_ms[p];
    if (exchanges && m.exchanges.empty()) continue;
    rows.push_back({std::string(phase_name(phase)),
                    m.calls.phase_ms[p] + (exchanges ? m.exchanges[0].before_calls_ms : 0.0)});
  }
  rows.push_back({"between calls", std::max(0.0, m.calls.run_ms - in_calls)});
  rows.push_back({"transfer", m.transfer_ms});
  double known = 0;
  for (const PhaseRow& row : rows) known += row.milliseconds;
  rows.push_back({"host", std::max(0.0, m.update_ms - known)});
  return rows;
}

// Returns the roofline's time limit for the call relative to its measured time.
double of_roofline(const PlanCall& call, const Roofline& roof) {
  const double ms = call.line.milliseconds;
  return ms <= 0 ? 0 : 1e3 * std::max(call.flop / roof.flop, call.bytes / roof.bytes) / ms;
}

ReportList phase_rows(const Measured& m) {
  ReportList rows;
  for (const PhaseRow& phase : phases_of(m))
    rows.push_back(Report()
                       .add("phase", phase.name)
                       .add("milliseconds", phase.milliseconds)
                       .add("share", phase.milliseconds / m.update_ms));
  return rows;
}

TextTable phase_table(const Measured& m) {
  TextTable table{{"phase", "ms", "share"}, {}};
  for (const PhaseRow& phase : phases_of(m))
    table.rows.push_back({phase.name, fmt::format("{:.3f}", phase.milliseconds),
                          fmt::format("{:.1f} %", 100 * phase.milliseconds / m.update_ms)});
  return table;
}

Report json_row(const PlanCall& call, const Measured& m) {
  Report row;
  row.add("phase", std::string(phase_name(call.place.phase))).add("layer", call.place.layer);
  row.add("step", call.line.step).add("kernel", call.line.implementation).add("depth", call.line.depth);
  row.add("milliseconds", call.line.milliseconds).add("predicted_ms", call.line.predicted_ms);
  row.add("flop", call.flop).add("bytes", call.bytes).add("of_roofline", of_roofline(call, m.roofline));
  return row;
}

std::vector<std::string> text_row(const PlanCall& call, const Measured& m) {
  const bool timed = call.line.milliseconds > 0;
  const auto rate = [&](double work) {
    return timed && work > 0 ? fmt::format("{:.1f}", work / call.line.milliseconds / 1e6) : "-";
  };
  const std::string kernel = call.line.implementation.substr(0, call.line.implementation.find(';'));
  return {timed ? fmt::format("{:.4f}", call.line.milliseconds) : "-",
          timed ? fmt::format("{:.1f} %", 100 * call.line.milliseconds / m.update_ms) : "-",
          timed ? fmt::format("{:.0f} %", 100 * of_roofline(call, m.roofline)) : "-",
          rate(call.flop),
          rate(call.bytes),
          std::string(phase_name(call.place.phase)),
          call.place.layer,
          std::string(2 * call.line.depth, '.') + call.line.step + ": " + kernel};
}

ReportList call_rows(const Measured& m) {
  ReportList rows;
  for (const PlanCall& call : m.calls.calls) rows.push_back(json_row(call, m));
  return rows;
}

// Returns the calls that take at least a hundredth of an update, with their enclosing loops.
TextTable call_table(const Measured& m) {
  constexpr double k_shown = 0.01;
  TextTable table{{"ms", "share", "of roof", "GFLOP/s", "GB/s", "phase", "layer", "call"}, {}};
  for (const PlanCall& call : m.calls.calls)
    if (call.line.milliseconds >= k_shown * m.update_ms) table.rows.push_back(text_row(call, m));
  return table;
}

// Waiting for later ranks is not counted as exchange, and overlapped time costs nothing.
void add_exchanges(Report& report, const std::vector<Exchanges>& ranks) {
  if (ranks.empty()) return;
  const Exchanges& own = ranks[0];
  const double moving = own.milliseconds - own.waiting_ms;
  report.add("ranks", ranks.size())
      .add("communication_ms", own.milliseconds)
      .add("waiting_ms", own.waiting_ms)
      .add("hidden_ms", own.hidden_ms)
      .add("hidden_share", own.milliseconds > 0 ? own.hidden_ms / own.milliseconds : 0.0)
      .add("communication_bytes", static_cast<std::int64_t>(own.bytes));
  if (moving > 0) report.add("communication_gbps", own.bytes / moving / 1e6);
}

ReportList rank_rows(const std::vector<Exchanges>& ranks) {
  ReportList rows;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    rows.push_back(Report()
                       .add("rank", r)
                       .add("update_ms", ranks[r].update_ms)
                       .add("communication_ms", ranks[r].milliseconds)
                       .add("waiting_ms", ranks[r].waiting_ms)
                       .add("hidden_ms", ranks[r].hidden_ms)
                       .add("communication_bytes", static_cast<std::int64_t>(ranks[r].bytes)));
  return rows;
}

// Shows the first ranks only. The late ranks are those that wait least.
TextTable rank_table(const std::vector<Exchanges>& ranks) {
  constexpr std::size_t k_shown = 16;
  TextTable table{{"rank", "update ms", "communication ms", "waiting ms", "hidden ms"}, {}};
  const auto text = [](double ms) { return fmt::format("{:.3f}", ms); };
  for (std::size_t r = 0; r < std::min(ranks.size(), k_shown); ++r)
    table.rows.push_back({std::to_string(r), text(ranks[r].update_ms), text(ranks[r].milliseconds),
                          text(ranks[r].waiting_ms), text(ranks[r].hidden_ms)});
  return table;
}

// Every rank trains; only rank 0 prints.
int profile(const ProfileArguments& options, const Config& config, Communicator* ranks) {
  constexpr std::int64_t k_updates = 20;
  const bool writes = !ranks || ranks->rank() == 0;
  if (!writes) hide_progress();
  std::unique_ptr<Trace> trace;
  if (!options.trace.empty()) trace = std::make_unique<Trace>(options.trace_events);
  Activity busy("loading the model");
  CompareModel model = compare_model(options);
  ProfilingBackend backend(open_backend(config, /*predict=*/true, trace.get(), ranks));
  const std::int64_t updates = options.updates > 0 ? options.updates : k_updates;
  std::vector<HostLane> lanes;
  busy.say("profiling");
  model.training.stage = busy.stages();
  Measured m = measure(model, backend, updates, options.updates > 0, trace.get(), lanes);
  if (stop_signal() != 0) return 128 + stop_signal();
  if (!writes) return 0;
  busy.say("measuring the roofline");
  m.roofline = measure_roofline(backend);
  busy.finish();

  Report report;
  report.add("device", backend.describe().device).add("updates", m.updates).add("update_ms", m.update_ms);
  report.add("min_ms", m.least_ms).add("median_ms", m.median_ms);
  report.add("run_ms", m.calls.run_ms);
  if (m.calls.predicted_ms > 0) report.add("predicted_ms", m.calls.predicted_ms);
  add_exchanges(report, m.exchanges);
  report.add("batch_ms", m.batch_ms)
      .add("gflops_of_roofline", m.roofline.flop / 1e9).add("gbps_of_roofline", m.roofline.bytes / 1e9);
  if (options.json) report.add("phases", phase_rows(m)).add("calls", call_rows(m));
  else report.add("time by phase", phase_table(m)).add("calls above 1 % of an update", call_table(m));
  if (!m.exchanges.empty()) {
    if (options.json) report.add("by_rank", rank_rows(m.exchanges));
    else report.add("exchanges by rank", rank_table(m.exchanges));
  }
  std::size_t dropped = 0;
  if (trace) {
    for (std::size_t lane = 0; lane < trace->n_lanes(); ++lane) dropped += trace->dropped(lane);
    report.add("trace", options.trace)
        .add("trace_updates", k_traced_updates)
        .add("trace_dropped", dropped);
  }
  report.print(options.json);
  if (!trace) return 0;
  const std::string text = chrome_trace(*trace, lanes);
  write_atomically(disk(), options.trace, std::array{std::as_bytes(std::span(text))});
  return 0;
}

int execute(const ProfileArguments& options) {
  const Config config = config_of(options);
  if (!was_launched_by_mpi()) return profile(options, config, nullptr);
  return on_launched_ranks(config.number("run.rank_timeout"),
                           [&](Communicator& ranks) { return profile(options, config, &ranks); });
}

}  // namespace

const Command profile_command = command<ProfileArguments>(
    k_understand, "profile", "Measure where the time of a training update goes.", add_options, execute);

}  // namespace unroll::cli
