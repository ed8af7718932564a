#include "integrations/configs/config_kind.h"

#include <gtest/gtest.h>

#include "tests/configs/config_text.h"

namespace tidemark::configs {
namespace {

TEST(ConfigKind, IsToldByNameAndOutermostKeys) {
  EXPECT_EQ(kind_of(testing::kTitanText, "llama3_8b.toml"), ConfigKind::torchtitan);
  EXPECT_EQ(kind_of("", "a/B.TOML"), ConfigKind::torchtitan);
  EXPECT_EQ(kind_of(testing::kBridgeText, "run_config.yaml"), ConfigKind::bridge);
  EXPECT_EQ(kind_of("model:\n  num_layers: 1\ntrain:\n  a: 1\nddp:\n  b: 1\n", "x.yaml"), ConfigKind::bridge);
  EXPECT_EQ(kind_of(testing::kMindformersText, "pretrain.yaml"), ConfigKind::mindformers);
  EXPECT_EQ(kind_of("model:\n  model_config:\n    hidden_size: 8\n", "x.yaml"), ConfigKind::mindformers);
}

TEST(ConfigKind, LeavesOtherFilesAlone) {
  EXPECT_EQ(kind_of("model:\n  layers: [dense]\nparallel:\n  tensor: 2\n", "model.yaml"), ConfigKind::other);
  EXPECT_EQ(kind_of("  runner_config:\n# parallel_config: 1\n", "x.yaml"), ConfigKind::other);
  EXPECT_EQ(kind_of("", ""), ConfigKind::other);
  EXPECT_EQ(kind_of("num_layers: 32\n", "args.yaml"), ConfigKind::other);
}

TEST(ConfigKind, AnotherKindIsRefusedInOneLine) {
  const auto read = testing::read("num_layers: 32\n", "args.yaml");
  ASSERT_FALSE(read);
  EXPECT_TRUE(read.error().message.starts_with("args.yaml:1: this is no configuration of Megatron-Bridge"));
}

}  // namespace
}  // namespace tidemark::configs
