#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check and measure the cuda backend on a machine with an NVIDIA GPU, within ten minutes after the build: conformance on
# the device, equal bits in a second run, training times in f32, tf32, bf16 and f16 beside PyTorch's, rates of products,
# 50 updates of models against `cpu`. What the time does not suffice for is noted as skipped.
#   bench/gpu_cuda.sh OUT [DEVICE]
# OUT gets results.jsonl, results.json, results.md, products_*.json, products_*.svg and logs. DEVICE is a number:
# `cuda:DEVICE`.
# UNROLL_BUILD=FOLDER   a build folder with -Dcuda=enabled and tests; without it, one is made in OUT
# UNROLL_PEERS=FILE     a Python script that times PyTorch; it gets a folder for gpu_peers.jsonl
# UNROLL_PYTHON=COMMAND the Python that has torch (python3)
# UNROLL_SECONDS=N      seconds of each measurement (1); UNROLL_QUICK=1 takes small sizes, to try the script
# UNROLL_LIMIT=N        seconds of all checks and measurements (600)
set -eu
if [ $# -lt 1 ]; then
  sed -n 3,14p "$0" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
backend=cuda${2:+:$2}
seconds=${UNROLL_SECONDS:-1}
python=${UNROLL_PYTHON:-python3}
build=${UNROLL_BUILD:-$out/build}
results=$out/results.jsonl
limit=${UNROLL_LIMIT:-600}
failed=0
: > "$results"

note() {  # name, passed or failed or skipped, seconds
  printf '{"check":"%s","result":"%s","seconds":%s}\n' "$1" "$2" "$3" | tee -a "$results"
}
left() {  # seconds
  echo $((limit - $(date +%s) + started))
}
within() {  # the smaller of a number of seconds and of those that are left; 0: too few
  rest=$(left)
  if [ "$rest" -lt 5 ]; then echo 0
  elif [ "$rest" -lt "$1" ]; then echo "$rest"
  else echo "$1"
  fi
}
check() {  # name, limit in seconds, command
  name=$1 own=$(within "$2") log=$out/$(printf '%s' "$1" | tr ' ,' '__').log
  shift 2
  if [ "$own" -eq 0 ]; then
    note "$name" "skipped: no time left" 0
    return
  fi
  began=$(date +%s)
  if timeout "$own" "$@" > "$log" 2>&1; then result=passed
  else
    result=failed failed=1
    tail -n 20 "$log" >&2
  fi
  note "$name" "$result" $(($(date +%s) - began))
}
measure() {  # arguments of `unroll bench`
  own=$(within 30)
  if [ "$own" -eq 0 ]; then
    note "bench $*" "skipped: no time left" 0
    return
  fi
  timeout "$own" "$unroll" bench --seconds "$seconds" --json "$@" >> "$results" 2> "$out/bench.log" || {
    failed=1
    note "bench $*" failed 0
    cat "$out/bench.log" >&2
  }
}
train() {  # backend, cell, size H:B:T, precision
  rest=${3#*:}
  measure --backend "$1" --mode train --cell "$2" --input "${3%%:*}" --hidden "${3%%:*}" --batch "${rest%%:*}" \
    --steps "${rest#*:}" --precision "$4"
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
    tests/conformance/run_random tests/core/test_cuda_faults tests/core/test_cuda_loops tests/core/test_cuda_products \
    tests/core/test_cuda_resident \
    >> "$out/build.log" 2>&1
fi
unroll=$build/frontends/cli/unroll
started=$(date +%s)
"$unroll" doctor --json > "$out/doctor.json" 2> "$out/doctor.log" || true
if ! "$unroll" bench --backend "$backend" --cell rnn --input 4 --hidden 4 --batch 1 --steps 2 --seconds 0 --json \
    > "$out/first.json" 2> "$out/first.log"; then
  echo "No measurement: the cuda backend does not open." >&2
  cat "$out/first.log" >&2
  exit 5
fi

if [ -n "${UNROLL_QUICK:-}" ]; then
  sizes="16:2:4" updates=1 kinds="language-model" widths=4,8 batches=2,4 width=8
  small="--set model.hidden=8 --set train.batch=2 --set data.steps=4"
else
  sizes="512:16:256 512:64:256 512:256:256 1024:64:256" updates=50 widths=256,512,1000,1024,1028,2048,4096
  batches=16,32,64,128,256 width=1024
  kinds="language-model forecast classify label translate summarize document"
  check "contract" 30 "$build/tests/conformance/run_contract" "$backend"
  check "values and gradients" 90 "$build/tests/conformance/run_values" "$backend"
  check "errors" 30 "$build/tests/core/test_cuda_faults"
  check "epilogues" 20 "$build/tests/core/test_cuda_products"
  check "bits of whole loops" 30 "$build/tests/core/test_cuda_loops"
  check "resident loops" 30 "$build/tests/core/test_cuda_resident"
fi
for cell in rnn lstm gru lnlstm; do
  for precision in f32 bf16; do
    began=$(date +%s)
    if same_bits --mode train --cell "$cell" --input 24 --hidden 24 --batch 3 --steps 7 --precision "$precision" \
        > "$out/bits.log" 2>&1; then
      note "equal bits of $cell in $precision" passed $(($(date +%s) - began))
    else
      failed=1
      note "equal bits of $cell in $precision" failed 0
    fi
  done
done
# The built-in cells by cuDNN in each precision, then loops of own kernels.
for size in $sizes; do
  for precision in f32 tf32 bf16 f16; do
    for cell in lstm gru; do
      train "$backend" "$cell" "$size" "$precision"
    done
  done
done
for size in $sizes; do
  for precision in f32 bf16; do
    for form in "$backend" "$backend:loops=whole" "$backend:loops=resident"; do
      train "$form" lnlstm "$size" "$precision"
    done
    train "$backend:rnn=own" lstm "$size" "$precision"
    train "$backend:loops=resident" lstm "$size" "$precision"
  done
done
if [ -n "${UNROLL_PEERS:-}" ] && "$python" -c 'import torch' 2> /dev/null; then
  check "PyTorch" 150 "$python" "$UNROLL_PEERS" "$out" --seconds 0.1 ${UNROLL_QUICK:+--tiny}
else
  note "PyTorch" skipped 0
fi
# NVIDIA's table of products, "Optimizing Recurrent Layers"; 1000 and 1028 are no multiples of 32.
products() {  # name, size and its values, another size and its value
  check "products by $2" 90 "$python" "$source/bench/sweep.py" gemm --vary "$2=$3" "--$4" "$5" --steps 16 \
    --backends "$backend" --precisions tf32,f16 --rounds 1 --seconds 0.05 --unroll "$unroll" \
    --json "$out/$1.json" --svg "$out/$1.svg"
}
products products_by_hidden hidden "$widths" batch 64
products products_by_batch batch "$batches" hidden "$width"
for kind in $kinds; do
  "$unroll" new "$kind" "$out/$kind" --quiet > /dev/null 2>&1 || true
  check "$updates updates of $kind against cpu" 40 \
    "$unroll" compare "$out/$kind/config.toml" --backend "cpu,$backend" --grad --updates "$updates" ${small:-}
done
if [ -z "${UNROLL_QUICK:-}" ]; then
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer > /dev/null; then
      for loops in loops resident; do
        check "$tool of test_cuda_$loops" 60 \
          compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/core/test_cuda_$loops"
      done
    else
      note "$tool of loops" skipped 0
    fi
  done
  check "values with own kernels" 90 env UNROLL_CUDA_PRODUCTS=own "$build/tests/conformance/run_values" "$backend"
  check "values with resident loops" 90 env UNROLL_CUDA_LOOPS=resident "$build/tests/conformance/run_values" "$backend"
  check "values with whole loops" 90 env UNROLL_CUDA_LOOPS=whole "$build/tests/conformance/run_values" "$backend"
  check "random graphs and loops" 60 env UNROLL_GRAPHS=60 UNROLL_SCANS=60 \
    "$build/tests/conformance/run_random" "$backend"
fi
"$python" "$source/bench/gpu_table.py" "$out"
exit $failed
