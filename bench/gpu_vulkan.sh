#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check and measure the vulkan backend on a machine with a GPU, in one run under ten minutes: conformance, equal bits in
# a second run, 50 updates of models against `cpu`, then training times and products, beside `cuda` and PyTorch on the
# same card where they are there.
#   bench/gpu_vulkan.sh BUILD [DEVICE] > results.txt
#   bench/gpu_vulkan.sh --pack BUILD FOLDER
# BUILD is a build folder with -Dvulkan=enabled and tests. DEVICE is a number or a part of the name: `vulkan:DEVICE`.
# --pack copies what a run needs from BUILD, without debug symbols, and libraries for UNROLL_LIBRARIES: for a machine on
# which nothing can be built or installed. FOLDER is then the BUILD of the run.
# UNROLL_SECONDS=N      seconds of each measurement (2)
# UNROLL_LIMIT=N        seconds after which what is left is skipped (570)
# UNROLL_PEERS=FILE     a Python script that times PyTorch; it gets a folder for gpu_peers.jsonl
# UNROLL_PYTHON=COMMAND the Python that has torch (python3)
# UNROLL_QUICK=1        small sizes and few checks, to try the script
# UNROLL_LIBRARIES=FOLDER  libraries that the machine lacks (BUILD/libraries)
set -eu
if [ $# -lt 1 ]; then
  sed -n 3,16p "$0" >&2
  exit 2
fi
tests="conformance/run_contract conformance/run_values conformance/run_random backends/vulkan/test_vulkan"
if [ "$1" = --pack ]; then
  from=$2 to=$3
  mkdir -p "$to/libraries"
  for file in frontends/cli/unroll libunroll.so.0 $(printf 'tests/%s ' $tests); do
    mkdir -p "$to/$(dirname "$file")"
    strip -o "$to/$file" "$from/$file"
  done
  # What the programs link, then the loader, then what NVIDIA's driver links beyond the C library.
  linked=$(ldd "$from/frontends/cli/unroll" "$from"/tests/backends/vulkan/test_vulkan |
    sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libunroll)\.so' || true)
  for name in libvulkan.so.1 libX11.so.6 libXext.so.6 libxcb.so.1 libXau.so.6 libXdmcp.so.6 libbsd.so.0 libmd.so.0; do
    linked="$linked $(ldconfig -p | sed -n "s/.*$name .*x86-64.*=> //p" | head -n 1)"
  done
  for library in $linked; do cp -L "$library" "$to/libraries/"; done
  exit 0
fi
build=$1
vulkan_tests=$build/tests/backends/vulkan/test_vulkan
backend=vulkan${2:+:$2}
seconds=${UNROLL_SECONDS:-2}
limit=${UNROLL_LIMIT:-570}
python=${UNROLL_PYTHON:-python3}
unroll=$build/frontends/cli/unroll
began=$(date +%s)
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log

libraries=${UNROLL_LIBRARIES:-$build/libraries}
mkdir "$work/libraries"
for library in "$libraries"/*; do  # those of the machine are better
  if [ -e "$library" ] && ! ldconfig -p | grep -q "^[[:space:]]*${library##*/} "; then
    cp "$library" "$work/libraries/"
  fi
done
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$work/libraries"

title() { printf '\n## %s\n' "$1"; }
left() { echo $((limit - $(date +%s) + began)); }
check() {  # name, limit in seconds, command: a line that says whether it passed, its last lines where it did not
  name=$1 most=$2
  shift 2
  [ "$(left)" -lt "$most" ] && most=$(left)
  if [ "$most" -le 0 ]; then
    failed=1
    echo "SKIPPED $name: no time left"
    return
  fi
  start=$(date +%s)
  case $1 in
    same_bits) limited="" ;;  # a function, which limits its commands
    *) limited="timeout $most" ;;
  esac
  if $limited "$@" > "$log" 2>&1; then echo "passed  $name, $(($(date +%s) - start)) s"
  else
    failed=1
    echo "FAILED  $name, $(($(date +%s) - start)) s"
    tail -n 20 "$log"
  fi
}
same_bits() {  # two runs, each in a process of its own, save the same file
  for run in 1 2; do
    timeout "$most" "$unroll" bench --backend "$backend" --seconds 0 --seed 7 --save "$work/run$run.safetensors" \
      "$@" || return 1
  done
  cmp "$work/run1.safetensors" "$work/run2.safetensors"
}
measure() {  # backend, then arguments of `unroll bench`
  if [ "$(left)" -le 0 ]; then
    failed=1
    echo "SKIPPED $*: no time left"
    return
  fi
  printf '%s\n' "$*"
  on=$1
  shift
  "$unroll" bench --backend "$on" --seconds "$seconds" "$@" > "$log" 2>&1 || failed=1
  grep -E '^(median|spread|GFLOP|compile|peak)' "$log" || tail -n 3 "$log"
}

title "Device"
date -u +%Y-%m-%d
"$unroll" doctor 2>&1 || true
tiny="--mode train --cell rnn --input 4 --hidden 4 --batch 1 --steps 2"
opens() { "$unroll" bench --backend "$backend" $tiny --seconds 0 > "$log" 2>&1; }
# Machines for computing may have NVIDIA's driver without the file that tells the loader about it.
name_driver() {
  for library in libGLX_nvidia.so.0 libEGL_nvidia.so.0; do
    for path in $(ldconfig -p | sed -n "s/.*$library .*=> //p") /usr/local/nvidia/lib64/$library \
      /usr/lib/x86_64-linux-gnu/$library; do
      [ -e "$path" ] || continue
      printf '{"file_format_version":"1.0.0","ICD":{"library_path":"%s","api_version":"1.3.0"}}' "$path" \
        > "$work/icd.json"
      export VK_DRIVER_FILES="$work/icd.json" VK_ICD_FILENAMES="$work/icd.json"
      echo "driver: $path"
      opens && return 0
      ldd "$path" | grep 'not found' || true
    done
  done
  return 1
}
if ! opens && { [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || ! name_driver; }; then
  echo "No measurement: the vulkan backend does not open." >&2
  cat "$log" >&2
  exit 5
fi
backends=$backend
"$unroll" bench --backend cuda $tiny --seconds 0 > "$log" 2>&1 && backends="$backend cuda"
echo "measured: $backends"

title "Checks"
if [ -n "${UNROLL_QUICK:-}" ]; then
  sizes="32:4:5" products="64x64x64" cells="lstm lnlstm" kinds="language-model" updates=1
  small="--set model.hidden=8 --set train.batch=2 --set data.steps=4"
else
  sizes="256:32:100 512:32:100" products="2048x2048x2048 3200x512x2048 32x512x2048" cells="lstm gru lnlstm"
  kinds="language-model forecast classify label translate summarize document" updates=50
  check "contract" 60 "$build/tests/conformance/run_contract" "$backend"
  check "values and gradients of every case" 120 "$build/tests/conformance/run_values" "$backend"
  check "values and gradients, loops step by step" 120 env UNROLL_VULKAN_LOOPS=steps \
    "$build/tests/conformance/run_values" "$backend"
  check "random graphs and loops" 100 env UNROLL_GRAPHS=100 UNROLL_SCANS=100 \
    "$build/tests/conformance/run_random" "$backend"
  check "functions, limits, long sums" 30 "$vulkan_tests" "--source-file=*/test_vulkan.cc"
  check "bits of whole loops, values at odd sizes" 60 "$vulkan_tests" "--source-file=*/test_vulkan_loops.cc"
  check "loops with lengths" 60 "$vulkan_tests" "--source-file=*/test_vulkan_lengths.cc"
  check "shaders" 60 "$vulkan_tests" "--source-file=*/test_vulkan_shaders.cc"
fi
for kind in $kinds; do
  "$unroll" new "$kind" "$work/$kind" --quiet > /dev/null 2>&1 || true
  check "$updates updates of $kind against cpu" 30 \
    "$unroll" compare "$work/$kind/config.toml" --backend "cpu,$backend" --grad --updates "$updates" ${small:-}
done
for cell in $cells; do
  check "equal bits of $cell" 30 same_bits --mode train --cell "$cell" --input 24 --hidden 24 --batch 3 --steps 7
done

title "Training, forward and backward"
for cell in $cells; do
  for size in $sizes; do
    hidden=${size%%:*} rest=${size#*:}
    for on in $backends; do
      measure "$on" --mode train --cell "$cell" --input "$hidden" --hidden "$hidden" --batch "${rest%%:*}" \
        --steps "${rest#*:}"
    done
  done
done

title "Products, M x K x N"
# The fp32 rate of the card: vkpeak measures it, and cuBLAS comes near it.
if command -v vkpeak > /dev/null; then timeout 60 vkpeak 0 2> /dev/null | grep fp32 || true; fi
for shape in $products; do
  for on in $backends; do
    measure "$on" --mode gemm --shape "$shape"
    measure "$on" --mode gemm --shape "$shape" --transpose-a
  done
done

if [ -n "${UNROLL_PEERS:-}" ] && "$python" -c 'import torch' 2> /dev/null; then
  title "PyTorch"
  check "PyTorch" 120 "$python" "$UNROLL_PEERS" "$work" --seconds 0.2 ${UNROLL_QUICK:+--tiny}
  cat "$work/gpu_peers.jsonl"
fi
printf '\n%s s\n' $(($(date +%s) - began))
exit $failed
