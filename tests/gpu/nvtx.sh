#!/usr/bin/env bash
# Shows our ranges in profilers that speak NVTX, on a machine that has some; nothing is built there.
#
#   tests/gpu/nvtx.sh PACK        a folder made by tests/gpu/pack.sh, or a build folder
#
# Each tool looks at a run of gdsio, of 16 MiB a transfer. Nsight Compute and CUPTI have to show the ranges where they
# work; Nsight Systems and compute-sanitizer are asked, too; a small library of our own records them in any case.
# Prints a line a tool, and in the end which of NVIDIA's showed them. 77: none of those is here, or none of them works.
set -uo pipefail
pack=$(readlink -f "$1")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
file=$scratch/file
head -c 64M /dev/urandom >"$file"
export CUFILE_NVTX=1 CUFILE_LOGFILE_PATH=$scratch/library.log CUFILE_LOGGING_LEVEL=WARN
shown='' broken=''

gdsio=("$pack/bin/gdsio" -f "$file" -d 0 -w 1 -s 64M -i 16M -x 0 -O 1)
first_of() { # first_of PATTERN...: the last of the first pattern that means something
  local found
  for found in "$@"; do
    found=$(compgen -G "$found" | sort -V | tail -n 1)
    [ -z "$found" ] || { echo "$found" && return; }
  done
}
within() { timeout --kill-after=5 "$@"; } # within SECONDS COMMAND...
show() { sed 's/^/    | /' "$1" | tail -n "${2:-12}"; }
fail() {
  broken="$broken $1"
  echo "$1: FAILED: $2"
  grep nvtx "$CUFILE_LOGFILE_PATH" 2>/dev/null | tail -n 3
}

# How many transfers made a range; `names` says which.
recorded() {
  local out=$scratch/recorded
  NVTX_INJECTION64_PATH=$pack/test-bin/system/profiler.so PROFILER_OUT=$out within 20 "${gdsio[@]}" -I "$1" >"$out.log" 2>&1 ||
    { show "$out.log" && return 1; }
  awk -v name="$2" '$1 == "domain" && $2 != "sluice" { exit 1 }
    $1 == "push" && $6 == name && $7 == 16777216 { ++pushed } $1 == "pop" { ++popped }
    END { exit !(pushed == 4 && popped >= 4) }' "$out" || { show "$out" && return 1; }
}
if recorded 1 write && recorded 0 read; then
  echo "our recorder: domain sluice: write x4, read x4, of 16 MiB each; categories $(
    awk '$1 == "category" { printf "%s%s", sep, $NF; sep = ", " }' "$scratch/recorded")"
else
  fail 'our recorder' 'see above'
fi

# Nsight Compute gathers metrics of ranges that it is told by domain and name: it finds ours, and none of another name. The
# program runs as a whole: our kernels wait for what the CPU reads meanwhile, so that none may be repeated alone.
ncu=$(command -v ncu || first_of '/opt/nvidia/nsight-compute/*/ncu' '/usr/local/cuda*/bin/ncu')
ranges_of() { # ranges_of OPERATION RANGE: how many results ncu has
  local out=$scratch/ncu-$2
  within 40 "$ncu" --nvtx --nvtx-include "sluice@$2/" --replay-mode app-range --clock-control none --cache-control none \
    --metrics gpu__time_duration.sum "${gdsio[@]}" -I "$1" >"$out" 2>&1 || return 1
  grep -c '^==PROF== Profiling' "$out"
}
if [ -z "$ncu" ]; then
  echo 'ncu: is not here'
elif ! reads=$(ranges_of 0 read); then
  echo 'ncu: does not work here:' && show "$scratch/ncu-read"
else
  writes=$(ranges_of 1 write) && others=$(ranges_of 0 of-no-such-name)
  if ((reads > 0 && writes > 0 && ${others:-0} == 0)); then
    shown="$shown ncu"
    echo "ncu ($ncu): ranges sluice@read/ x$reads, sluice@write/ x$writes, none of another name; it says of one:"
    grep -A 12 '^==PROF== Disconnected' "$scratch/ncu-read" | sed 1d | sed 's/^/    | /'
  else
    fail ncu "ranges sluice@read/ x$reads, sluice@write/ x${writes:-?}, of another name x${others:-?}"
    show "$scratch/ncu-read" 20
  fi
fi

# CUPTI, which profilers of PyTorch and others are made with, hands ranges on as records.
within 30 python3 -B "$here/nvtx_cupti.py" --library "$pack/lib/libcufile.so.0" --file "$file" >"$scratch/cupti" 2>&1
case $? in
  0) shown="$shown CUPTI" && cat "$scratch/cupti" ;;
  77) tail -n 1 "$scratch/cupti" ;;
  *) fail CUPTI "$(tail -n 1 "$scratch/cupti")" && show "$scratch/cupti" ;;
esac

# Nsight Systems: where it can write no report, the names stand in what it has recorded.
nsys=$(command -v nsys || first_of '/opt/nvidia/nsight-systems/*/bin/nsys' '/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys')
if [ -z "$nsys" ]; then
  echo 'nsys: is not here'
else
  within 30 "$nsys" profile --trace=nvtx --sample=none --cpuctxsw=none --force-overwrite=true -o "$scratch/systems" \
    "${gdsio[@]}" -I 0 >"$scratch/nsys" 2>&1
  written=$(first_of "$scratch/systems.nsys-rep" "$scratch/systems.qdstrm")
  if [ -n "$written" ] && grep -q -a sluice "$written" && grep -q -a -w read "$written"; then
    shown="$shown nsys"
    echo "nsys ($nsys): sluice and read stand in $(basename "$written")"
  else
    echo "nsys: ${written:+wrote $(basename "$written") without our names; }it said:" && show "$scratch/nsys" 5
  fi
fi

# compute-sanitizer shows no ranges, but has a library for them: what does it take?
sanitizer=$(command -v compute-sanitizer || first_of '/usr/local/cuda*/bin/compute-sanitizer')
if [ -z "$sanitizer" ]; then
  echo 'compute-sanitizer: is not here'
else
  log=$scratch/sanitizer.log
  named=$(within 10 "$sanitizer" --nvtx yes env 2>/dev/null | sed -n 's/^NVTX_INJECTION64_PATH=//p')
  SLUICE_COPY=engine CUFILE_LOGFILE_PATH=$log CUFILE_LOGGING_LEVEL=WARN within 30 "$sanitizer" --nvtx yes "${gdsio[@]}" -I 0 \
    >"$scratch/sanitizer" 2>&1
  echo "compute-sanitizer: status $?, library ${named:-none}, $(grep -o 'no ranges: .*' "$log" 2>/dev/null | tail -n 1 ||
    echo 'no complaint of ours')"
fi

if [ -n "$broken" ]; then
  echo "not as it should be:$broken"
  exit 1
fi
if [ -z "$shown" ]; then
  echo 'skipped: no tool of NVIDIA shows ranges here; our own recorder does'
  exit 77
fi
echo "ranges shown by:$shown, and our own recorder"
