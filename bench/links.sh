#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What neighbours' links are worth (sluice.links), on a machine with several GPUs: a warm file into GPU 0 by its own link
# and by two, and by four where there are as many, in turns.
#
#   bench/links.sh BUILD OUT
#
# BUILD   a build folder, as build/release
# OUT     where states (links-2.json, links-4.json) and tables (links-2.txt, links-4.txt) go
#
# Environment: FILE (of 8 GiB, made where it is not there; default OUT/links.data), PAIRS (10), ROWS (*).
set -euo pipefail
build=$(readlink -f "$1") out=$2
mkdir -p "$out"
out=$(readlink -f "$out")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
gpus=${GPUS:-$(nvidia-smi --list-gpus | wc -l)}
[ "$gpus" -ge 2 ] || { printf 'links: there is one GPU here; two are needed\n' >&2; exit 1; }

for links in 2 4; do
  [ "$gpus" -ge "$links" ] || continue
  kind=two_links others=1
  [ "$links" -eq 2 ] || kind=four_links others=1,2,3
  common=(--state "$out/links-$links.json")
  python3 "$here/compare.py" "${common[@]}" --program "$build/bin/cufile_bench" --ours "$build/lib" --theirs "$build/lib" \
    --same --with "SLUICE_LINKS=$others" --file "$kind=${FILE:-$out/links.data}" --size 8G --rows "${ROWS:-*}" \
    --pairs "${PAIRS:-10}" --version "links=$links"
  python3 "$here/compare.py" "${common[@]}" --report | tee "$out/links-$links.txt"
done
