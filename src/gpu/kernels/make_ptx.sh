#!/usr/bin/env bash
# Makes what the library ships of the kernels: the text of each (NAME.ptx), which any driver compiles for the GPU it
# finds, and kernels.fatbin, all of them as machine code for the usual GPUs. Needs nvcc of CUDA 12.8 or later; run it
# after every change of a source.
#
# The text asks for no more than its instructions need (PTX 6.4, compute capability 7.0), whatever nvcc would put there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
together=$(mktemp -d)
# Once for all, outside of their namespaces.
printf '#include "%s"\n' "$PWD/../kernel_protocol.h" >"$together/kernels.cu"
trap 'rm -rf "$together"' EXIT
for source in *.cu; do
  text=${source%.cu}.ptx
  {
    echo "// Made from $source by make_ptx.sh; not to be edited."
    nvcc -std=c++17 -O3 -arch=compute_75 -ptx -o - "$source" |
      sed -e '/^\/\//d' -e 's/^\.version .*/.version 6.4/' -e 's/^\.target .*/.target sm_70/'
  } >"$text"
  # Each in a namespace of its own, since they use the same names.
  printf 'namespace %s_source {\n#include "%s"\n}\n' "${source%.cu}" "$PWD/$source" >>"$together/kernels.cu"
done
devices=()
for capability in 75 80 90 100 120; do # each also serves later ones of the same generation
  devices+=(-gencode "arch=compute_$capability,code=sm_$capability")
done
nvcc -std=c++17 -O3 -fatbin "${devices[@]}" -o kernels.fatbin "$together/kernels.cu"
