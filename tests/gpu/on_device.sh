#!/usr/bin/env bash
# The suites on a machine with a real GPU and its driver: nothing is built there. Give it a folder laid out as a build
# folder is (bin, lib, test-bin); `tests/gpu/pack.sh BUILD FOLDER` makes a small one to carry over.
#
#   tests/gpu/on_device.sh BUILD [LOGS]
#
# Prints a line a suite and, in the end, how many passed. Environment: SUITES="driver life" runs these alone; JOBS so many
# at a time (1); LIMIT seconds for each (240); PROCESSES of first_use (1000).
set -uo pipefail
build=$(readlink -f "$1")
logs=${2:-$(mktemp -d)}
mkdir -p "$logs"
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)/scratch
chmod 755 "$(dirname "$scratch")"  # some callers run as an ordinary user
passed=0 failed=0 skipped=0
declare -A name_of=() started_at=()  # by process, of those under way

# A suite that outlived this script would keep the device.
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  local process
  for process in "${!name_of[@]}"; do { kill "$process" && wait "$process"; } 2>/dev/null; done
  "$here/../support/scratch_fs.sh" down "$scratch" >/dev/null 2>&1
}

one_ends() { # waits for a suite, and tells of it; 77 means skipped
  local process status=0 name took
  wait -n -p process || status=$?
  name=${name_of[$process]} took=$((SECONDS - ${started_at[$process]}))
  unset "name_of[$process]"
  case $status in
    0) passed=$((passed + 1)) && echo "passed   $name ($took s): $(grep -E '^\[  PASSED|^cases|compared$|^ranges shown|agree$|finish' "$logs/$name.log" | tail -n 1)" ;;
    77) skipped=$((skipped + 1)) && echo "skipped  $name: $(tail -n 1 "$logs/$name.log")" ;;
    *)
      failed=$((failed + 1)) && echo "FAILED   $name (status $status, $took s)"
      grep -E -A 12 '^\[  FAILED|Failure|Error|rror:' "$logs/$name.log" | head -n 60 | sed 's/^/           /'
      tail -n 3 "$logs/$name.log" | sed 's/^/           /'
      ;;
  esac
}

suite() { # suite NAME COMMAND...: begins it, as soon as there is a place
  local name=$1
  shift
  case " ${SUITES:-$name} " in *" $name "*) ;; *) return ;; esac
  while [ ${#name_of[@]} -ge "${JOBS:-1}" ]; do one_ends; done
  timeout --kill-after=10 "${LIMIT:-240}" "$@" >"$logs/$name.log" 2>&1 &
  name_of[$!]=$name started_at[$!]=$SECONDS
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi here"
"$here/../support/scratch_fs.sh" up "$scratch"
trap clean_up EXIT
trap 'exit 130' INT TERM
export SLUICE_TEST_PLACES=$scratch/places
empty=$scratch/empty.json
echo "{}" >"$empty"

contract=$build/test-bin/contract_tests
as_1190=(env CUFILE_VERSION_COMPAT=1190)
# As the newest version answers, whatever /etc/cufile.json says; programs that are built for 1.15 have no room for its statistics.
as_1190_alone=("${as_1190[@]}" "CUFILE_ENV_PATH_JSON=$empty")
of_little_memory=(env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 SLUICE_TEST_FULL=1)
# The longest first, so that none is left to run by itself in the end.
suite contract_verify env SLUICE_VERIFY=1 "$contract" --gtest_filter=-Large.*
suite first_use "$build/test-bin/first_use" --processes "${PROCESSES:-1000}" --parallel 8 --dir "$scratch/here"
suite contract "$contract"
suite contract_1190 "${as_1190_alone[@]}" "$contract" --gtest_filter=-Large.*:Statistics.*
suite contract_plain env SLUICE_MODE=plain "$contract" --gtest_filter=-Large.*
suite callers "$build/test-bin/callers_tests"
suite callers_1190 "${as_1190[@]}" "$build/test-bin/callers_tests"
suite life "$build/test-bin/life_tests"
suite life_1190 "${as_1190[@]}" "$build/test-bin/life_tests"
suite fault "$build/test-bin/fault_tests"
suite fault_1190 "${as_1190[@]}" "$build/test-bin/fault_tests"
suite matrix "$build/test-bin/io_matrix"
suite batch_endurance "${of_little_memory[@]}" "$build/test-bin/batch_endurance"
suite stream_endurance "${of_little_memory[@]}" "$build/test-bin/stream_endurance"
suite driver "$build/bin/driver_suite"
suite uvm "$build/test-bin/uvm_tests"
suite torch "$build/bin/sluice" run --explain -- python3 "$here/torch_gds.py"
suite seen python3 -B "$here/seen.py" "$build"
suite nvtx "$here/nvtx.sh" "$build"
# What the driver says to the export of its memory for RDMA, tried; what else is missing here is no matter.
# shellcheck disable=SC2016 # $1 is the inner shell's
suite rdma bash -c '"$1" doctor rdma | tee /dev/stderr | grep -qE "GPU .*, (exported|export refused)"' rdma "$build/bin/sluice"
suite demo "$build/bin/sluice" demo --size 1G
while [ ${#name_of[@]} -gt 0 ]; do one_ends; done
# What is timed has the machine to itself.
suite load_times "$build/bin/load_times" --library "$build/lib/libcufile.so.0" --limits
while [ ${#name_of[@]} -gt 0 ]; do one_ends; done
for told in demo load_times torch seen nvtx rdma; do
  [ ! -e "$logs/$told.log" ] || tail -n 15 "$logs/$told.log"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
