#!/bin/sh
# gds_perf.sh: a sweep of gdsio over transfer types, operations, sizes and threads, one line for each.
set -eu

help() {
  cat 2>/dev/null <<'END' || lost
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
  -c                   a table of comma-separated values instead, and nothing else: io,xfer,threads,size_kib,gib_per_s,latency_us,ops
  -h, --help           this
  --version            the version

Anything after -- is handed to gdsio, for example: gds_perf.sh -f /data/file -- --cold

Examples:
  gds_perf.sh -f /data/file -s 10G
  gds_perf.sh -D /data/dir -x "0 1 2" -I 0 -i "64K 1M" -w "1 8" -T 10 -c > sweep.csv
  LD_LIBRARY_PATH=/usr/local/cuda/lib64 gds_perf.sh -f /data/file     on NVIDIA's library

Exit status: 0; 1 when a run failed (the sweep goes on), or there is no gdsio; 2 when the command line is not understood.
END
}

lost() { # what a shell and cat say of a full disk names neither the script nor a remedy
  echo "gds_perf.sh: What was to be printed is not all there: stdout cannot be written." >&2
  echo "             Look at the room of its disk, or at what it is connected with." >&2
  exit 1
}
answer() { # answer TEXT, where there is any
  [ -z "$1" ] || echo "$1" 2>/dev/null || lost
}
refuse() { # refuse CAUSE REMEDY
  echo "gds_perf.sh: $1" >&2
  echo "             $2" >&2
  exit 2
}
usage='Use: gds_perf.sh -f FILE; gds_perf.sh --help tells more.'

is_number() { # is_number TEXT FROM TO, whole ones
  case $1 in '' | *[!0-9]* | ??????????*) return 1 ;; esac
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}
is_size() { # more than nothing
  echo "$1" | grep -Eqi '^([0-9]+\.?[0-9]*|\.[0-9]+) ?([kmgt](b|ib)?|b)?$' && echo "$1" | grep -q '[1-9]'
}
want_each() { # want_each FLAG CHECK REMEDY VALUE...
  flag=$1 check=$2 remedy=$3
  shift 3
  [ $# -gt 0 ] || refuse "$flag names nothing, which leaves nothing to run." "$remedy"
  for one in "$@"; do $check "$one" || refuse "$flag cannot be \"$one\"." "$remedy"; done
}
is_transfer() {
  case $1 in
    [0-7] | GPUD | CPUONLY | CPU_GPU | CPU_ASYNC_GPU | CPU_CACHED_GPU | GPUD_ASYNC | GPU_BATCH | GPU_BATCH_STREAM) ;;
    *) return 1 ;;
  esac
}
is_operation() { case $1 in [0-3] | read | write | randread | randwrite) ;; *) return 1 ;; esac; }
is_count() { is_number "$1" 1 4096; }
is_sizes() { # a size, or MIN:MAX:STEP
  case $1 in
    *:*:*:*) return 1 ;;
    *:*:*) is_size "${1%%:*}" && rest=${1#*:} && is_size "${rest%%:*}" && is_size "${rest#*:}" ;;
    *) is_size "$1" ;;
  esac
}

target='' where='' gpu=0 node='' size=1G
transfers='0 2' operations='1 0 3 2' sizes='4K 64K 1M 16M' counts='1 4 16'
seconds=5 table=no create=no version=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) help; exit 0 ;;
    --version) version=yes; shift; continue ;;
    -c) table=yes; shift; continue ;;
    --create) create=yes; shift; continue ;;
    --) shift; break ;;
    -f | -D | -d | -n | -s | -x | -I | -i | -w | -T) [ $# -ge 2 ] || refuse "$1 wants a value." "$usage" ;;
    *) refuse "It is not known what to do with $1." "$usage" ;;
  esac
  case $1 in
    -f | -D) [ -z "$target" ] || refuse "-f and -D are given more than once." "$usage"; target=$1; where=$2 ;;
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

gdsio=$(dirname "$(readlink -f "$0")")/gdsio
[ -x "$gdsio" ] || gdsio=gdsio
if ! command -v "$gdsio" >/dev/null; then
  echo "gds_perf.sh: There is no gdsio, neither beside this script nor in PATH." >&2
  echo "             Run the script where it is installed, or add the folder of gdsio to PATH." >&2
  exit 1
fi
if [ $version = yes ]; then
  told=$("$gdsio" --version)
  answer "gds_perf.sh (${told##*(}"
  exit 0
fi

# All of it before the first byte is written. Names with blanks and patterns are none of these lists'.
set -f
[ -n "$where" ] || refuse "There is no file or folder to work on." "$usage"
is_number "$gpu" 0 1023 || refuse "-d cannot be \"$gpu\"." "-d takes the number of a GPU, counted from 0."
[ -z "$node" ] || is_number "$node" 0 1023 || refuse "-n cannot be \"$node\"." "-n takes the number of a NUMA node."
is_size "$size" || refuse "-s cannot be \"$size\"." "-s takes a size above 0, as 64M or 10G."
echo "$seconds" | grep -Eq '^([0-9]{1,6}(\.[0-9]*)?|\.[0-9]+)$' && echo "$seconds" | grep -q '[1-9]' ||
  refuse "-T cannot be \"$seconds\"." "-T takes seconds above 0 for each run, as 5 or 0.5."
want_each -x is_transfer '-x takes numbers from 0 to 7 with blanks between them, as "0 2"; gdsio --help names them.' $transfers
want_each -I is_operation '-I takes 0 (read), 1 (write), 2 (random read) and 3 (random write), as "0 2"; 1 and 3 write.' $operations
want_each -i is_sizes '-i takes sizes with blanks between them, as "4K 1M".' $sizes
want_each -w is_count '-w takes numbers of threads from 1 to 4096 with blanks between them, as "1 4 16".' $counts
for word in "$@"; do
  case $word in
    -[fDdnsxIiwT]*) refuse "$word stands after --, and the sweep has it, too." "Give it before the two dashes." ;;
    -h | --help | --version) refuse "$word stands after --, and measures nothing." "Ask gdsio itself: gdsio $word" ;;
    --json) [ $table = no ] || refuse "-c and --json exclude each other: a table is no JSON." "Leave one of them out." ;;
  esac
done

# The most threads, so that a folder has a file for each of any run.
most=1 runs=0
for count in $counts; do [ "$count" -le "$most" ] || most=$count; done
for transfer in $transfers; do for operation in $operations; do for one in $sizes; do for count in $counts; do
  runs=$((runs + 1))
done; done; done; done

writes=no
for operation in $operations; do case $operation in 1 | 3 | write | randwrite) writes=yes ;; esac; done
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
# Whether gdsio understands any of it: asked with a file that cannot be, so that nothing is read or written. A run that
# it alone refuses is told of when its turn comes.
understood() {
  for transfer in $transfers; do for operation in $operations; do for one in $sizes; do for count in $counts; do
    tried=0
    said=$("$gdsio" "$target" /dev/null/none -d "$gpu" ${node:+-n "$node"} -w "$count" -s "$size" -i "$one" \
      -x "$transfer" -I "$operation" -T "$seconds" "$@" 2>&1) || tried=$?
    [ $tried -eq 2 ] || return 0
    : "${first:=$said}"
  done; done; done; done
  return 1
}
first=''
if ! understood "$@"; then
  echo "$first" | grep -v '^gdsio: note:' >&2
  exit 2
fi

# How large a batch may be is the library's to say, and is asked of it with a read of this script.
for transfer in $transfers; do case $transfer in 6 | GPU_BATCH)
  said=$("$gdsio" -f "$(readlink -f "$0")" -d "$gpu" -w "$most" -s 4K -i 4K -x "$transfer" -I 0 -T 0.01 "$@" 2>&1) ||
    case $said in *"more than the library's limit"*) echo "$said" | grep -v '^gdsio: note:' >&2; exit 2 ;; esac
esac; done

whole=$(awk "BEGIN { t = $runs * $seconds; printf(t < 120 ? \"%d s\" : \"%.1f min\", t < 120 ? t : t / 60) }")
echo "gds_perf.sh: $runs runs of $seconds s each, about $whole: gdsio -x \"$transfers\"" \
  "-I \"$operations\" -i \"$sizes\" -w \"$counts\" $target $where" >&2
if [ $writes = yes ] || [ $create = yes ]; then
  echo "gds_perf.sh: writes $size into $where first" >&2
  "$gdsio" "$target" "$where" -d "$gpu" ${node:+-n "$node"} -w "$most" -s "$size" -i 1M -x 0 -I 1 >/dev/null || exit 1
fi

row() { # row TEXT: its line "IoType: ..." as comma-separated values; others, as of --latency, are left out
  echo "$1" | sed -n -E 's/^IoType: ([A-Z]+) XferType: ([A-Z_]+) Threads: ([0-9]+)( IoDepth: [0-9]+)? .* IOSize: ([^(]+)\(KiB\) Throughput: ([0-9.]+) GiB\/sec, Avg_Latency: ([0-9.]+) usecs ops: ([0-9]+) .*/\1,\2,\3,\5,\6,\7,\8/p'
}

status=0
[ $table = no ] || answer io,xfer,threads,size_kib,gib_per_s,latency_us,ops
for transfer in $transfers; do
  for operation in $operations; do
    for one in $sizes; do
      for count in $counts; do
        if line=$("$gdsio" "$target" "$where" -d "$gpu" ${node:+-n "$node"} -w "$count" -s "$size" -i "$one" \
          -x "$transfer" -I "$operation" -T "$seconds" "$@"); then
          if [ $table = yes ]; then answer "$(row "$line")"; else answer "$line"; fi
        else
          echo "gds_perf.sh: this failed: gdsio -x $transfer -I $operation -i $one -w $count" >&2
          status=1
        fi
      done
    done
  done
done
exit $status
