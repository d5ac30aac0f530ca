#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each mistake that check_layout.py looks for is found in a small tree that makes it, and none where there is none."""
import pathlib
import tempfile
import unittest

import check_layout

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"
GOOD = {
    **{name: "" for name in ("meson.build", "meson_options.txt", "README.md", "LICENSE", "bench/meson.build")},
    ".gitignore": "/build*\n/runs/\n",
    "core/include/unroll/ir/op_table.def": HEAD + "UNROLL_UNARY(neg, numbers, yes, cheap, zero, exact, 1)\n"
                                               "UNROLL_OP(argmax, primitive, reduce, 1, 1, none, cheap)\n"
                                               "UNROLL_COMPOSITE(mse, 2, 2, yes, cheap, Value, (Value a, Value b))\n",
    "core/ir/shapes/shape_rules.cc": HEAD + "{Op::argmax, r}\n",
    "core/ir/composites/losses.cc": HEAD + "{Op::mse, body}\n",
    "core/autodiff/rules_all.cc": HEAD + '#include "core/ir/shapes/shape_rules.h"\n{Op::neg, r}\n',
    "backends/registry.cc": HEAD + '#include "backends/reference/backend.h"\n"reference"\n',
    "backends/reference/kernels.cc": HEAD + "{Op::neg, k}, {Op::argmax, k}\n",
    "frontends/cli/main.cc": HEAD + '#include "core/support/text/counted.h"\n',
    "tests/conformance/cases_all.cc": HEAD + "neg argmax mse\n",
    "docs/conventions.md": "`neg` `argmax` `mse`\n",
}
UMBRELLA = {"core/include/unroll/unroll.h":
            HEAD + '#include "unroll/support/error.h"\n#include "unroll/train/trainer.h"\n',
            "core/include/unroll/support/error.h": HEAD, "core/include/unroll/train/trainer.h": HEAD}
# what is wrong, files that differ from GOOD, part of the finding
BAD = [
    ("an unknown top-level folder", {"extras/a.txt": ""}, "extras: has no place"),
    ("a missing README", {"README.md": None}, "README.md: is missing"),
    ("a subproject in the tree", {"subprojects/x/a.cc": HEAD}, "wrap files only"),
    ("ir includes passes", {"core/ir/a.cc": HEAD + '#include "core/passes/passes.h"\n'}, "the order of rooms"),
    ("passes include train", {"core/passes/a.cc": HEAD + '#include "core/train/a.h"\n'}, "the order of rooms"),
    ("a public header includes a private one", {"core/include/unroll/ir/graph.h": HEAD + '#include "core/ir/a.h"\n',
                                                "core/include/unroll/unroll.h":
                                                HEAD + '#include "unroll/ir/graph.h"\n'},
     "public headers only"),
    ("a public header that unroll.h leaves out", {"core/include/unroll/ir/graph.h": HEAD},
     "unroll.h: does not include ir/graph.h"),
    ("a header of backends in unroll.h", {"core/include/unroll/ir/row_sums.h": HEAD, "core/include/unroll/unroll.h":
                                          HEAD + '#include "unroll/ir/row_sums.h"\n'},
     "unroll.h: includes ir/row_sums.h"),
    ("a header of a task that tasks.h leaves out",
     {**UMBRELLA, "core/include/unroll/tasks/label.h": HEAD, "core/include/unroll/tasks/tasks.h": HEAD,
      "core/include/unroll/unroll.h": UMBRELLA["core/include/unroll/unroll.h"] + '#include "unroll/tasks/tasks.h"\n'},
     "unroll.h: does not include tasks/label.h"),
    ("a public header of no room", {"core/include/unroll/a.h": HEAD,
                                    "core/include/unroll/unroll.h": HEAD + '#include "unroll/a.h"\n'},
     "stands in no room"),
    ("a public header includes one above it", {**UMBRELLA, "core/include/unroll/support/error.h":
                                               HEAD + '#include "unroll/train/trainer.h"\n'}, "the order of rooms"),
    ("ir includes a public header of train", {**UMBRELLA, "core/ir/a.cc": HEAD + '#include "unroll/train/trainer.h"\n'},
     "the order of rooms"),
    ("a public header that is not there", {"frontends/cli/a.cc": HEAD + '#include "unroll/ir/graph.h"\n'},
     "no such public header"),
    ("a command includes the core's internals", {"frontends/cli/a.cc": HEAD + '#include "core/passes/a.h"\n'},
     "FRONTENDS_SEAM"),
    ("data includes the model", {"core/data/a.cc": HEAD + '#include "core/model/a.h"\n'},
     "the order of rooms"),
    ("the Python module includes the command", {"frontends/python/a.cc": HEAD + '#include "frontends/cli/a.h"\n'},
     "sees of frontends only checkpoint, config, python"),
    ("two folders that include each other", {"core/ir/a.h": HEAD, "core/ir/b.h": HEAD + '#include "core/ir/text/d.h"\n',
                                             "core/ir/text/c.h": HEAD + '#include "core/ir/a.h"\n',
                                             "core/ir/text/d.h": HEAD},
     "is in a cycle of folders: core/ir, core/ir/text"),
    ("a folder of too many files", {f"core/data/text/a{i}.cc": HEAD for i in range(21)}, "has 21 files"),
    ("a folder of a backend with too many files", {f"backends/cpu/a{i}.cc": HEAD for i in range(21)}, "has 21 files"),
    ("two headers that include each other", {"core/ir/a.h": HEAD + '#include "core/ir/b.h"\n',
                                             "core/ir/b.cc": HEAD + '#include "core/ir/a.h"\n',
                                             "core/ir/b.h": HEAD}, "is in a cycle of includes: core/ir/a, core/ir/b"),
    ("core includes a backend", {"core/train/a.cc": HEAD + '#include "backends/cpu/a.h"\n'}, "only the registry"),
    ("a backend includes another", {"backends/cpu/a.cc": HEAD + '#include "backends/reference/a.h"\n'}, "sees itself"),
    ("a backend includes passes", {"backends/cpu/a.cc": HEAD + '#include "core/passes/a.h"\n'},
     "a backend sees public"),
    ("core includes a frontend", {"core/train/a.cc": HEAD + '#include "frontends/cli/a.h"\n'}, "outermost layer"),
    ("core includes tests", {"core/train/a.cc": HEAD + '#include "tests/support/a.h"\n'}, "nothing but tests"),
    ("core names a backend", {"core/train/a.cc": HEAD + 'f("reference");\n'}, "names the backend"),
    ("a long file", {"core/train/a.cc": HEAD + "\n" * 800}, "801 lines"),
    ("a long line", {"core/train/a.cc": HEAD + "// " + "x" * 118 + "\n"}, "has 121 columns, at most 120"),
    ("a long line of a build file", {"core/meson.build": "#" * 121 + "\n"}, "has 121 columns, at most 120"),
    ("no SPDX line", {"core/train/a.cc": "int x;\n"}, "lacks its SPDX line"),
    ("an open mark", {"docs/a.md": "TO" "DO: write\n"}, "open mark"),
    ("a place on one machine", {"docs/a.md": "see /wo" "rk/x\n"}, "a place on one machine"),
    ("abort in core/io", {"core/io/a.cc": HEAD + "std::abort();\n"}, "calls abort"),
    ("assert in core/io", {"core/io/a.cc": HEAD + "assert(x);\n"}, "calls assert"),
    ("a structured binding in a macro that captures",
     {"tests/core/a.cc": HEAD + "for (const auto& [name, n] : all) {\n  int x;\n  CAPTURE(name);\n}\n"},
     "captures no structured binding"),
    ("two types of one name", {"core/ir/a.h": HEAD + "namespace unroll {\nstruct Row {\n};\n}  // namespace unroll\n",
                               "core/data/b.h": HEAD + "namespace unroll {\nclass Row {};\n}\n"},
     "a.h: defines unroll::Row, as core/data/b.h does"),
    ("a table sized by an op", {"core/ir/a.cc": HEAD + "int n = static_cast<int>(Op::" "less) + 1;\n"},
     "sizes a table"),
    ("an op without shape rule", {"core/ir/shapes/shape_rules.cc": HEAD + "{Op::neg, r}\n"},
     "argmax: has no shape rule"),
    ("an op without gradient", {"core/autodiff/rules_all.cc": HEAD}, "neg: has no gradient row"),
    ("a gradient the table denies", {"core/autodiff/rules_b.cc": HEAD + "{Op::argmax, r}\n"},
     "argmax: has a gradient row"),
    ("an op without kernel", {"backends/reference/kernels.cc": HEAD + "{Op::argmax, k}\n"}, "neg: has no kernel"),
    ("a composite without body", {"core/ir/composites/losses.cc": HEAD}, "mse: has no row"),
    ("an op without case", {"tests/conformance/cases_all.cc": HEAD + "neg mse // argmax\n"}, "argmax: has no case"),
    ("an op without documentation", {"docs/conventions.md": "`argmax` `mse`\n"}, "neg: has no line"),
]
FINE = [
    ("a build folder", {"build-x/build.ninja": "", "other/build.ninja": "", "runs/a.txt": ""}),
    ("a comment that names a call", {"core/io/a.cc": HEAD + "// never abort() here\n"}),
    ("a static assertion", {"core/io/a.cc": HEAD + "static_assert(true);\n"}),
    ("a member of the same name in a macro that captures",
     {"tests/core/a.cc": HEAD + "for (const auto& [name, n] : all) {\n  CAPTURE(row.name);\n}\nCAPTURE(n);\n"}),
    ("types of one name in two namespaces, and names that are only declared",
     {"core/ir/a.h": HEAD + "namespace unroll::a {\nstruct Row {\n};\nvoid f(struct Row);\n}\n"
                           "namespace unroll {\nclass X;\nstruct X::Row {\n};\n}\n",
      "core/ir/b.h": HEAD + "namespace unroll::b {\nstruct Row {\n};\n}  // namespace unroll::b\n"}),
    ("a wrap file", {"subprojects/a.wrap": ""}),
    ("a table made by a script", {"core/train/a_generated.h": HEAD + "\n" * 2000}),
]


def findings(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **changes}.items():
            if text is None:
                continue
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layout.Checker(folder).run()


class CheckLayout(unittest.TestCase):
    def test_a_good_tree_has_no_findings(self):
        self.assertEqual(findings({}), [])

    def test_each_mistake_is_found_alone(self):
        for what, changes, part in BAD:
            with self.subTest(what):
                found = findings(changes)
                self.assertEqual(len(found), 1, found)
                self.assertIn(part, found[0])

    def test_what_is_allowed_is_not_found(self):
        for what, changes in FINE:
            with self.subTest(what):
                self.assertEqual(findings(changes), [])


if __name__ == "__main__":
    unittest.main()
