#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check and measure the cuda backend on a machine with an NVIDIA GPU, within ten minutes: build, conformance on the
# device, 50 updates of models against `cpu`, equal bits in a second run, then training times beside PyTorch's.
#   bench/gpu_cuda.sh OUT [DEVICE]
# OUT gets results.jsonl, results.json, results.md and logs. DEVICE is a number: `cuda:DEVICE`.
# UNROLL_BUILD=FOLDER   a build folder with -Dcuda=enabled and tests; without it, one is made in OUT
# UNROLL_PEERS=FILE     a Python script that times PyTorch; it gets a folder for gpu_peers.jsonl
# UNROLL_PYTHON=COMMAND the Python that has torch (python3)
# UNROLL_SECONDS=N      seconds of each measurement (2); UNROLL_QUICK=1 takes small sizes, to try the script
set -eu
if [ $# -lt 1 ]; then
  sed -n 3,11p "$0" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
backend=cuda${2:+:$2}
seconds=${UNROLL_SECONDS:-2}
python=${UNROLL_PYTHON:-python3}
build=${UNROLL_BUILD:-$out/build}
results=$out/results.jsonl
failed=0
: > "$results"

note() {  # name, passed or failed or skipped, seconds
  printf '{"check":"%s","result":"%s","seconds":%s}\n' "$1" "$2" "$3" | tee -a "$results"
}
check() {  # name, limit in seconds, command
  name=$1 limit=$2 log=$out/$(printf '%s' "$1" | tr ' ,' '__').log
  shift 2
  began=$(date +%s)
  if timeout "$limit" "$@" > "$log" 2>&1; then result=passed
  else
    result=failed failed=1
    tail -n 20 "$log" >&2
  fi
  note "$name" "$result" $(($(date +%s) - began))
}
measure() {  # arguments of `unroll bench`
  "$unroll" bench --seconds "$seconds" --json "$@" >> "$results" 2> "$out/bench.log" || {
    failed=1
    note "bench $*" failed 0
    cat "$out/bench.log" >&2
  }
}
same_bits() {  # two runs, each in a process of its own, save the same file
  for run in 1 2; do
    "$unroll" bench --backend "$backend" --seconds 0 --seed 7 --save "$out/run$run.safetensors" "$@"
  done
  cmp "$out/run1.safetensors" "$out/run2.safetensors"
}

if [ ! -x "$build/frontends/cli/unroll" ]; then
  meson setup "$build" "$source" -Dcuda=enabled -Dtests=enabled --buildtype=release > "$out/build.log" 2>&1
  ninja -C "$build" frontends/cli/unroll tests/conformance/run_contract tests/conformance/run_values \
    tests/conformance/run_random tests/core/test_cuda_faults tests/core/test_cuda_loops >> "$out/build.log" 2>&1
fi
unroll=$build/frontends/cli/unroll
"$unroll" doctor --json > "$out/doctor.json" 2> "$out/doctor.log" || true
if ! "$unroll" bench --backend "$backend" --cell rnn --input 4 --hidden 4 --batch 1 --steps 2 --seconds 0 --json \
    > "$out/first.json" 2> "$out/first.log"; then
  echo "No measurement: the cuda backend does not open." >&2
  cat "$out/first.log" >&2
  exit 5
fi

if [ -n "${UNROLL_QUICK:-}" ]; then
  cells="lstm gru" sizes="16:2:4" updates=1 kinds="language-model"
  small="--set model.hidden=8 --set train.batch=2 --set data.steps=4"
else
  cells="rnn lstm gru lnlstm" sizes="512:16:256 512:64:256 512:256:256 1024:64:256" updates=50
  kinds="language-model forecast classify label translate summarize document"
  check "contract" 60 "$build/tests/conformance/run_contract" "$backend"
  check "values and gradients" 200 "$build/tests/conformance/run_values" "$backend"
  check "values with own products" 200 env UNROLL_CUDA_PRODUCTS=own "$build/tests/conformance/run_values" "$backend"
  check "values with whole loops" 200 env UNROLL_CUDA_LOOPS=whole "$build/tests/conformance/run_values" "$backend"
  check "random graphs and loops" 100 env UNROLL_GRAPHS=60 UNROLL_SCANS=60 \
    "$build/tests/conformance/run_random" "$backend"
  check "errors" 60 "$build/tests/core/test_cuda_faults"
  check "bits of whole loops" 60 "$build/tests/core/test_cuda_loops"
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer > /dev/null; then
      check "$tool of whole loops" 60 \
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/core/test_cuda_loops"
    else
      note "$tool of whole loops" skipped 0
    fi
  done
fi
for kind in $kinds; do
  "$unroll" new "$kind" "$out/$kind" --quiet > /dev/null 2>&1 || true
  check "$updates updates of $kind against cpu" 60 \
    "$unroll" compare "$out/$kind/config.toml" --backend "cpu,$backend" --grad --updates "$updates" ${small:-}
done
for cell in $cells; do
  if same_bits --mode train --cell "$cell" --input 24 --hidden 24 --batch 3 --steps 7 > "$out/bits.log" 2>&1; then
    note "equal bits of $cell" passed 0
  else
    failed=1
    note "equal bits of $cell" failed 0
  fi
  for size in $sizes; do
    hidden=${size%%:*} rest=${size#*:}
    for form in "$backend" "$backend:loops=whole"; do
      measure --backend "$form" --mode train --cell "$cell" --input "$hidden" --hidden "$hidden" --batch "${rest%%:*}" \
        --steps "${rest#*:}"
    done
  done
done
if [ -n "${UNROLL_PEERS:-}" ] && "$python" -c 'import torch' 2> /dev/null; then
  check "PyTorch" 240 "$python" "$UNROLL_PEERS" "$out" --seconds 0.2 ${UNROLL_QUICK:+--tiny}
else
  note "PyTorch" skipped 0
fi
"$python" "$source/bench/gpu_table.py" "$out"
exit $failed
