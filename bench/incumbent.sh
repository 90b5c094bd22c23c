# shellcheck shell=bash
# What scripts need that run NVIDIA's library beside ours; to be sourced. The caller defines die().

records=() made_control=no

# Sets `theirs` to the folder of the incumbent's libcufile.so.0 and `toolkit` to the CUDA folder that it is part of.
find_incumbent() {
  local cuda=${CUDA:-/usr/local/cuda} library
  for toolkit in "$cuda" "$cuda"-13.0 /usr/local/cuda-*; do
    library=$(find -L "$toolkit" -maxdepth 4 -name libcufile.so.0 -print -quit 2>/dev/null || true)
    [ -z "$library" ] || break
  done
  [ -n "${library:-}" ] || die "no libcufile.so.0 of CUDA below $cuda: name the toolkit's folder by CUDA"
  # shellcheck disable=SC2034 # for the caller
  theirs=$(dirname "$library")
}

# The incumbent registers files only where udev knows the file system of the block device.
tell_udev() { # tell_udev FOLDER
  local record
  record=/run/udev/data/b$(stat -c '%Hd:%Ld' "$1")
  mkdir -p /run/udev/data
  [ -e /run/udev/control ] || { touch /run/udev/control && made_control=yes; }
  [ -e "$record" ] && return
  printf 'E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n' >"$record"
  records+=("$record")
}

forget_udev() {
  ((${#records[@]} == 0)) || rm -f "${records[@]}"
  [ "$made_control" = no ] || rm -f /run/udev/control
  rmdir /run/udev/data /run/udev 2>/dev/null || true
}
