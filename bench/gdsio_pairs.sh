#!/usr/bin/env bash
# gdsio, one binary, over our library and the incumbent's in turn, on a machine with a GPU and CUDA; root.
#
#   bench/gdsio_pairs.sh PACK OUT
#
# PACK    a folder made by tests/gpu/pack.sh
# OUT     where gdsio.txt goes: every command and the line that gdsio printed, then the medians, and what -x 0 is
#         to -x 2 in pairs of neighbours, with the bound that 95 % of such means lie above
#
# Environment: ROUNDS (3), SECONDS_EACH (10), SIZE (10G), DISK (a folder on ext4), ONLY_OURS (1: not the incumbent),
# CUDA (the toolkit's folder).
set -euo pipefail
pack=$(readlink -f "$1") out=$2
mkdir -p "$out"
out=$(readlink -f "$out")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-10} size=${SIZE:-10G}
sides=(ours theirs)
[ -z "${ONLY_OURS:-}" ] || sides=(ours)

die() { printf 'gdsio_pairs: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || die "root is needed, for the udev records"
# shellcheck source=bench/incumbent.sh
. "$here/incumbent.sh"
find_incumbent

folder=$(mktemp -d "${DISK:-/var/tmp}/sluice-gdsio.XXXXXX")
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  forget_udev
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
tell_udev "$folder"
file=$folder/file

# run_gdsio NAME LIBRARY ARGUMENT...: one line of the report
run_gdsio() {
  local name=$1 library=$2 answer
  shift 2
  answer=$(cd "$folder" && LD_LIBRARY_PATH=$library timeout 120 "$pack/bin/gdsio" "$@" 2>&1 | tail -n 3 | tr '\n' ' ') ||
    answer="failed: $answer"
  printf '%-16s gdsio %s\n%-16s %s\n' "$name" "${*/"$file"/F}" '' "$answer"
}

{
  # The file, and the pages that the buffered rows read.
  run_gdsio ours "$pack/lib" -f "$file" -d 0 -n 0 -w 1 -s "$size" -i 1M -x 0 -I 1
  # Neighbours in time make a pair, in turns the one first and the other.
  for ((round = 0; round < rounds; ++round)); do
    transfers="0 2"
    ((round % 2 == 0)) || transfers="2 0"
    for side in "${sides[@]}"; do
      library=$theirs
      [ "$side" = theirs ] || library=$pack/lib
      for transfer in $transfers; do
        run_gdsio "$side -x $transfer" "$library" -f "$file" -d 0 -n 0 -w 1 -s "$size" -x "$transfer" -I 0 -T "$seconds" -i 256K
      done
    done
  done
} | tee "$out/gdsio.txt"

PYTHONPATH=$here python3 -B - "$out/gdsio.txt" <<'END' >"$out/summary.txt"
import math, re, statistics, sys
import paired
found = {}
name = ""
for line in open(sys.argv[1]):
    name = line[:16].strip() or name
    rate = re.search(r"Throughput: ([0-9.]+) GiB/sec", line)
    if rate and "-x" in name:
        found.setdefault(name, []).append(float(rate.group(1)))
print("\nmedian GiB/s")
for name, rates in found.items():
    print(f"{name:<16} {statistics.median(rates):.3f}  of {len(rates)}")
print("\n-x 0 to -x 2, pair by pair")
for side in ("ours", "theirs"):
    pairs = list(zip(found.get(f"{side} -x 0", []), found.get(f"{side} -x 2", [])))
    if len(pairs) < 2:
        continue
    ratios = [math.log(first / second) for first, second in pairs]
    print(f"{side:<16} {math.exp(paired.mean(ratios)):.3f}, at least {math.exp(paired.lower_bound(ratios)):.3f} "
          f"with 95 %; of {len(pairs)} pairs {sum(ratio >= 0 for ratio in ratios)} at or above 1:",
          " ".join(f"{math.exp(ratio):.2f}" for ratio in ratios))
END
tee -a "$out/gdsio.txt" <"$out/summary.txt"
rm "$out/summary.txt"
