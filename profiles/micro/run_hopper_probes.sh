#!/bin/sh
# Runs the probes of the weight product on a Hopper host, most telling first, each in its own process with a time limit, so that
# a hang or a fault costs one probe.   run_hopper_probes.sh PROGRAM_FOLDER OUTPUT_FOLDER
# Leaves product.jsonl, gpu_bench.json, clocks.csv and log.txt.
programs=$1
output=$2
results=$output/product.jsonl
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
probe 60 "$programs/gpu_product_tests" --gtest_brief=1
probe 60 "$programs/product_probe" "$results"
probe 120 "$programs/gpu_bench" --benchmark_filter=product/q4 --benchmark_min_time=0.02 \
  --benchmark_out="$output/gpu_bench.json" --benchmark_out_format=json
probe 10 "$programs/wgmma_rate_probe" "$results"
probe 15 "$programs/ring_probe" "$results"
kill $sampler
