# csi.sh: sluice-csi on a kernel that has what those of containers lack: quotas, cgroups with limits, device memory that drives
# reach, and NVMe over fabrics whose paths are lost.
. "$LAB/guest/common.sh"
driver=$LAB_BUILD/bin/sluice-csi
if [ ! -x "$driver" ] || [ ! -x "$LAB_BUILD/test-bin/csi_call" ]; then
  skip "volumes of sluice-csi" "sluice-csi or csi_call is not built (-DSLUICE_CSI=ON)"
  exit 0
fi
begin
load xfs nvmet nvmet-tcp nvme-tcp
. "$LAB/guest/target.sh"
work=/run/csi
mkdir -p $work/kubelet $work/kit
mount='{"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}'

# start_driver NAME OPTION...: at $work/NAME.sock
start_driver() {
  local name=$1
  shift
  "$driver" --endpoint "unix://$work/$name.sock" --node lab "$@" 2>>"/lab/out/csi-$name.log" &
  echo $! >"$work/$name.pid"
  call "$name" Identity.Probe '{}' | grep -q '"ready":true'
}
call() { # call NAME METHOD JSON: the answer
  timeout 150 "$LAB_BUILD/test-bin/csi_call" "$work/$1.sock" "csi.v1.$2" "$3"
}
bring() { # bring NAME ID CONTEXT: staged, and published at $work/kubelet/pods/POD/volumes/ID
  local about="\"volume_id\": \"$2\", \"staging_target_path\": \"$work/staging-$2\", \"volume_capability\": $mount, \"volume_context\": $3"
  call "$1" Node.NodeStageVolume "{$about}" >/dev/null &&
    call "$1" Node.NodePublishVolume "{$about, \"target_path\": \"$(place "$2")\"}" >/dev/null
}
pod=11111111-2222-3333-4444-555555555555
place() { echo "$work/kubelet/pods/$pod/volumes/$1"; }
take() { # take NAME ID
  call "$1" Node.NodeUnpublishVolume "{\"volume_id\": \"$2\", \"target_path\": \"$(place "$2")\"}" >/dev/null &&
    call "$1" Node.NodeUnstageVolume "{\"volume_id\": \"$2\", \"staging_target_path\": \"$work/staging-$2\"}" >/dev/null
}
create() { # create NAME MIB: its id
  call local Controller.CreateVolume "{\"name\": \"$1\", \"capacity_range\": {\"required_bytes\": $(($2 << 20))},
    \"volume_capabilities\": [$mount], \"mutable_parameters\": {\"bandwidth\": \"50M\"}}" | sed -n 's/.*"volume_id":"\([^"]*\)".*/\1/p'
}

# --- a drive's pool: the driver formats it, mounts it with quotas, and keeps each volume to its size
cgroup=/sys/fs/cgroup
mkdir -p $cgroup
mount -t cgroup2 cgroup2 $cgroup 2>/dev/null
echo +io >$cgroup/cgroup.subtree_control
mkdir -p "$cgroup/kubepods/pod$pod"
echo +io >$cgroup/kubepods/cgroup.subtree_control
if ! start_driver local --pool "$work/pool=$(drive PLN0)" --kit "$work/kit" --cgroups $cgroup; then
  fail "pool: a blank drive is brought up with quotas" "$(tail -n 2 /lab/out/csi-local.log | paste -sd ' ')"
  exit 1
fi
pass "pool: a blank drive is brought up with quotas"
id=$(create one 32)
other=$(create two 64)
check "pool: a volume comes to a pod" bring local "$id" '{}'
at=$(place "$id")
wrote=$(dd if=/dev/zero of="$at/much" bs=1M count=48 oflag=direct 2>&1)
case $wrote in
  *"No space left"*) pass "quota: a volume is full at its size" ;;
  *) fail "quota: a volume is full at its size" "dd says: $(tail -n 1 <<<"$wrote")" ;;
esac
held=$(($(stat -c %b "$at/much") / 2048))
if [ "$held" -ge 30 ] && [ "$held" -le 32 ]; then
  pass "quota: all of its size can be written"
else
  fail "quota: all of its size can be written" "$held of 32 MiB"
fi
same "quota: df tells the volume's size" "$(df -m --output=size "$at" | tail -n 1 | tr -d ' ')" 32
check "quota: another volume has its own room" bring local "$other" '{}'
check "quota: which can be written" dd if=/dev/zero of="$(place "$other")/file" bs=1M count=48 oflag=direct
check "quota: growing in use makes room at once" call local Node.NodeExpandVolume \
  "{\"volume_id\": \"$id\", \"volume_path\": \"$at\", \"capacity_range\": {\"required_bytes\": $((64 << 20))}}"
check "quota: which can be written, too" dd if=/dev/zero of="$at/more" bs=1M count=16 oflag=direct
rm "$at/much" "$at/more"

# --- the kernel's limit for the pod
read -r device <"/sys/block/$(name_of_drive PLN0)/dev"
same "bandwidth: the kernel keeps the pod to its volumes' sum" "$(cat "$cgroup/kubepods/pod$pod/io.max")" \
  "$device rbps=100000000 wbps=100000000 riops=max wiops=max"

check "bandwidth: another one is taken" call local Controller.ControllerModifyVolume \
  "{\"volume_id\": \"$id\", \"mutable_parameters\": {\"bandwidth\": \"25M\"}}"
same "bandwidth: and the kernel keeps the pod to it at once" "$(cat "$cgroup/kubepods/pod$pod/io.max")" \
  "$device rbps=75000000 wbps=75000000 riops=max wiops=max"

# --- device memory through the bind mount that a pod has
(
  use_library
  : >"$at/library"
  goes "published volume" "$at/library" p2pdma direct direct
)

check "pool: a volume goes from its pod" take local "$id"
check "pool: and the other" take local "$other"
for each in "$id" "$other"; do
  check "pool: volume $each is removed" call local Controller.DeleteVolume "{\"volume_id\": \"$each\"}"
done
same "pool: nothing is mounted of it" "$(grep -c "$work/kubelet" /proc/mounts)" 0
same "pool: no byte is counted" "$(find "$work/pool/sluice-csi/volumes" "$work/pool/sluice-csi/trash" -mindepth 1 | wc -l)" 0

# --- a namespace behind two ports, published; a load that verifies every byte while paths go and come back
uuid=6c616200-0000-4000-8000-0000000000aa
new_subsystem csi "$(drive PLN1)" $group
echo 0 >"$target/subsystems/csi/namespaces/1/enable"
echo $uuid >"$target/subsystems/csi/namespaces/1/device_uuid"
echo 1 >"$target/subsystems/csi/namespaces/1/enable"
new_port 1 tcp 127.0.0.1 4420 csi optimized
new_port 2 tcp 127.0.0.1 4421 csi non-optimized
mkdir -p /etc/nvme
echo nqn.2014-08.org.nvmexpress:uuid:6c616200-0000-4000-8000-000000000001 >/etc/nvme/hostnqn
echo 6c616200-0000-4000-8000-000000000001 >/etc/nvme/hostid
attributes="{\"nqn\": \"csi\", \"uuid\": \"$uuid\", \"addresses\": \"127.0.0.1:4420 127.0.0.1:4421\", \"ctrlLossTmo\": \"600\"}"
start_driver fabrics --driver fabrics --state "$work/state" --cgroups $cgroup || fail "fabrics: the driver starts" "see csi-fabrics.log"
check "fabrics: staging connects both ports, formats and mounts" bring fabrics remote "$attributes"
if ! { wait_for 20 find_head csi && wait_for 20 find_path 4420 && path1=$path && wait_for 20 find_path 4421 && path2=$path; }; then
  fail "fabrics: the head has both its paths" "not within 20 s each"
  exit 1
fi
at=$(place remote)
check "fabrics: a bandwidth is set while it is in use" call fabrics Controller.ControllerModifyVolume \
  '{"volume_id": "remote", "mutable_parameters": {"bandwidth": "900M"}}'
read -r device <"/sys/block/${head##*/}/dev"
same "fabrics: and the kernel keeps the pod to it" "$(grep "^$device " "$cgroup/kubepods/pod$pod/io.max")" \
  "$device rbps=900000000 wbps=900000000 riops=max wiops=max"
progress=/run/csi-load
dd if=/dev/zero of="$at/load" bs=1M count=16 oflag=direct status=none
mkfifo /run/csi-stop
(exec "$LAB_BUILD/test-bin/lab_load" pread "$at/load" $progress) </run/csi-stop >/lab/out/csi-load.log 2>&1 &
loader=$!
exec 9>/run/csi-stop
count_transfers() { # into $transfers
  transfers=0
  [ ! -s $progress ] || read -r transfers <$progress
}
gets_to() { count_transfers && [ "$transfers" -ge "$1" ]; }
load_goes_on() { # load_goes_on ROW
  count_transfers
  local wanted=$((transfers + 16))
  if wait_for 60 gets_to $wanted; then pass "$1"; else fail "$1" "it got to $transfers of $wanted transfers in 60 s"; fi
}
condition() { # what kubelet is told of the published volume
  call fabrics Node.NodeGetVolumeStats "{\"volume_id\": \"remote\", \"volume_path\": \"$at\"}" |
    sed -n 's/.*"volume_condition":{"abnormal":\(true\|false\),"message":"\([^"]*\)".*/\1 \2/p'
}
says() { case $(condition) in *"$1"*) return 0 ;; *) return 1 ;; esac }
load_goes_on "fail-over: a load runs on the published volume"
change 1 "$path1" non-optimized
change 2 "$path2" optimized
load_goes_on "fail-over: it goes on when the states are swapped"
change 1 "$path1" inaccessible
load_goes_on "fail-over: it goes on when a path becomes inaccessible"
change 1 "$path1" optimized
rm "$target/ports/2/subsystems/csi"
load_goes_on "fail-over: it goes on when a port is taken away"
if wait_for 60 says "1 of 2 paths are live"; then pass "health: kubelet is told of the path that is missing"; else
  fail "health: kubelet is told of the path that is missing" "$(condition)"
fi
ln -s "$target/subsystems/csi" "$target/ports/2/subsystems/csi"
if wait_for 60 says "2 paths are live"; then pass "health: and of its return"; else fail "health: and of its return" "$(condition)"; fi
exec 9>&-
status=0
wait $loader || status=$?
same "fail-over: every byte was right" "$status" 0

# --- every path is lost, for longer than the controllers wait; then the target is back
check "loss: a shorter time-out is set while it is in use" call fabrics Controller.ControllerModifyVolume \
  '{"volume_id": "remote", "mutable_parameters": {"ctrlLossTmo": "2"}}'
echo kept >"$at/before" && sync -f "$at/before"
rm "$target/ports/1/subsystems/csi" "$target/ports/2/subsystems/csi"
if wait_for 60 says "true "; then pass "loss: kubelet is told that the volume is not well"; else
  fail "loss: kubelet is told that the volume is not well" "$(condition)"
fi
head_is_gone() { ! find_head csi; }
if wait_for 60 head_is_gone; then pass "loss: the device goes"; else fail "loss: the device goes" "not within 60 s"; fi
if says "true "; then pass "loss: it is told of a volume whose device is gone, too"; else
  fail "loss: it is told of a volume whose device is gone, too" "$(condition)"
fi
check "loss: its mounts are taken away all the same" take fabrics remote
for port in 1 2; do ln -s "$target/subsystems/csi" "$target/ports/$port/subsystems/csi"; done
check "loss: staging connects anew when the target is back" bring fabrics remote "$attributes"
same "loss: what was written before is there" "$(cat "$at/before")" kept
check "fabrics: it goes, and the subsystem is let go" take fabrics remote
same "fabrics: no controller of it is left" "$(grep -lx csi /sys/class/nvme/*/subsysnqn 2>/dev/null | wc -l)" 0

# --- the same namespace over RDMA, by soft RoCE
uses_rdma() { # the controllers of the subsystem, by what they are reached
  local of
  for of in /sys/class/nvme/*; do
    [ "$(cat "$of/subsysnqn" 2>/dev/null)" != csi ] || cat "$of/transport"
  done
}
if needs "fabrics, RDMA" rdma; then
  check "fabrics, RDMA: soft RoCE is set up" soft_roce
  new_port 3 rdma 192.168.77.1 4422 csi optimized
  by_rdma="{\"nqn\": \"csi\", \"uuid\": \"$uuid\", \"addresses\": \"192.168.77.1:4422\", \"transport\": \"rdma\", \"ctrlLossTmo\": \"600\"}"
  check "fabrics, RDMA: staging connects and mounts" bring fabrics by-rdma "$by_rdma"
  at=$(place by-rdma)
  same "fabrics, RDMA: the controller is reached by it alone" "$(uses_rdma)" rdma
  same "fabrics, RDMA: what was written over TCP is there" "$(cat "$at/before")" kept
  dd if=/dev/urandom of=/run/bytes bs=1M count=8 status=none
  check "fabrics, RDMA: bytes are written past the page cache" dd if=/run/bytes of="$at/bytes" bs=1M oflag=direct
  dd if="$at/bytes" of=/run/read bs=1M iflag=direct status=none
  check "fabrics, RDMA: and read back as they were" cmp /run/bytes /run/read
  rm "$target/ports/3/subsystems/csi"
  condition() {
    call fabrics Node.NodeGetVolumeStats "{\"volume_id\": \"by-rdma\", \"volume_path\": \"$at\"}" |
      sed -n 's/.*"volume_condition":{"abnormal":\(true\|false\),"message":"\([^"]*\)".*/\1 \2/p'
  }
  if wait_for 60 says "true "; then pass "fabrics, RDMA: kubelet is told of a lost path"; else
    fail "fabrics, RDMA: kubelet is told of a lost path" "$(condition)"
  fi
  ln -s "$target/subsystems/csi" "$target/ports/3/subsystems/csi"
  if wait_for 60 says "false "; then pass "fabrics, RDMA: and of its return"; else fail "fabrics, RDMA: and of its return" "$(condition)"; fi
  check "fabrics, RDMA: it goes, and the subsystem is let go" take fabrics by-rdma
  same "fabrics, RDMA: no controller of it is left" "$(uses_rdma)" ""
fi

for name in local fabrics; do
  kill "$(cat $work/$name.pid)"
  status=0
  wait "$(cat $work/$name.pid)" || status=$?
  same "the driver $name ends well" "$status" 0
done
