#!/usr/bin/env bash
# Copies what tests/gpu/on_device.sh, tests/contract/calibrate.py, tests/differential/run_on_gpu.sh, bench/on_device.sh and
# bench/gdsio_pairs.sh need from a build folder into a small one, without debug information:
#   tests/gpu/pack.sh build/release FOLDER
set -euo pipefail
build=$1 folder=$2
mkdir -p "$folder"/{bin,lib/sluice,test-bin/system,softgpu}
for file in bin/sluice bin/load_times bin/cufile_bench bin/gdsio lib/libcufile.so.0 softgpu/{libcuda.so.1,libgdrapi.so.2} \
  test-bin/{contract_tests,{batch,stream}_endurance,io_matrix,fault_tests,life_tests,life_program,life_unlinked} \
  test-bin/{uvm_tests,differential_player,first_use,callers_tests,in_environment} \
  test-bin/caller_{nixl_gds,nixl_gds_mt,lmcache_slab,lmcache_chunks,llm_d,vllm,dynamo_gms,pytorch,fio,kvikio} \
  test-bin/system/profiler.so bin/driver_suite bin/driver_probe "$(cd "$build" && echo lib/sluice/*.so)"; do
  strip --strip-debug -o "$folder/$file" "$build/$file"
done
ln -sf libcufile.so.0 "$folder/lib/libcufile.so"  # the name that some callers ask for
