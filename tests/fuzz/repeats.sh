#!/bin/sh
# A sequential run repeats another one with the same seed: every call, every answer.
set -eu
export SLUICE_TEST_SEED="${SLUICE_TEST_SEED:-4711}"
first=$("$1" --sequential --threads=4 --calls=10000)
second=$("$1" --sequential --threads=4 --calls=10000)
printf '%s\n' "$first"
[ "$first" = "$second" ] || {
  printf 'the second run differs:\n%s\n' "$second"
  exit 1
}
