// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/listener.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "frontends/python/errors.h"
#include "unroll/error.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

nb::dict report_of(const Progress& p) {
  nb::dict report;
  report["update"] = p.update;
  report["max_updates"] = p.max_updates;
  report["loss"] = p.loss;
  report["lr"] = p.lr;
  report["gradient_norm"] = p.gradient_norm;
  report["updates_per_second"] = p.updates_per_second;
  report["metrics"] = nb::cast(p.metrics);
  report["validation_loss"] = nb::cast(p.validation_loss);
  report["validation_metrics"] = nb::cast(p.validation_metrics);
  report["best"] = p.best;
  nb::list advice;
  for (const Advice& a : p.advice) advice.append(a.text);
  report["advice"] = advice;
  return report;
}

}  // namespace

template <class Call>
void Listener::in_python(const Call& call) {
  const nb::gil_scoped_acquire lock;
  try {
    call();
  } catch (nb::python_error& error) {
    if (!raised_) raised_.emplace(std::move(error));
  }
}

TrainResult Listener::fit(Trainer& trainer) {
  return trainer.fit([&](const Progress& p) { report(p); }, [&] { return stops(); });
}

void Listener::report(const Progress& progress) {
  if (on_report_.is_none()) return;
  in_python([&] {
    const nb::object answer = on_report_(report_of(progress));
    stops_ = stops_ || answer.is(nb::bool_(false));
  });
}

void Listener::warn(const std::string& text) {
  in_python([&] { python::warn(text); });
}

bool Listener::stops() {
  updates_ = true;
  look_for_signals();
  return stops_ || raised_;
}

void Listener::check() {
  if (updates_) return;
  look_for_signals();
  if (raised_) throw Error(ErrorKind::usage, "unroll.train", "was interrupted");  // raise() has the exception
}

// Python is asked some times a second only: other threads may hold its lock.
void Listener::look_for_signals() {
  const auto now = Clock::now();
  if (now - asked_ < std::chrono::milliseconds(50)) return;
  asked_ = now;
  in_python([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

}  // namespace unroll::python
