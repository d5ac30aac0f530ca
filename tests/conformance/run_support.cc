// SPDX-License-Identifier: Apache-2.0
// Which backend runs which op, from the cases that hold it: prints a matrix. The reference must run everything.
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

struct Tally {
  int cases = 0, compiled = 0;
};

bool compiles(const Graph& graph, Backend& backend) {
  try {
    Program program(graph, backend);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return false;
  }
}

// [op]
std::vector<Tally> tally(const std::string& name, DType dtype) {
  std::vector<Tally> tallies(op_table().size());
  const auto backend = open_tested(name);
  for (const Case& c : chosen_cases()) {
    CAPTURE(c.name);
    const auto graph = build_case(c, dtype);
    const bool ok = compiles(*graph, *backend);
    for (const Op op : ops_of(*graph)) {
      Tally& t = tallies[static_cast<std::size_t>(op)];
      ++t.cases;
      t.compiled += ok;
    }
  }
  return tallies;
}

const char* word(const Tally& t) { return t.compiled == t.cases ? "yes" : t.compiled == 0 ? "no" : "some"; }

}  // namespace

TEST_CASE("the matrix of ops and backends") {
  struct Column {
    std::string title;
    std::vector<Tally> tallies;
  };
  std::vector<Column> columns;
  for (const std::string& name : tested_backends())
    for (const DType dtype : float_dtypes(name))
      columns.push_back({name + " " + std::string(dtype_name(dtype)), tally(name, dtype)});

  std::printf("%-24s", "op (cases)");
  for (const Column& column : columns) std::printf("%-16s", column.title.c_str());
  std::printf("\n");
  for (const OpInfo& info : op_table()) {
    const auto op = static_cast<std::size_t>(info.op);
    const int cases = columns[0].tallies[op].cases;
    std::printf("%-24s", (std::string(info.name) + " (" + std::to_string(cases) + ")").c_str());
    for (const Column& column : columns) std::printf("%-16s", word(column.tallies[op]));
    std::printf("\n");
    CAPTURE(std::string(info.name));
    CHECK(columns[0].tallies[op].compiled == cases);
  }
}
