#!/usr/bin/env bash
# kernel.sh: fetches the newest Debian kernel for the lab and unpacks what the guest needs of it.
#
#   kernel.sh DIR     makes DIR/vmlinuz, DIR/config, DIR/version and DIR/root/lib/modules/VERSION
#
# The packages come from the mirror that this machine's apt uses already, by an apt state of our own below DIR: neither
# the machine's sources nor its lists nor its packages change, and root is not needed. Debian's development suite is
# asked first, the backports to the stable release second.
#
# Exit status: 0 with a kernel, 77 where no mirror or no package can be had, 1 when something is wrong with it.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
dir=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$dir/fetch

cannot() {
  echo "kernel.sh: $*" >&2
  exit 77
}
wrong() {
  echo "kernel.sh: $*" >&2
  exit 1
}

[ "$(uname -m)" = x86_64 ] || cannot "the lab emulates x86-64 and takes its programs from this machine, a $(uname -m)"
command -v apt-get >/dev/null || cannot "no apt-get here, so no way to Debian's kernel packages"

# What apt itself makes of its sources, in whatever form they are written. A label is known only after an update, so an
# archive that ends in "debian" counts, too.
mirrors() {
  {
    apt-get indextargets --format '$(REPO_URI)' 'LABEL: Debian' || true
    apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' || true
  } 2>/dev/null | awk 'NF && !seen[$0]++'
}

# apt_own COMMAND...: apt with the state below $work. Everything else, such as a proxy, stays as the machine has it.
apt_own() {
  local tool=$1
  shift
  timeout 240 "$tool" -c "$work/apt.conf" "$@"
}

prepare_apt() { # prepare_apt MIRROR SUITE
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed=""
  rm -rf "$work"
  mkdir -p "$work"/lists/partial "$work"/cache/archives/partial "$work"/packages
  : >"$work/status"
  [ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
  echo "deb $signed$1 $2 main" >"$work/sources.list"
  cat >"$work/apt.conf" <<CONF
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/lists";
Dir::State::Status "$work/status";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Architecture "amd64";
APT::Sandbox::User "";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
}

# The names of the newest kernel's packages. The image of newer releases only depends on others that hold its parts.
kernel_packages() {
  local image
  image=$(apt_own apt-cache depends linux-image-amd64 | grep -oE 'linux-image-[0-9][^ ]*' | sed -n 1p)
  [ -n "$image" ] || return 1
  echo "$image"
  apt_own apt-cache depends "$image" | grep -oE 'linux-(binary|modules|base)-[0-9][^ ]*' | sort -u || true
}

fetch() { # fetch MIRROR SUITE: packages into $work/packages
  local packages
  prepare_apt "$1" "$2"
  apt_own apt-get -qq update >"$work/log" 2>&1 || return 1
  packages=$(kernel_packages) || return 1
  # shellcheck disable=SC2086 # the names are words
  (cd "$work/packages" && apt_own apt-get -qq download $packages) >>"$work/log" 2>&1
}

unpack() {
  local package modules version
  for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/tree"; done
  modules=$work/tree/usr/lib/modules
  [ -d "$modules" ] || modules=$work/tree/lib/modules
  version=$(cd "$modules" && echo [0-9]*)
  local image config
  image=$(compgen -G "$modules/$version/vmlinuz" || compgen -G "$work/tree/boot/vmlinuz-*") || return 1
  config=$(compgen -G "$modules/$version/config" || compgen -G "$work/tree/boot/config-*") || return 1
  cp "$image" "$work/vmlinuz"
  cp "$config" "$work/config"
  echo "$version" >"$work/version"
  mkdir -p "$work/all/lib/modules"
  mv "$modules/$version" "$work/all/lib/modules/"
  depmod -b "$work/all" "$version"
}

# The few modules of modules.txt and what they need, uncompressed: unpacking them under emulation takes long.
choose_modules() {
  local version full few module file name
  version=$(cat "$work/version")
  full=$work/all/lib/modules/$version
  few=$work/root/lib/modules/$version
  mkdir -p "$few"
  cp "$full"/modules.builtin* "$full"/modules.order "$few"/
  while read -r module; do
    modprobe -d "$work/all" -S "$version" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" { print $2 }' ||
      echo "kernel.sh: this kernel has no module $module" >&2
  done <"$here/modules.txt" | sort -u | while read -r file; do
    name=${file#"$full"/}
    mkdir -p "$few/$(dirname "$name")"
    case $name in
      *.xz) xz -dc "$file" >"$few/${name%.xz}" ;;
      *.zst) zstd -qdc "$file" >"$few/${name%.zst}" ;;
      *) cp "$file" "$few/$name" ;;
    esac
  done
  depmod -b "$work/root" "$version"
}

found=$(mirrors)
[ -n "$found" ] || cannot "no Debian archive among this machine's apt sources"
without=""
for suite in sid stable-backports; do
  for mirror in $found; do
    fetch "$mirror" "$suite" || continue
    unpack || wrong "the packages of $suite do not hold a kernel where they used to: look into $work"
    if ! grep -qx 'CONFIG_PCI_P2PDMA=y' "$work/config"; then
      without="$without $(cat "$work/version")"
      continue
    fi
    choose_modules
    rm -rf "$dir/root"
    mv "$work/root" "$work/vmlinuz" "$work/config" "$dir/"
    mv "$work/version" "$dir/" # the last to come: who finds it finds everything
    rm -rf "$work"
    echo "kernel $(cat "$dir/version") from $suite"
    exit 0
  done
done
[ -z "$without" ] || wrong "CONFIG_PCI_P2PDMA=y is missing in$without: no kernel of this archive can do the direct path"
tail -n 3 "$work/log" >&2
cannot "the archive's packages could not be fetched (no network?)"
