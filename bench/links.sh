#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What neighbours' links are worth (sluice.links), on a machine with several GPUs: our library with them and without, in
# turns, on two GPUs, and on four where there are as many. A warm file into GPU 0; into all of them at once; and into
# GPU 0 while the others multiply. Neighbours lend as they do by themselves (sluice.links: auto), and where they are named by
# a kernel that writes the target, by one that relays, and by their copy engines (sluice.links_copy), each in turns with the
# own link alone.
#
#   bench/links.sh BUILD OUT
#
# BUILD   a build folder, as build/release
# OUT     where states (links-2-auto.json, ...), tables (links-2-auto.txt, links-2-kernel.txt, ...; they are printed,
#         too) and machine.txt go
#
# Environment: FILE (made where it is not there, and kept; default OUT/links.data), SIZE of it (8G; a GiB a GPU is the
# least), WRITE_SIZE of the one that is written (4M), PAIRS (10), PROCESSES (2: how often the clients are started anew),
# SECONDS_EACH (0.2), ROWS (*), LINKS ("4 2": how many GPUs, in that order), COPY ("auto kernel
# engine"; also relay), BUDGET seconds in all
# (none: until it is done; the tables tell of what was measured by then, and a second call with the same OUT goes on),
# GPUS (of the machine).
set -euo pipefail
build=$(readlink -f "$1") out=$2
mkdir -p "$out"
out=$(readlink -f "$out")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
gpus=${GPUS:-$(nvidia-smi --list-gpus | wc -l)}
[ "$gpus" -ge 2 ] || { printf 'links: there is one GPU here; two are needed\n' >&2; exit 1; }
budget=${BUDGET:-1000000000}
visible=${CUDA_VISIBLE_DEVICES:-0,1,2,3}
{ nvidia-smi topo -m; nvidia-smi; lscpu; free -g; } >"$out/machine.txt" 2>&1 || true

rounds=()
for links in ${LINKS:-4 2}; do
  for copy in ${COPY:-auto kernel engine}; do
    [ "$gpus" -lt "$links" ] || rounds+=("$links $copy")
  done
done
export SLUICE_LINKS=own  # of those that are compared with
for round in "${!rounds[@]}"; do
  read -r links copy <<<"${rounds[round]}"
  kind=two_links lenders=0,1
  [ "$links" -eq 2 ] || kind=four_links lenders=0,1,2,3
  with=(--with "SLUICE_LINKS=$lenders" --with "SLUICE_LINKS_COPY=$copy")
  [ "$copy" != auto ] || with=(--with SLUICE_LINKS=auto)
  # As if the machine had no more: all GPUs are those that lend.
  CUDA_VISIBLE_DEVICES=$(cut -d, -f"1-$links" <<<"$visible")
  export CUDA_VISIBLE_DEVICES SLUICE_SOFTGPU_DEVICES=$links
  common=(--state "$out/links-$links-$copy.json")
  status=0
  # 3: the time was up. What is left of it is shared among the rounds that are left.
  python3 -B "$here/compare.py" "${common[@]}" --program "$build/bin/cufile_bench" --ours "$build/lib" \
    --theirs "$build/lib" --same "${with[@]}" --file "$kind=${FILE:-$out/links.data}" \
    --size "${SIZE:-8G}" --write-size "${WRITE_SIZE:-4M}" --rows "${ROWS:-*}" --pairs "${PAIRS:-10}" \
    --processes "${PROCESSES:-2}" --seconds "${SECONDS_EACH:-0.2}" --again 1 --version "links=$links" \
    --budget $(((budget - SECONDS) / (${#rounds[@]} - round))) || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || exit "$status"
  python3 -B "$here/compare.py" "${common[@]}" --report | tee "$out/links-$links-$copy.txt"
done
