#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check and measure the vulkan backend on a machine with a GPU, in one run of about ten minutes: shaders, values and
# gradients against the reference, equal bits when programs run again, then times of cells and products.
#   bench/gpu_vulkan.sh BUILD [DEVICE] > results.txt
# BUILD is a build folder with -Dvulkan=enabled and tests. DEVICE is a number or a part of the name: `vulkan:DEVICE`.
# UNROLL_SECONDS=n repeats each measurement for n seconds (3), UNROLL_QUICK=1 takes small sizes, to try the script.
set -eu
if [ $# -lt 1 ]; then
  sed -n 3,8p "$0" >&2
  exit 2
fi
build=$1
backend=vulkan${2:+:$2}
seconds=${UNROLL_SECONDS:-3}
unroll=$build/frontends/cli/unroll
failed=0

title() { printf '\n## %s\n' "$1"; }
check() {  # name, command: a line that says whether it passed, its last lines where it did not
  name=$1
  shift
  if "$@" > "$log" 2>&1; then echo "passed  $name"
  else
    failed=1
    echo "FAILED  $name"
    tail -n 20 "$log"
  fi
}
measure() {  # arguments of `unroll bench`
  printf '%s\n' "$*"
  "$unroll" bench --backend "$backend" --seconds "$seconds" "$@" > "$log" 2>&1 || failed=1
  grep -E '^(median|spread|GFLOP|compile|peak)' "$log" || tail -n 3 "$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
title "Device"
date -u +%Y-%m-%d
"$unroll" doctor 2>&1 | grep -i vulkan || true

title "Checks"
check "shaders are valid and compute what they mean" "$build/tests/core/test_vulkan_shaders"
check "functions, limits, long sums" "$build/tests/core/test_vulkan"
check "cells: dispatches of a step, values at odd sizes, equal bits" "$build/tests/core/test_vulkan_loops"
if [ -z "${UNROLL_QUICK:-}" ]; then
  check "every case of the conformance list" "$build/tests/conformance/run_values" vulkan
  check "random graphs and loops" env UNROLL_GRAPHS=100 UNROLL_SCANS=100 "$build/tests/conformance/run_random" vulkan
fi

title "Training, forward and backward"
if [ -n "${UNROLL_QUICK:-}" ]; then
  sizes="32:4:5" products="64x64x64"
else
  sizes="256:32:100 512:32:100" products="2048x2048x2048 3200x512x2048 32x512x2048"
fi
for cell in lstm gru lnlstm; do
  for size in $sizes; do
    hidden=${size%%:*} rest=${size#*:}
    measure --cell $cell --input "$hidden" --hidden "$hidden" --batch "${rest%%:*}" --steps "${rest#*:}"
  done
done

title "Products, M x K x N"
for shape in $products; do
  measure --mode gemm --shape "$shape"
  measure --mode gemm --shape "$shape" --transpose-a
done
exit $failed
