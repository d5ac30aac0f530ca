#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pack the programs that bench/gpu_cuda.sh runs, for a machine with a GPU and no packages: stripped, and with the shared
# libraries that they need besides those of the C and C++ compilers.
#   bench/gpu_pack.sh BUILD ARCHIVE.tar.gz
set -euo pipefail
if [ $# -ne 2 ]; then
  sed -n 3,5p "$0" >&2
  exit 2
fi
build=$1 archive=$2
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"
while read -r program; do
  mkdir -p "$folder/$(dirname "$program")"
  strip -o "$folder/$program" "$build/$program"
  ldd "$build/$program" | awk '$3 ~ /^\// { print $3 }' >> "$folder/libraries"
done < "$source/bench/gpu_programs.txt"
everywhere='/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libz)\.so'
sort -u "$folder/libraries" | grep -v -E "$everywhere" > "$folder/own" || true
while read -r library; do
  strip -o "$folder/lib/$(basename "$library")" "$library" 2> /dev/null || cp -L "$library" "$folder/lib/"
done < "$folder/own"
rm "$folder/libraries" "$folder/own"
tar -C "$folder" -czf "$archive" .
echo "$(du -sm "$folder" | cut -f1) MiB, packed $(du -m "$archive" | cut -f1) MiB: $archive"
