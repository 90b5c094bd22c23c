#!/usr/bin/env bash
# The suites on a machine with a real GPU and its driver: nothing is built there. Give it a folder laid out as a build
# folder is (bin, lib, test-bin); `tests/gpu/pack.sh BUILD FOLDER` makes a small one to carry over.
# Prints a line a suite and, in the end, how many passed. Logs lie in the second argument. SUITES="driver life" runs these
# alone.
set -uo pipefail
build=$(readlink -f "$1")
logs=${2:-$(mktemp -d)}
mkdir -p "$logs"
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)/scratch
chmod 755 "$(dirname "$scratch")"  # some callers run as an ordinary user
passed=0 failed=0 skipped=0
running=''

# A suite that outlived this script would keep the device.
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  [ -z "$running" ] || { kill "$running" && wait "$running"; } 2>/dev/null
  "$here/../support/scratch_fs.sh" down "$scratch" >/dev/null 2>&1
}

suite() { # suite NAME COMMAND...: 77 means skipped
  local name=$1 status started=$SECONDS
  shift
  case " ${SUITES:-$name} " in *" $name "*) ;; *) return ;; esac
  timeout --kill-after=10 240 "$@" >"$logs/$name.log" 2>&1 &
  running=$!
  wait "$running"
  status=$?
  running=''
  case $status in
    0) passed=$((passed + 1)) && echo "passed   $name ($((SECONDS - started)) s): $(grep -E '^\[  PASSED|^cases|compared$|^ranges shown' "$logs/$name.log" | tail -n 1)" ;;
    77) skipped=$((skipped + 1)) && echo "skipped  $name: $(tail -n 1 "$logs/$name.log")" ;;
    *)
      failed=$((failed + 1)) && echo "FAILED   $name (status $status)"
      grep -E -A 12 '^\[  FAILED|Failure|Error|rror:' "$logs/$name.log" | head -n 60 | sed 's/^/           /'
      tail -n 3 "$logs/$name.log" | sed 's/^/           /'
      ;;
  esac
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi here"
"$here/../support/scratch_fs.sh" up "$scratch"
trap clean_up EXIT
trap 'exit 130' INT TERM
export SLUICE_TEST_PLACES=$scratch/places
empty=$scratch/empty.json
echo "{}" >"$empty"

suite demo "$build/bin/sluice" demo --size 1G
suite driver "$build/bin/driver_suite"
suite contract "$build/test-bin/contract_tests"
suite batch_endurance env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 SLUICE_TEST_FULL=1 "$build/test-bin/batch_endurance"
suite stream_endurance env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 SLUICE_TEST_FULL=1 "$build/test-bin/stream_endurance"
suite contract_plain env SLUICE_MODE=plain "$build/test-bin/contract_tests" --gtest_filter=-Large.*
suite contract_verify env SLUICE_VERIFY=1 "$build/test-bin/contract_tests" --gtest_filter=-Large.*
# As the newest version answers, whatever /etc/cufile.json says; programs that are built for 1.15 have no room for its statistics.
suite contract_1190 env CUFILE_VERSION_COMPAT=1190 CUFILE_ENV_PATH_JSON="$empty" "$build/test-bin/contract_tests" --gtest_filter=-Large.*:Statistics.*
suite first_use "$build/test-bin/first_use" --processes 400 --parallel 8 --dir "$scratch/here"
suite life "$build/test-bin/life_tests"
suite life_1190 env CUFILE_VERSION_COMPAT=1190 "$build/test-bin/life_tests"
suite callers "$build/test-bin/callers_tests"
suite callers_1190 env CUFILE_VERSION_COMPAT=1190 "$build/test-bin/callers_tests"
suite uvm "$build/test-bin/uvm_tests"
suite matrix "$build/test-bin/io_matrix"
suite fault "$build/test-bin/fault_tests"
suite fault_1190 env CUFILE_VERSION_COMPAT=1190 "$build/test-bin/fault_tests"
suite torch "$build/bin/sluice" run --explain -- python3 "$here/torch_gds.py"
suite seen python3 -B "$here/seen.py" "$build"
suite nvtx "$here/nvtx.sh" "$build"
suite load_times "$build/bin/load_times" --library "$build/lib/libcufile.so.0" --limits
for told in demo load_times torch seen nvtx; do
  [ ! -e "$logs/$told.log" ] || tail -n 15 "$logs/$told.log"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
