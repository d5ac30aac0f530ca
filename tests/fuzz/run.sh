#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: tests/fuzz/run.sh SECONDS [TARGET...]. Builds every fuzz target with clang under ASan and UBSan in build-fuzz
# and runs each for SECONDS, as many at a time as there are cores; a crash leaves its input in
# build-fuzz/crash-<target>-* and ends with status 1.
set -euo pipefail
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
cd "$(dirname "$0")/../.."
build=${FUZZ_BUILD:-build-fuzz}
[ -f "$build/build.ninja" ] || CXX=clang++ meson setup "$build" -Dbuildtype=debugoptimized -Doptimization=1 \
  -Dunity_build=true -Dcpp_args='-gline-tables-only -DHWY_COMPILE_ONLY_STATIC' \
  -Db_sanitize=address,undefined -Db_lundef=false -Dpython=disabled -Dvulkan=disabled -Dcuda=disabled \
  -Dfuzz=enabled >/dev/null
targets=("$@")
# All that this build has: without its packages the command line, and with it a target, is left out.
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ninja -C "$build" -t targets all |
  sed -n 's|^tests/fuzz/fuzz_\([a-z_]*\): .*|\1|p')
ninja -C "$build" "${targets[@]/#/tests/fuzz/fuzz_}"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
fuzz() {
  local target=$1
  mkdir -p "$build/corpus/$target"  # what the run finds; the committed corpus is only read
  local dictionary=()
  if [ -f "tests/fuzz/$target.dict" ]; then dictionary=("-dict=tests/fuzz/$target.dict"); fi
  "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=16384 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/crash-$target-" "${dictionary[@]}" \
    "$build/corpus/$target" "tests/fuzz/corpus/$target" > "$build/fuzz-$target.log" 2>&1
}
pids=()
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 1; done
  fuzz "$target" &
  pids+=($!)
done
status=0
for i in "${!targets[@]}"; do
  result=passed
  wait "${pids[$i]}" || { result=FAILED; status=1; }
  echo "== ${targets[$i]} for $seconds s: $result"
  sed "/^###### Recommended/,/^###### End/d" "$build/fuzz-${targets[$i]}.log"
done
exit $status
