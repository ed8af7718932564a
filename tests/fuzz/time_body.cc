// Devices of step times, constants to be tried on them, and seconds that were predicted elsewhere.

#include <string>
#include <vector>

#include "tests/fuzz/input_bodies.h"

namespace tidemark::testing {
namespace {

std::vector<std::string> time_device_seeds() {
  return {
      R"(name: a
sheet:
  peak_flops: {bf16: 313TFLOPS, fp8: 1PFLOPS}
  memory_bandwidth: 1600GB/s
  cores: 20
  tiles: [[256, 128, 1.0], [64, 64, 0.6]]
  intra_node: 196GB/s
  inter_node: 25GB/s
  host_link: 31.5GB/s
  devices_per_node: 8
  hopper_or_later: true
fitted: {matmul: 0.6, tile_start: 150, memory: 0.5, launch: 18us}
assumed: {intra_link: 0.7, inter_link: 0.8, hop: 22us, attention: 0.4, grouped_matmul: 0.85, fp8: 0.9}
base_source: one
sources: {one: 1.00, two: 0.91}
)",
      R"(name: b
sheet: {peak_flops: {bf16: 1TFLOPS}, memory_bandwidth: 1GB/s, cores: 1, tiles: [[1, 1, 1]], intra_node: 1GB/s,
  inter_node: 1GB/s, host_link: 1GB/s, devices_per_node: 1}
constants: a
)"};
}

std::vector<std::string> time_device_words() {
  return {"\n",     " ",         ": ",      "{",     "}",       "[",        "]",     "#",       "0",
          "-1",     "1e300",     "1",       "0.5",   "18us",    "1s",       "1TB/s", "1TFLOPS", "256",
          "fitted", "assumed",   "sources", "two",   "matmul:", "hop: 1us", "fp8:",  "nvfp4:",  "constants: b\n",
          "~",      "[1, 1, 1]", "true",    "name:", "\xff",    "&a ",      "*a",    "---\n"};
}

std::vector<std::string> candidate_seeds() {
  return {R"({"constants": "a", "candidates": [
{"matmul": 0.6, "tile_start": 150, "memory": 0.5, "launch": "18us", "intra_link": 0.7, "inter_link": 0.8,
"hop": "22us", "attention": 0.4, "grouped_matmul": 0.85, "fp8": 0.9}]})"};
}

std::vector<std::string> candidate_words() {
  return {"{", "}", "[", "]", ",", "\"", "0", "-1", "1", "1e300", "\"18us\"", "{},", "matmul", "null"};
}

std::vector<std::string> predicted_seeds() {
  return {R"({"rows": [{"id": "gpt/tp2", "predicted_s": 1.25}, {"id": "gpt/tp4", "predicted_s": 1e-3}]})",
          "rows:\n- {id: a, predicted_s: 3}\n"};
}

std::vector<std::string> predicted_words() {
  return {"{", "}", "[", "]", ",", "\"", "0", "-1", "1e300", "1e-300", "gpt/tp2", "\"id\"", "null", "{},", "\n"};
}

}  // namespace

std::vector<FuzzTarget> time_targets() {
  return {
      {.name = "time_device",
       .seeds = time_device_seeds,
       .words = time_device_words,
       .places = {"own constants", "another's constants"},
       .rounds = 3'000},
      {.name = "rate_candidates", .seeds = candidate_seeds, .words = candidate_words, .places = {}, .rounds = 3'000},
      {.name = "predicted_times", .seeds = predicted_seeds, .words = predicted_words, .places = {}, .rounds = 3'000}};
}

}  // namespace tidemark::testing
