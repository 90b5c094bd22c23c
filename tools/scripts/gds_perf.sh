#!/bin/sh
# gds_perf.sh: a sweep of gdsio over transfer types, operations, sizes and threads, one line for each.
set -eu

help() {
  cat <<'END'
Usage: gds_perf.sh -f FILE | -D FOLDER [OPTION...]

Runs gdsio for each combination and prints its result lines, or a table. What it will run, and how long, stands on
stderr first. A sweep that writes makes its files first. One that only reads (-I 0, -I 2, -I "0 2") never writes: it
takes the files that are there; where they are missing, --create makes them.

  -f FILE, -D FOLDER   where; as of gdsio
  -d GPU               whose memory (default 0)
  -n NODE              NUMA node (default: anywhere)
  -s SIZE              of the file, with -D of each (default 1G)
  -x "TYPES"           transfer types (default "0 2")
  -I "TYPES"           operations (default "1 0 3 2": write, read, random write, random read)
  -i "SIZES"           sizes of transfers (default "4K 64K 1M 16M")
  -w "COUNTS"          threads (default "1 4 16")
  -T SECONDS           for each combination (default 5)
  --create             make or overwrite the files first, also for a sweep that only reads
  -c                   a table of comma-separated values instead: io,xfer,threads,size_kib,gib_per_s,latency_us,ops
  -h, --help           this

Anything after -- is handed to gdsio, for example: gds_perf.sh -f /data/file -- --cold

Examples:
  gds_perf.sh -f /data/file -s 10G
  gds_perf.sh -D /data/dir -x "0 1 2" -I 0 -i "64K 1M" -w "1 8" -T 10 -c > sweep.csv
  LD_LIBRARY_PATH=/usr/local/cuda/lib64 gds_perf.sh -f /data/file     on NVIDIA's library

Exit status: 0; 1 when a run failed (the sweep goes on); 2 when the command line is not understood.
END
}

refuse() {
  echo "gds_perf.sh: $1" >&2
  echo "            Use: gds_perf.sh -f FILE; gds_perf.sh --help tells more." >&2
  exit 2
}

target='' where='' gpu=0 node='' size=1G
transfers='0 2' operations='1 0 3 2' sizes='4K 64K 1M 16M' counts='1 4 16'
seconds=5 table=no create=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) help; exit 0 ;;
    -c) table=yes; shift; continue ;;
    --create) create=yes; shift; continue ;;
    --) shift; break ;;
    -f | -D | -d | -n | -s | -x | -I | -i | -w | -T) [ $# -ge 2 ] || refuse "$1 wants a value." ;;
    *) refuse "It is not known what to do with $1." ;;
  esac
  case $1 in
    -f | -D) [ -z "$target" ] || refuse "-f and -D are given more than once."; target=$1; where=$2 ;;
    -d) gpu=$2 ;;
    -n) node=$2 ;;
    -s) size=$2 ;;
    -x) transfers=$2 ;;
    -I) operations=$2 ;;
    -i) sizes=$2 ;;
    -w) counts=$2 ;;
    -T) seconds=$2 ;;
  esac
  shift 2
done
[ -n "$target" ] || refuse "There is no file or folder to work on."

gdsio=$(dirname "$(readlink -f "$0")")/gdsio
[ -x "$gdsio" ] || gdsio=gdsio

# The most threads, so that a folder has a file for each of any run.
most=1 runs=0
for count in $counts; do [ "$count" -le "$most" ] || most=$count; done
for transfer in $transfers; do for operation in $operations; do for one in $sizes; do for count in $counts; do
  runs=$((runs + 1))
done; done; done; done

writes=no
for operation in $operations; do case $operation in 1 | 3) writes=yes ;; esac; done
there=yes
if [ "$target" = -f ]; then
  [ -s "$where" ] || there=no
else
  file=0
  while [ "$file" -lt "$most" ]; do
    [ -s "$where/gdsio.$file" ] || there=no
    file=$((file + 1))
  done
fi
if [ $writes = no ] && [ $create = no ] && [ $there = no ]; then
  echo "gds_perf.sh: There is nothing to read at $where, and a sweep that only reads writes nothing." >&2
  echo "             Let it make the files: --create; or name one that is there." >&2
  exit 2
fi
whole=$(awk "BEGIN { t = $runs * $seconds; printf(t < 120 ? \"%d s\" : \"%.1f min\", t < 120 ? t : t / 60) }")
echo "gds_perf.sh: $runs runs of $seconds s each, about $whole: gdsio -x \"$transfers\"" \
  "-I \"$operations\" -i \"$sizes\" -w \"$counts\" $target $where" >&2
if [ $writes = yes ] || [ $create = yes ]; then
  echo "gds_perf.sh: writes $size into $where first" >&2
  "$gdsio" "$target" "$where" -d "$gpu" -w "$most" -s "$size" -i 1M -x 0 -I 1 >/dev/null || exit 1
fi

row() { # row "IoType: ...": the same as comma-separated values
  echo "$1" | sed -E 's/^IoType: ([A-Z]+) XferType: ([A-Z_]+) Threads: ([0-9]+)( IoDepth: [0-9]+)? .* IOSize: ([^(]+)\(KiB\) Throughput: ([0-9.]+) GiB\/sec, Avg_Latency: ([0-9.]+) usecs ops: ([0-9]+) .*/\1,\2,\3,\5,\6,\7,\8/'
}

status=0
[ $table = no ] || echo io,xfer,threads,size_kib,gib_per_s,latency_us,ops
for transfer in $transfers; do
  for operation in $operations; do
    for one in $sizes; do
      for count in $counts; do
        if line=$("$gdsio" "$target" "$where" -d "$gpu" ${node:+-n "$node"} -w "$count" -s "$size" -i "$one" \
          -x "$transfer" -I "$operation" -T "$seconds" "$@"); then
          if [ $table = yes ]; then row "$line"; else echo "$line"; fi
        else
          echo "gds_perf.sh: this failed: gdsio -x $transfer -I $operation -i $one -w $count" >&2
          status=1
        fi
      done
    done
  done
done
exit $status
