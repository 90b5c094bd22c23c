# rdma.sh: memory that a server reaches by RDMA, over soft RoCE. The server runs in a network namespace of its own: what it moves
# crosses two pairs of virtual network cards, each with an adapter at both ends. The kernel shows all adapters in all
# namespaces, and each sends by its own card's.
. "$LAB/guest/common.sh"
server=$LAB_BUILD/examples/rdma-files/rdma-files-server
served=/srv/served
secret=/run/lab-secret

if [ ! -x "$server" ]; then
  skip "files by name over RDMA" "examples/rdma-files is not built: libibverbs-dev is not installed on the host"
  exit 0
fi
needs "files by name over RDMA" rdma || exit 0
load rdma_rxe ib_uverbs veth

networks() {
  ip link set lo up && ip netns add far && ip -n far link set lo up || return
  local n
  for n in 0 1; do
    # Room for packets of 4096 bytes and what stands before them.
    ip link add "near$n" mtu 4300 type veth peer name "far$n" mtu 4300 netns far &&
      ip addr add "10.0.$n.1/24" dev "near$n" && ip link set "near$n" up &&
      ip -n far addr add "10.0.$n.2/24" dev "far$n" && ip -n far link set "far$n" up &&
      rdma link add "rxe_near$n" type rxe netdev "near$n" &&
      ip netns exec far rdma link add "rxe_far$n" type rxe netdev "far$n" || return
  done
}
check "soft RoCE: two networks, an adapter at each end" networks

# The server says when it is ready, and at its end what it has done.
serve() {
  : >/run/server-says
  ip netns exec far "$server" --folder "$served" --secret-file "$secret" --timeout 20 \
    --listen 10.0.0.2:7471 --listen 10.0.1.2:7471 >/run/server-did 2>/run/server-says 9>&- &
  server_pid=$!
  wait_for 30 grep -q ready /run/server-says || fail "the server is ready" "$(paste -sd ' ' /run/server-says)"
}
end_server() { # end_server SIGNAL
  kill "-$1" "$server_pid"
  wait "$server_pid" 2>/dev/null
}
did() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" /run/server-did; }
sent() { cat /sys/class/net/near0/statistics/tx_bytes; }
client() { timeout -k 5 "$1" "$LAB_BUILD/test-bin/lab_rdma" "${@:2}"; }

mkdir -p "$served/folder"
ln -s /etc/passwd "$served/link"
(umask 077 && head -c 32 /dev/urandom >"$secret")

# --- so much both ways, shapes, keys that are refused
serve
before=$(sent)
client 900 moves "verbs" "$secret" "$served" "$LAB_MEBIBYTES" 10.0.0.2:7471
case $? in
  0 | 1) ;;
  *) fail "verbs: the transfers come to an end" "lab_rdma ended with $?" ;;
esac
check "verbs: what was written has crossed the network" test $(($(sent) - before)) -ge $((LAB_MEBIBYTES << 20))
end_server TERM
check "verbs: the server has seen six keys refused" test "$(did refused_keys)" = 6
cat /run/server-did
rm -f "$served"/moves

# --- through the library: calls, batches, streams, threads, on device memory of the soft GPU and on host memory. Soft RoCE takes
# no dma-bufs: a library that is preloaded registers the soft GPU's memory in its place (rdma/dma_buf.cpp).
by_library() { # by_library SECONDS COMMAND...
  SLUICE_SOFTGPU_RDMA=1 SLUICE_SOFTGPU_DMA_BUF=2 LD_PRELOAD=$LAB_BUILD/test-bin/liblab_dma_buf.so \
    LD_LIBRARY_PATH=$LAB_BUILD/softgpu timeout -k 5 "$1" "$LAB_BUILD/test-bin/lab_rdma_cufile" "${@:2}"
}
serve
by_library 600 checks "library" "$secret" "$served" "rxe_near0 port 1" 10.0.0.2:7471
case $? in
  0 | 1) ;;
  *) fail "library: the transfers come to an end" "lab_rdma_cufile ended with $?" ;;
esac
end_server TERM
cat /run/server-did

serve
by_library 900 moves "library" "$secret" "$served" "$LAB_MEBIBYTES" "rxe_near0 port 1" 10.0.0.2:7471
case $? in
  0 | 1) ;;
  *) fail "library: as much both ways as by verbs comes to an end" "lab_rdma_cufile ended with $?" ;;
esac
end_server TERM
cat /run/server-did
rm -f "$served/library-moves"

# --- keys that the library takes back: with a buffer that goes in the middle of a read, and from a server that stands still
serve
SLUICE_OPERATION_TIMEOUT_MS=5000 by_library 300 revoked "keys" "$secret" "$served" "$server_pid" 10.0.0.2:7471
case $? in
  0 | 1) ;;
  *) fail "keys: the transfers come to an end" "lab_rdma_cufile ended with $?" ;;
esac
end_server TERM
check "keys: the server has seen two refused" test "$(did refused_keys)" = 2
cat /run/server-did

# --- torn links, and a server that is killed and comes back, under a load that compares what it reads
progress=/run/steady
rounds() {
  local count=0
  { read -r count <$progress; } 2>/dev/null
  echo "${count:-0}"
}
has_reached() { [ "$(rounds)" -ge "$1" ]; }
goes_on() { # goes_on ROW: three rounds more
  local row=$1 from
  from=$(rounds)
  if wait_for 90 has_reached $((from + 3)); then pass "$row"; else fail "$row" "it stands at $(rounds): $(cat $progress-failed 2>/dev/null)"; fi
}
steadily() { # steadily NAME PROGRAM: `client` or `by_library`
  local name=$1 load_pid
  rm -f $progress $progress-failed /run/steady-input
  mkfifo /run/steady-input
  serve
  "$2" 400 steady "$name" "$secret" $progress 10.0.0.2:7471 10.0.1.2:7471 </run/steady-input >/run/steady-output 2>&1 &
  load_pid=$!
  exec 9>/run/steady-input
  goes_on "$name: begins"
  ip -n far link set far0 down
  goes_on "$name: the first link is torn, it goes on by the second"
  ip -n far link set far0 up
  ip -n far link set far1 down
  goes_on "$name: the second is torn, it goes on by the first"
  ip -n far link set far1 up
  kill -0 "$load_pid" 2>/dev/null || fail "$name: lives" "it ended early"
  rm -f $progress-failed
  end_server KILL
  check "$name: a killed server is noticed" wait_for 60 test -s $progress-failed
  echo "what calls answer while no server is there: $(cat $progress-failed)"
  serve
  goes_on "$name: goes on when the server is back"
  exec 9>&-
  wait "$load_pid" || fail "$name: ends well" "it ended with $?"
  cat /run/steady-output
  end_server TERM
}
steadily "steady load" client
steadily "steady load of the library's" by_library

# --- NFS over RDMA, and over TCP, as the library and the doctor see them
nfs_server() {
  mkdir -p /srv/nfs && mount -t tmpfs -o size=64M nfs-memory /srv/nfs &&
    head -c 4194304 /dev/urandom >/srv/nfs/file &&
    mount -t nfsd nfsd /proc/fs/nfsd && mkdir -p /var/lib/nfs/v4recovery &&
    echo "/srv/nfs *(rw,no_root_squash,fsid=0,insecure,no_subtree_check)" >/etc/exports &&
    rpc.mountd -N 3 && exportfs -ra && echo 10 >/proc/fs/nfsd/nfsv4gracetime &&
    rpc.nfsd -N 3 -U 2 && echo rdma 20049 >/proc/fs/nfsd/portlist
}
doctor_finds() { # doctor_finds FINDING POINT
  timeout 120 "$LAB_BUILD/bin/sluice" doctor storage --json | grep -A 12 "\"$1\"" | grep -q "$2 is NFS"
}
if needs "NFS over RDMA" exportfs && needs "NFS over RDMA" mount.nfs; then
  load nfsd nfsv4 rpcrdma
  check "NFS: the kernel's server exports by RDMA and by TCP" nfs_server
  for way in rdma tcp; do
    port=2049
    [ $way = tcp ] || port=20049
    mkdir -p "/mnt/nfs-$way"
    check "NFS by $way: mounts" timeout 60 mount -t nfs4 -o "proto=$way,port=$port,vers=4.2" 10.0.0.1:/ "/mnt/nfs-$way"
    check "NFS by $way: the kernel says so" grep -q " /mnt/nfs-$way nfs4 .*proto=$way" /proc/mounts
    check "NFS by $way: the doctor says so" doctor_finds "storage.nfs_$way" "/mnt/nfs-$way"
    same "NFS by $way: the library's path" "$(explained "/mnt/nfs-$way/file" path)" posix
    explained "/mnt/nfs-$way/file" detail
    check "NFS by $way: the library's bytes are right" env LD_LIBRARY_PATH="$LAB_BUILD/softgpu" \
      timeout 120 "$LAB_BUILD/bin/sluice" cp "/mnt/nfs-$way/file" "/tmp/copy-$way"
    check "NFS by $way: the copy is the file" cmp "/tmp/copy-$way" /srv/nfs/file
    umount "/mnt/nfs-$way"
  done
  rpc.nfsd 0
fi
