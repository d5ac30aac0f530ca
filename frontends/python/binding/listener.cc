// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/listener.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "frontends/python/binding/errors.h"
#include "unroll/support/error.h"

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

void Listener::leave(const nb::object& run, std::int64_t updates, const std::string& folder) {
#if PY_VERSION_HEX < 0x030C0000  // error may be a class without an instance
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  raised_->restore();
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyErr_Restore(type, value, traceback);
  raised_.emplace();
#endif
  const nb::handle error = raised_->value();
  if (PyObject_SetAttrString(error.ptr(), "run", run.ptr()) != 0) PyErr_Clear();  // a class without attributes
  const std::string note = "The run ended after update " + std::to_string(updates) +
                           " and is the attribute `run` of this exception (sys.last_value.run at a prompt)." +
                           (folder.empty() ? "" : " resume=True continues it from " + folder + ".");
  if (nb::hasattr(error, "add_note")) error.attr("add_note")(note);  // Python 3.11 and later
  throw std::move(*raised_);
}

bool Listener::stops() {
  ends_itself();
  look_for_signals();
  return stops_ || raised_;
}

}  // namespace unroll::python
