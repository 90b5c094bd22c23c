# fabrics.sh: drives behind NVMe/TCP and NVMe/RDMA, the target in the same guest; paths that go and come back.
. "$LAB/guest/common.sh"
begin
load nvmet nvmet-tcp nvme-tcp xfs
. "$LAB/guest/target.sh"

# --- NVMe/TCP, two ports
new_subsystem tcp "$(drive PLN0)" $group
new_port 1 tcp 127.0.0.1 4420 tcp optimized
new_port 2 tcp 127.0.0.1 4421 tcp non-optimized
check "NVMe/TCP: the first port connects" connect tcp 127.0.0.1 4420 tcp
check "NVMe/TCP: the second port connects" connect tcp 127.0.0.1 4421 tcp
if ! { wait_for 20 find_head tcp && wait_for 20 find_path 4420 && path1=$path && wait_for 20 find_path 4421 &&
  path2=$path && wait_for 20 has_state "$path2" non-optimized; }; then
  fail "NVMe/TCP: the head appears with both its paths" "not within 20 s each"
  exit 1
fi
check "NVMe/TCP: the optimized path is known as such" has_state "$path1" optimized

probe_it transfers "NVMe/TCP" "$head" EREMOTEIO

# falls_back NAME FILE WORDS...: the library finds the refusal by its trial, moves the bytes all the same, and tells how
# the drive is reached.
falls_back() {
  local name=$1 file=$2 words detail
  shift 2
  (
    use_library
    goes "$name" "$file" posix pages_refused copied
    detail=$(explained "$file" detail)
    for words in "$@"; do
      case $detail in
        *"$words"*) pass "$name: the explanation tells \"$words\"" ;;
        *) fail "$name: the explanation tells \"$words\"" "it says: $detail" ;;
      esac
    done
  )
}
falls_back "NVMe/TCP, library" "$head" "tcp" "EREMOTEIO" "tcp 127.0.0.1:4420 live optimized" \
  "tcp 127.0.0.1:4421 live non-optimized"

# --- reads follow the states of the paths
all_are_counted() { # the kernel counts a read a moment after it has ended
  read -r after1 rest <"$path1/stat"
  read -r after2 rest <"$path2/stat"
  [ $((after1 + after2 - before1 - before2)) -ge 32 ]
}
count_reads() { # count_reads ROW SHARE-OF-PORT-1 SHARE-OF-PORT-2
  local before1 before2 after1 after2 rest
  read -r before1 rest <"$path1/stat"
  read -r before2 rest <"$path2/stat"
  dd if="$head" of=/dev/null bs=64k count=32 iflag=direct status=none
  wait_for 20 all_are_counted
  same "NVMe/TCP: $1" "$((after1 - before1)) and $((after2 - before2))" "$2 and $3"
}
count_reads "reads take the optimized path alone" 32 0
change 1 "$path1" inaccessible
change 2 "$path2" optimized
count_reads "reads follow when the states are swapped" 0 32
echo round-robin >"$host_side/iopolicy"
change 1 "$path1" optimized
count_reads "reads take turns on two optimized paths" 16 16
echo numa >"$host_side/iopolicy"

# --- a load that verifies every byte while paths go and come back
progress=/run/lab-load
count_transfers() { # into $transfers
  transfers=0
  [ ! -s $progress ] || read -r transfers <$progress
}
gets_to() { count_transfers && [ "$transfers" -ge "$1" ]; }
load_goes_on() { # load_goes_on ROW
  count_transfers
  local wanted=$((transfers + 16))
  if wait_for 40 gets_to $wanted; then pass "$1"; else fail "$1" "it got to $transfers of $wanted transfers in 40 s"; fi
}
some_thread_waits() { # uninterruptibly: state D
  local thread stat
  for thread in /proc/"$loader"/task/*/stat; do
    read -r stat <"$thread"
    stat=${stat##*) }
    [ "${stat%% *}" != D ] || return 0
  done
  return 1
}
nothing_ends() { # threads have a transfer in flight, and for longer than any takes none has ended
  local before
  count_transfers
  before=$transfers
  some_thread_waits || return 1
  sleep 2
  count_transfers
  [ "$before" = "$transfers" ]
}

fail_over() { # fail_over CLIENT
  local name="fail-over under load by $1"
  local log=/lab/out/load-$1.log
  rm -f $progress
  (
    use_library
    export CUFILE_ENV_PATH_JSON=/tmp/load.json CUFILE_LOGFILE_PATH="/lab/out/load-$1-cufile.log"
    exec "$LAB_BUILD/test-bin/lab_load" "$1" "$head" $progress
  ) </run/lab-stop >"$log" 2>&1 &
  loader=$!
  exec 9>/run/lab-stop # open for the load to wait on
  load_goes_on "$name: it runs"
  change 1 "$path1" non-optimized
  change 2 "$path2" optimized
  load_goes_on "$name: it goes on when the states are swapped"
  change 1 "$path1" optimized
  change 1 "$path1" inaccessible
  load_goes_on "$name: it goes on when the first path is lost"
  change 1 "$path1" optimized
  change 2 "$path2" inaccessible
  load_goes_on "$name: it goes on when the first is back and the second lost"
  change 1 "$path1" inaccessible
  if wait_for 40 nothing_ends; then
    pass "$name: without a path it waits"
  else
    fail "$name: without a path it waits" "transfers still end"
  fi
  [ "$1" != cufile ] || others_go_on "$name"
  change 2 "$path2" optimized
  load_goes_on "$name: it goes on when a path comes back"
  rm "$target/ports/2/subsystems/tcp"
  change 1 "$path1" optimized
  load_goes_on "$name: it goes on when a port is taken away"
  ln -s "$target/subsystems/tcp" "$target/ports/2/subsystems/tcp"
  wait_for 20 has_state "$path2" optimized || fail "$name: the port comes back" "not within 20 s"
  load_goes_on "$name: it goes on when the port is back"
  exec 9>&-
  local status=0
  wait "$loader" || status=$?
  if [ $status = 0 ]; then
    pass "$name: every byte was right"
  else
    fail "$name: every byte was right" "the load ended with $status: $(tail -n 1 "$log")"
  fi
  echo "$1: $(tail -n 1 "$log"), SIGPIPE from the kernel: $(sed -n 's/^SIGPIPE: //p' "$log")"
  [ "$1" != cufile ] || what_the_library_told "$name" "$log" "/lab/out/load-$1-cufile.log"
}

# While every transfer of the load waits, other threads register, transfer, ask, and fork: the library holds no lock of
# its own over them. Long enough that a transfer counts as late.
others_go_on() { # others_go_on NAME
  local since=$SECONDS waiting=$transfers
  count_rounds
  local wanted=$((rounds + 8))
  if wait_for 40 rounds_get_to $wanted; then
    pass "$1: without a path, other calls of the library go on"
  else
    fail "$1: without a path, other calls of the library go on" "they got to $rounds of $wanted rounds in 40 s"
  fi
  wait_for 20 has_passed $((since + 2))
  count_transfers
  same "$1: without a path, it waited all that time" "$transfers" "$waiting"
}
has_passed() { [ "$SECONDS" -ge "$1" ]; }
count_rounds() { # into $rounds
  rounds=0
  [ ! -s $progress-others ] || read -r rounds <$progress-others
}
rounds_get_to() { count_rounds && [ "$rounds" -ge "$1" ]; }

# what_the_library_told NAME OUTPUT LOG: its statistics and its log.
what_the_library_told() {
  same "$1: the program hears of no broken pipe" "$(sed -n 's/^SIGPIPE: //p' "$2")" 0
  same "$1: the statistics count each transfer" "$(sed -n 's/^statistics: //p' "$2")" "as many, none failed"
  local late
  late=$(grep -c ' took [0-9]*\.[0-9] s and moved 65536: block device .*path nvme[0-9]* tcp 127.0.0.1:4421 live ' "$3")
  if [ "$late" -gt 0 ]; then
    pass "$1: the log tells of the transfers that waited, and of the paths"
  else
    fail "$1: the log tells of the transfers that waited, and of the paths" "it says: $(tail -n 3 "$3" | paste -sd ' ')"
  fi
  if grep -q ' not direct (the trial read answered EREMOTEIO)' "$3"; then
    pass "$1: the log tells why they are not direct"
  else
    fail "$1: the log tells why they are not direct" "it says: $(head -n 3 "$3" | paste -sd ' ')"
  fi
}
echo '{"profile": {"cufile_stats": 3}, "logging": {"level": "WARN"}}' >/tmp/load.json
mkfifo /run/lab-stop
for client in $LAB_CLIENTS; do fail_over "$client"; done

# --- a file system on the head
mkdir -p /mnt/head
if mount_new xfs "$head" /mnt/head; then
  probe_it transfers "xfs on NVMe/TCP" /mnt/head/file EREMOTEIO
  : >/mnt/head/library
  falls_back "xfs on NVMe/TCP, library" /mnt/head/library "xfs on /mnt/head" "EREMOTEIO"
  umount /mnt/head
else
  fail "xfs on NVMe/TCP: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
fi

# --- NVMe/RDMA over soft RoCE
if needs "NVMe/RDMA" rdma; then
  check "NVMe/RDMA: soft RoCE is set up" soft_roce
  new_subsystem rdma "$(drive PLN1)" 1
  new_port 3 rdma 192.168.77.1 4422 rdma optimized
  check "NVMe/RDMA: the port connects" connect rdma 192.168.77.1 4422 rdma
  if wait_for 20 find_head rdma; then
    probe_it transfers "NVMe/RDMA" "$head" EREMOTEIO
    falls_back "NVMe/RDMA, library" "$head" "rdma 192.168.77.1:4422 live optimized" "EREMOTEIO"
  else
    fail "NVMe/RDMA: the head appears" "not within 20 s"
  fi
fi
