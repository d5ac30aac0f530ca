// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/support/text/counted.h"
#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {
namespace {

// Returns "mae" and "promo" for "mae.promo".
std::pair<std::string, std::string> metric_and_series(const std::string& name) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  return {name.substr(0, dot), dot < name.size() ? name.substr(dot + 1) : ""};
}

struct Method {
  std::string name;
  const Metrics* metrics;
};

// Returns a row with the methods' values of this metric.
std::vector<std::string> row_of(const std::string& title, const std::string& name, const std::vector<Method>& methods) {
  std::vector<std::string> row{title};
  for (const Method& method : methods) {
    const auto at = method.metrics->find(name);
    row.push_back(at == method.metrics->end() ? "-" : figure_text(at->second));
  }
  return row;
}

struct ClassScore {
  std::size_t id;
  double hits, support, predicted;
  double precision() const { return predicted > 0 ? hits / predicted : 0; }
  double recall() const { return support > 0 ? hits / support : 0; }
  double f1() const { return support + predicted > 0 ? 2 * hits / (support + predicted) : 0; }
};

std::vector<ClassScore> scores_of(const Tensor& confusion) {
  const std::int64_t k = confusion.shape()[0];
  std::vector<ClassScore> scores;
  for (std::int64_t i = 0; i < k; ++i) {
    ClassScore score{static_cast<std::size_t>(i), confusion.at(i * k + i), 0, 0};
    for (std::int64_t j = 0; j < k; ++j) {
      score.support += confusion.at(i * k + j);
      score.predicted += confusion.at(j * k + i);
    }
    scores.push_back(score);
  }
  return scores;
}

void add_json(Report& report, const Tensor& confusion, const std::vector<ClassScore>& scores,
              const std::vector<std::string>& names) {
  ReportList classes, cells;
  const auto whole = [](double count) { return static_cast<std::int64_t>(count); };
  for (const ClassScore& s : scores)
    classes.push_back(Report()
                          .add("class", names[s.id])
                          .add("precision", s.precision())
                          .add("recall", s.recall())
                          .add("f1", s.f1())
                          .add("support", whole(s.support)));
  const std::size_t k = scores.size();
  for (std::size_t i = 0; i < k * k; ++i)
    if (const double count = confusion.at(static_cast<std::int64_t>(i)); count > 0)
      cells.push_back(
          Report().add("label", names[i / k]).add("predicted", names[i % k]).add("count", whole(count)));
  report.add("classes", classes).add("confusion", cells);
}

}  // namespace

std::string words_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void add_metrics(Report& report, const Metrics& model, const std::map<std::string, Metrics>& baselines) {
  const auto report_of = [](const Metrics& metrics) {
    Report values;
    for (const auto& [name, value] : metrics) values.add(name, value);
    return values;
  };
  Report others;
  for (const auto& [method, metrics] : baselines) others.add(method, report_of(metrics));
  report.add("metrics", report_of(model));
  if (!baselines.empty()) report.add("baselines", others);
}

void add_metric_tables(Report& report, const Metrics& model, const std::map<std::string, Metrics>& baselines) {
  std::vector<Method> methods{{"model", &model}};
  for (const auto& [name, metrics] : baselines) methods.push_back({words_of(name), &metrics});
  std::vector<std::string> names, bases;
  bool series = false;
  const auto note = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const Method& method : methods)
    for (const auto& [name, value] : *method.metrics) {
      note(names, name);
      note(bases, metric_and_series(name).first);
      series |= !metric_and_series(name).second.empty();
    }
  std::vector<std::string> head;
  for (const Method& method : methods) head.push_back(method.name);
  TextTable all{head, {}};
  all.head.insert(all.head.begin(), "metric");
  for (const std::string& base : bases) {
    TextTable one{head, {}};
    one.head.insert(one.head.begin(), "series");
    for (const std::string& name : names) {
      const auto [metric, of] = metric_and_series(name);
      if (metric != base) continue;
      one.rows.push_back(row_of(of.empty() ? "all" : of, name, methods));
    }
    if (series && one.rows.size() > 1) report.add(base, one);
    else all.rows.push_back(row_of(words_of(base), base, methods));
  }
  if (!all.rows.empty()) report.add("metrics", all);
}

void add_class_tables(Report& report, const Tensor& confusion, const std::vector<std::string>& names, bool as_json) {
  constexpr std::size_t k_shown = 12, k_widest_row = 20, k_widest_column = 6;
  const std::vector<ClassScore> scores = scores_of(confusion);
  if (as_json) return add_json(report, confusion, scores, names);
  std::vector<ClassScore> shown = scores;
  std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.support > b.support; });
  shown.resize(std::min(shown.size(), k_shown));
  std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  TextTable classes{{"class", "precision", "recall", "F1", "support"}, {}}, matrix{{"label"}, {}};
  for (const ClassScore& s : shown) {
    const auto part = [](double value) { return fmt::format("{:.3f}", value); };
    const std::string name = fitted(names[s.id], k_widest_row);
    classes.rows.push_back({name, part(s.precision()), part(s.recall()), part(s.f1()),
                            count_text(static_cast<long long>(s.support))});
    matrix.head.push_back(fitted(names[s.id], k_widest_column));
    auto& row = matrix.rows.emplace_back(std::vector<std::string>{name});
    for (const ClassScore& to : shown)
      row.push_back(count_text(static_cast<long long>(
          confusion.at(static_cast<std::int64_t>(s.id * scores.size() + to.id)))));
  }
  const std::string of = shown.size() < scores.size() ? fmt::format("the {} largest of {} classes", shown.size(),
                                                                    scores.size())
                                                      : counted(scores.size(), "class");
  report.add(of, classes).add("confusion matrix: labels as rows, predictions as columns", matrix);
}

}  // namespace unroll::cli
