# model.sh: the model of tests/model on real device memory: threads that share a file by all calls, doors and kinds of
# memory, with the direct path wherever it goes, and each way of waiting for a drive forced in turn. Drives write device
# memory beside the page cache and beside the ragged ends of others' writes; no others' bytes are touched.
. "$LAB/guest/common.sh"
begin
load ext4 xfs
places=/run/places

place ext4 ext4 "$(drive PLN0)"
place xfs xfs "$(drive PLN2)"
use_library
cd /tmp || exit 1
echo '{"properties": {"use_poll_mode": true, "poll_mode_max_size_kb": 65536}}' >/tmp/polled.json
export SLUICE_MODEL_SECONDS=$LAB_SECONDS
# forced WAY VARIABLE...
forced() {
  local way=$1 steps
  shift
  gtest "model.$way" 600 env "$@" "$LAB_BUILD/test-bin/model_tests" "--gtest_filter=*/ext4:*/xfs" \
    --gtest_output=xml:/tmp/model.xml
  steps=$(grep -o 'name="steps" value="[0-9]*"' /tmp/model.xml | tr -dc '0-9\n' | paste -sd +)
  echo "count Steps of the model, $way -- $((steps))"
}
forced interrupts SLUICE_VERIFY=0
forced IOPOLL CUFILE_ENV_PATH_JSON=/tmp/polled.json SLUICE_POLL_THREAD=false
forced SQPOLL+IOPOLL CUFILE_ENV_PATH_JSON=/tmp/polled.json SLUICE_POLL_THREAD=true
forced verified SLUICE_VERIFY=1
