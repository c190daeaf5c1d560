#!/bin/sh
# Runs the probes of the q4 product on a Hopper host, most telling first, each in its own process with a time limit, so that
# a hang or a fault costs one probe.   run_hopper_probes.sh PROGRAM_FOLDER OUTPUT_FOLDER
# Leaves q4-gemm-probes.jsonl, clocks.csv and log.txt.
programs=$1
output=$2
results=$output/q4-gemm-probes.jsonl
mkdir -p "$output"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader | tee "$output/card.txt"
nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader -lms 200 >"$output/clocks.csv" &
sampler=$!
probe() {
  limit=$1
  shift
  begin=$(date +%s%N)
  timeout -k 2 "$limit" "$@" >>"$output/log.txt" 2>&1
  echo "exit $? after $((($(date +%s%N) - begin) / 1000000)) ms: $*" | tee -a "$output/log.txt"
}
for variant in engine wgmma_two_blocks copy unpack mma_sync_big_ring wgmma_4wg_big_ring; do
  probe 20 "$programs/q4_gemm_probe" $variant "$results"
done
probe 10 "$programs/wgmma_rate_probe" "$results"
probe 15 "$programs/ring_probe" "$results"
probe 30 compute-sanitizer --tool memcheck "$programs/q4_gemm_probe" engine "$output/memcheck.jsonl" odd
kill $sampler
