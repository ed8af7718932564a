// Tracks: which kind of run a row is scored with.

#include "planner/step_time/tracks.h"

#include <gtest/gtest.h>

#include <string>

namespace tidemark::step_time {
namespace {

TEST(Tracks, ExperimentsHaveTheirOwnWhateverTheyRanOn) {
  EXPECT_EQ(track_of({"vtrain", "a100-vtrain8", "fp16", false}), "1 vtrain single");
  EXPECT_EQ(track_of({"vtrain-multi", "a100-80g", "fp16", false}), "2 vtrain multi");
  EXPECT_EQ(track_of({"megatron-2022", "a100-80g", "fp16", false}), "2b korthikanti");
  EXPECT_EQ(track_of({"megatron-2021", "a100-80g", "fp16", false}), "2c sc21");
}

TEST(Tracks, DevicesComeBeforeSoftware) {
  EXPECT_EQ(track_of({"mindspeed", "ascend-910b-a2pod", "bf16", false}), "6 ascend dense");
  EXPECT_EQ(track_of({"mindformers", "ascend-910b-800t-a2", "fp16", true}), "6 ascend moe");
  for (const char* device : {"b200", "b300", "gb200", "gb300"}) {
    EXPECT_EQ(track_of({"bridge", device, "nvfp4", false}), "9 blackwell dense") << device;
    EXPECT_EQ(track_of({"bridge", device, "mxfp8", true}), "9 blackwell moe") << device;
  }
  EXPECT_EQ(track_of({"titan", "gb200", "bf16", false}), "9 blackwell dense");
}

TEST(Tracks, ExpertsComeBeforeShardedWeights) {
  EXPECT_EQ(track_of({"bridge", "h100", "bf16", true}), "5 moe bf16");
  EXPECT_EQ(track_of({"dgxc", "h100", "fp8", true}), "5 moe fp8");
  EXPECT_EQ(track_of({"titan", "h100", "fp8row", true}), "5 moe fp8");
  EXPECT_EQ(track_of({"megatron-core", "a100-80g", "fp16", true}), "5 moe bf16");
}

TEST(Tracks, ShardedWeightsAreApartFromTunedMegatron) {
  for (const char* software : {"foundry", "titan", "fms", "internevo", "jax"}) {
    EXPECT_EQ(track_of({software, "a100-40g", "bf16", false}), "3 fsdp bf16") << software;
    EXPECT_EQ(track_of({software, "h100", "fp8", false}), "3 fsdp fp8") << software;
  }
  for (const char* software : {"dgxc", "nemo", "bridge", "megatron-core", ""}) {
    EXPECT_EQ(track_of({software, "h100", "bf16", false}), "4 h100 bf16") << software;
    EXPECT_EQ(track_of({software, "h100", "fp8", false}), "4 h100 fp8") << software;
  }
}

}  // namespace
}  // namespace tidemark::step_time
