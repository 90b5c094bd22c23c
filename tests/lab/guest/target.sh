# target.sh: an NVMe target in the guest itself, its ports with their states, and the host's side of it. For scripts that
# have read common.sh and loaded nvmet.
mount -t configfs configfs /sys/kernel/config
ip link set lo up
target=/sys/kernel/config/nvmet
group=2 # of the namespaces whose paths change; group 1 is there by itself

new_subsystem() { # new_subsystem NAME DEVICE GROUP
  local of=$target/subsystems/$1
  mkdir "$of"
  echo 1 >"$of/attr_allow_any_host"
  mkdir "$of/namespaces/1"
  echo -n "$2" >"$of/namespaces/1/device_path"
  echo "$3" >"$of/namespaces/1/ana_grpid"
  echo 1 >"$of/namespaces/1/enable"
}

new_port() { # new_port NUMBER TRANSPORT ADDRESS SERVICE SUBSYSTEM STATE
  local of=$target/ports/$1
  mkdir "$of"
  echo ipv4 >"$of/addr_adrfam"
  echo "$2" >"$of/addr_trtype"
  echo "$3" >"$of/addr_traddr"
  echo "$4" >"$of/addr_trsvcid"
  mkdir "$of/ana_groups/$group"
  echo "$6" >"$of/ana_groups/$group/ana_state"
  ln -s "$target/subsystems/$5" "$of/subsystems/$5"
}

soft_roce() { # an adapter for RDMA, by software, at 192.168.77.1
  modprobe -a rdma_rxe dummy nvmet-rdma nvme-rdma || return
  ip link add lab0 type dummy && ip addr add 192.168.77.1/24 dev lab0 && ip link set lab0 up || return
  rdma link add rxe0 type rxe netdev lab0
}

connect() { # connect TRANSPORT ADDRESS SERVICE SUBSYSTEM
  echo "transport=$1,traddr=$2,trsvcid=$3,nqn=$4,hostnqn=lab-host,hostid=6c616200-0000-4000-8000-000000000001,ctrl_loss_tmo=600,reconnect_delay=1" \
    >/dev/nvme-fabrics
}

# The head that the host has made of a subsystem, left in $head.
find_head() { # find_head SUBSYSTEM
  local of found name
  for of in /sys/class/nvme-subsystem/*; do
    read -r name <"$of/subsysnqn"
    [ "$name" = "$1" ] || continue
    for found in "$of"/nvme*n*; do
      case ${found##*/} in *c*n*) continue ;; esac
      head=/dev/${found##*/}
      host_side=$of
      [ ! -b "$head" ] || return 0
    done
  done
  return 1
}
# The folder of the path that leads through a service, left in $path.
find_path() { # find_path SERVICE
  local found address
  for found in "$host_side"/nvme*/address; do
    read -r address <"$found"
    case $address in *trsvcid="$1"*) ;; *) continue ;; esac
    for path in "${found%/*}"/nvme*c*n*; do [ ! -e "$path" ] || return 0; done
  done
  return 1
}
has_state() { # has_state PATH STATE
  local state
  read -r state <"$1/ana_state" 2>/dev/null && [ "$state" = "$2" ]
}

# change PORT PATH STATE: at the target; returns when the host knows, too.
change() {
  echo "$3" >"$target/ports/$1/ana_groups/$group/ana_state"
  wait_for 20 has_state "$2" "$3" || fail "NVMe/TCP: the host learns that port $1 is $3" "not within 20 s"
}
