#!/usr/bin/env bash
# What only a GPU can show, in under 8 minutes: that CUDA gives the CPU's bits, that the sanitizer finds nothing, how fast
# it is. Usage: benchmarks/gpu_check.sh [OUTPUT_FOLDER]
#
# Needs an installed torch with CUDA, pytest, rich and matplotlib; fetches nothing. Libraries that lie in reprocuda/ are
# taken as they are (they run under any torch from 2.11), else they are built here for this GPU alone. PYTHON chooses the
# interpreter.
set -uo pipefail
cd "$(dirname "$0")/.."
output=${1:-benchmarks/results}
python=${PYTHON:-python3}
mkdir -p "$output"
failed=()

# stage NAME LIMIT_SECONDS COMMAND...: runs the command, remembers a failure, goes on.
stage() {
  printf '\n=== %s (at %d s, limit %d s)\n' "$1" "$SECONDS" "$2"
  timeout "$2" "${@:3}"
  local status=$?
  if [ "$status" -ne 0 ]; then
    failed+=("$1 (exit $status)")
  fi
}

build() {
  if [ -e reprocuda/_C.abi3.so ] && [ -e reprocuda/_C_cuda.abi3.so ]; then
    echo 'taking the libraries that are there'
    return
  fi
  local capability
  capability=$("$python" -c 'import torch; print("%d.%d" % torch.cuda.get_device_capability())') || return
  REPROCUDA_CUDA=1 TORCH_CUDA_ARCH_LIST=$capability "$python" setup.py --quiet build_ext --inplace >"$output/build.log" 2>&1 \
    || { tail -n 40 "$output/build.log"; return 1; }
}

export -f build
export python output PYTHONUNBUFFERED=1

stage 'build' 170 bash -c build
stage 'what runs' 30 "$python" -c '
import reprocuda, torch
assert reprocuda.build_info()["cuda_loaded"], reprocuda.build_info()
print(torch.cuda.get_device_name(), torch.__version__, reprocuda.build_info())'
stage 'bits: CUDA against the CPU' 90 "$python" -m benchmarks.gpu_bits
stage 'tests on the GPU' 80 "$python" -m pytest tests/gpu --no-header
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    stage "sanitizer: $tool" 60 \
      compute-sanitizer --tool "$tool" --error-exitcode 9 "$python" -m benchmarks.gpu_bits --short
  done
else
  echo 'no compute-sanitizer here'
fi
stage 'speed' 90 "$python" -m benchmarks --device cuda --repeats 10 --output "$output"

printf '\n%d s in all; ' "$SECONDS"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[*]}"
  exit 1
fi
echo 'all stages passed'
