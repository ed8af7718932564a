#pragma once
// Jobs that tests of the memory-budget gate check, and the answers of the real program as JSON.

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A launch script of five lines: one job of eight devices, on one node.
inline constexpr const char* kGptScript =
    "torchrun --nproc_per_node 8 pretrain_gpt.py \\\n"
    "  --num-layers 12 --hidden-size 512 --num-attention-heads 8 \\\n"
    "  --seq-length 1024 --max-position-embeddings 1024 \\\n"
    "  --micro-batch-size 4 --global-batch-size 32 --bf16 \\\n"
    "  --attention-backend unfused --vocab-size 32000\n";

/// A measured job of one rank, as a file of device samples.
[[nodiscard]] inline std::string device_sample(Bytes used) {
  return R"({"tidemark_device_sample": 1, "device_used_bytes": )" + std::to_string(used) + "}";
}

/// What a command prints with `--format json`. Fails the test if it does not end with `status`.
[[nodiscard]] inline Json gate_answer(const Workplace& place, Words words, int status = 0) {
  words.insert(words.end(), {"--format", "json", "--quiet"});
  const Ran ran = place.run(words);
  EXPECT_EQ(ran.status, status) << ran.err << ran.out;
  return parsed(ran.out);
}

/// A job of an answer by its name. Throws where there is none, which fails the test.
[[nodiscard]] inline Json job_named(const Json& answered, const std::string& name) {
  for (const Json& one : answered.at("jobs"))
    if (one.at("name") == name) return one;
  throw std::runtime_error("no job " + name);
}

/// The peak of the rank that holds most.
[[nodiscard]] inline Bytes highest_peak(const Json& job) {
  Bytes most = 0;
  for (const Json& rank : job.at("ranks")) most = std::max(most, rank.at("peak_bytes").get<Bytes>());
  return most;
}

}  // namespace tidemark::testing
