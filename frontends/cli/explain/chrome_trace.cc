// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace unroll::cli {
namespace {

std::int64_t nanoseconds(ProfilingBackend::Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

class Writer {
 public:
  explicit Writer(std::int64_t start) : start_(start) {}
  void lane(std::size_t id, const std::string& name) {
    add(fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":{}}}}})", id, quoted(name)));
  }
  void event(std::size_t lane, const std::string& quoted_name, std::int64_t begin, std::int64_t end) {
    constexpr double k_us = 1e-3;
    add(fmt::format(R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}}})", lane,
                    k_us * static_cast<double>(begin - start_), k_us * static_cast<double>(end - begin), quoted_name));
  }
  static std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }
  std::string finish(std::size_t dropped) {
    return fmt::format("{{\"traceEvents\":[{}],\n\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}}}}\n",
                       text_, dropped);
  }

 private:
  void add(const std::string& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event;
  }
  std::int64_t start_;
  std::string text_;
};

}  // namespace

std::string chrome_trace(const Trace& trace, const std::vector<HostLane>& hosts) {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::size_t dropped = 0;
  for (std::size_t lane = 0; lane < trace.n_lanes(); ++lane) {
    for (const Trace::Event& event : trace.events(lane)) start = std::min(start, event.begin);
    dropped += trace.dropped(lane);
  }
  for (const HostLane& host : hosts)
    for (const auto& span : host.spans) start = std::min(start, nanoseconds(span.begin));
  Writer writer(start);
  std::size_t id = 0;
  for (const HostLane& host : hosts) {
    writer.lane(id, host.name);
    for (const auto& span : host.spans)
      writer.event(id, Writer::quoted(span.name), nanoseconds(span.begin), nanoseconds(span.end));
    ++id;
  }
  for (std::size_t lane = 0; lane < trace.n_lanes(); ++lane, ++id) {
    writer.lane(id, "thread " + std::to_string(lane));
    for (const Trace::Event& event : trace.events(lane))
      writer.event(id, Writer::quoted(trace.text(event.name)), event.begin, event.end);
  }
  return writer.finish(dropped);
}

}  // namespace unroll::cli
