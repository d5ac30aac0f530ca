#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check and measure the cuda backend on a machine with an NVIDIA GPU, within nine minutes: conformance on the device,
# equal bits in a second run, 50 updates of twelve models against `cpu`, training times beside PyTorch's in turns,
# compute-sanitizer, rates of products. The most valuable parts come first; each has a time limit and a process of its
# own, so that one that hangs costs no other part. What the time does not suffice for is noted as skipped.
#   bench/gpu_cuda.sh OUT [DEVICE]
# OUT gets results.jsonl and log.txt as parts end, results.json and results.md after each stage, and SVGs of products.
# DEVICE is a number: `cuda:DEVICE`.
# UNROLL_BUILD=FOLDER   a build folder with cuda and tests, or what bench/gpu_pack.sh made of one; without it, one is
#                       made
# UNROLL_PYTHON=COMMAND the Python that has torch (python3)
# UNROLL_LIMIT=N        seconds of all parts (520); UNROLL_SECONDS=N of each measurement (0.4)
# UNROLL_JOBS=N         checks that run at the same time (half of the cores); measurements run alone
# UNROLL_QUICK=1        small sizes, to try the script
set -euo pipefail
shopt -s nullglob
if [ $# -lt 1 ]; then
  sed -n 3,17p "$0" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
backend=cuda${2:+:$2}
seconds=${UNROLL_SECONDS:-0.4}
python=${UNROLL_PYTHON:-python3}
limit=${UNROLL_LIMIT:-520}
jobs=${UNROLL_JOBS:-$((($(nproc) + 1) / 2))}
results=$out/results.jsonl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${UNROLL_BUILD:-$work/build}
: > "$results"
: > "$out/log.txt"

left() { echo $((limit - $(date +%s) + started)); }
within() {  # the smaller of a number of seconds and of those that are left; 0: too few
  local rest
  rest=$(left)
  if [ "$rest" -lt 5 ]; then echo 0; else echo $((rest < $1 ? rest : $1)); fi
}
note() {  # name, result, seconds
  printf '{"check":"%s","result":"%s","seconds":%s}\n' "$1" "$2" "$3" >> "$results"
  printf '%4s s  %s: %s\n' "$3" "$2" "$1"
}
check() {  # name, limit in seconds, command
  local name=$1 own log began result=passed status=0
  own=$(within "$2")
  log=$(mktemp -p "$work")
  shift 2
  if [ "$own" -eq 0 ]; then
    note "$name" "skipped: no time left" 0
    return
  fi
  began=$(date +%s)
  [ "$(type -t "$1")" != function ] || set -- bash -euo pipefail -c '"$@"' function "$@"
  timeout -k 5 "$own" "$@" > "$log" 2>&1 || status=$?
  case $status in
    0) ;;
    77) result=skipped ;;
    124 | 137) result="not done in $own s" ;;
    *) result="failed with exit code $status" ;;
  esac
  note "$name" "$result" $(($(date +%s) - began))
  { printf '\n== %s: %s\n' "$name" "$result"; tail -n 40 "$log"; } > "$log.end"
  cat "$log.end" >> "$out/log.txt"
}
beside() {  # as check, while others run
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  check "$@" &
}
table() {
  "$python" "$source/bench/gpu_table.py" "$out" "$work/alone/unroll/choices" "$work"/products_*.json > /dev/null || true
}
# Algorithms of libraries are chosen by measurements, which are kept in a cache folder. Those that were made while other
# checks ran do not count in parts that run alone. A second process of one part finds the choices of the first one.
measured() { export XDG_CACHE_HOME=$work/$1; }  # alone, or beside others
same_bits() {  # two runs, each in a process of its own, save the same file
  local folder run
  folder=$(mktemp -d -p "$work")
  for run in 1 2; do
    "$unroll" bench --backend "$backend" --seconds 0 --seed 7 --save "$folder/$run.safetensors" "$@"
  done
  cmp "$folder/1.safetensors" "$folder/2.safetensors"
}
agrees() {  # updates, kind of task, further options of `unroll compare`
  local folder updates=$1 kind=$2
  folder=$(mktemp -d -p "$work")
  shift 2
  "$unroll" new "$kind" "$folder/model" --quiet > /dev/null
  "$unroll" compare "$folder/model/config.toml" --backend "cpu,$backend" --grad --updates "$updates" "$@"
}

export -f same_bits agrees
export PATH=$PATH:/usr/local/cuda/bin work backend

if [ ! -x "$build/frontends/cli/unroll" ]; then
  meson setup "$build" "$source" -Dcuda=enabled -Dtests=enabled --buildtype=release > "$out/log.txt" 2>&1
  ninja -C "$build" $(cat "$source/bench/gpu_programs.txt") >> "$out/log.txt" 2>&1
fi
export unroll=$build/frontends/cli/unroll
measured beside
started=$(date +%s)
# NVIDIA's libraries may lie in Python packages, and others beside the programs.
packages=$("$python" -c 'import glob, site
folders = [p for s in site.getsitepackages() for p in sorted(glob.glob(s + "/nvidia/*/lib"))]
print(":".join(folders))' 2> /dev/null || true)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/lib${packages:+:$packages}
timeout -k 5 40 "$unroll" doctor > "$work/doctor" 2>&1 || true
cat "$work/doctor" >> "$out/log.txt"
if ! timeout -k 5 60 "$unroll" bench --backend "$backend" --cell rnn --input 4 --hidden 4 --batch 1 --steps 2 \
    --seconds 0 --json > "$work/first" 2>&1; then
  echo "No measurement: the cuda backend does not open." >&2
  tee -a "$out/log.txt" < "$work/first" >&2
  exit 5
fi
cat "$work/first" >> "$out/log.txt"

tests=$build/tests
cuda_tests=$tests/backends/cuda/test_cuda
models=("language-model" "forecast" "classify" "label" "translate" "summarize" "document" "regress"
  "language-model --set model.cell=gru" "language-model --set model.cell=lnlstm"
  "language-model --precision bf16" "forecast --set model.cell=rnn")
if [ -n "${UNROLL_QUICK:-}" ]; then
  updates=1 widths=4,8 batches=2,4 width=8 quick=--quick sanitized=--test-case=nothing
  small=(--set model.hidden=8 --set train.batch=2)
  models=("${models[@]:0:2}")
else
  updates=50 widths=512,1000,1024,2048,4096 batches=16,64,256 width=1024 quick= sanitized=
  small=()
fi

# 1. Right numbers: what everything else is worth nothing without.
for form in "" :loops=whole :loops=resident; do
  for cell in lstm lnlstm; do
    for precision in f32 bf16; do
      backend=$backend$form beside "equal bits of $cell in $precision$form" 60 \
        same_bits --mode train --cell "$cell" --input 24 --hidden 24 --batch 3 --steps 7 --precision "$precision"
    done
  done
done
if [ -z "$quick" ]; then
  beside "contract" 60 "$tests/conformance/run_contract" "$backend"
  beside "bits of whole loops" 90 "$cuda_tests" "--source-file=*/test_cuda_loops.cc"
  beside "resident loops" 120 "$cuda_tests" "--source-file=*/test_cuda_resident.cc"
  beside "clusters" 120 "$cuda_tests" "--source-file=*/test_cuda_clusters.cc"
  beside "loops with lengths" 120 "$cuda_tests" "--source-file=*/test_cuda_lengths.cc"
  beside "values and gradients" 200 "$tests/conformance/run_values" "$backend"
  # Of cases that have other kernels then.
  values=$tests/conformance/run_values loops=UNROLL_OPS=scan,rnn,gru,lstm
  beside "values with resident loops" 200 env $loops UNROLL_CUDA_LOOPS=resident-units "$values" "$backend"
  beside "values with whole loops" 200 env $loops UNROLL_CUDA_LOOPS=whole "$values" "$backend"
  beside "values with own kernels" 200 env "$loops,matmul,dot_attention,additive_attention,multi_head_attention" \
    UNROLL_CUDA_PRODUCTS=own "$values" "$backend"
  beside "epilogues" 30 "$cuda_tests" "--source-file=*/test_cuda_products.cc"
fi
for model in "${models[@]}"; do
  read -ra words <<< "$model"
  beside "$updates updates of $model against cpu" 90 agrees "$updates" "${words[@]}" ${small[@]+"${small[@]}"}
done
wait
table

# 2. Speed, alone on the device: unroll and PyTorch in turns.
measured alone
check "training times" 170 "$python" "$source/bench/peers/gpu_turns.py" "$results" --unroll "$unroll" \
  --backend "$backend" --seconds "$seconds" --limit "$(within 160)" $quick
table

# 3. Races and wrong addresses in the kernels whose blocks stay for all steps.
measured beside
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    for loops in loops resident clusters; do
      beside "$tool of test_cuda_$loops" 80 compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$cuda_tests" "--source-file=*/test_cuda_$loops.cc" $sanitized
    done
  done
else
  note "memcheck and racecheck" "skipped: compute-sanitizer is not there" 0
fi
if [ -z "$quick" ]; then
  beside "errors" 80 "$cuda_tests" "--source-file=*/test_cuda_faults.cc"
  beside "random graphs and loops" 80 env UNROLL_GRAPHS=60 UNROLL_SCANS=60 "$tests/conformance/run_random" "$backend"
fi
wait
table

# 4. NVIDIA's table of products, "Optimizing Recurrent Layers"; 1000 is no multiple of 16.
measured alone
products() {  # name, size and its values, another size and its value
  check "products by $2" 90 "$python" "$source/bench/sweep.py" gemm --vary "$2=$3" "--$4" "$5" --steps 16 \
    --backends "$backend:rnn=own" --precisions tf32,f16 --rounds 1 --seconds 0.05 --unroll "$unroll" \
    --json "$work/$1.json" --svg "$out/$1.svg"
}
products products_by_hidden hidden "$widths" batch 64
products products_by_batch batch "$batches" hidden "$width"
table
cat "$out/results.md"
! grep -q '"result":"failed' "$results"
