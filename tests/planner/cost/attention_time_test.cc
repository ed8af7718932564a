#include "planner/cost/attention_time.h"

#include <gtest/gtest.h>

#include "tests/planner/cost/timed_devices.h"

namespace tidemark::cost {
namespace {

Attention attention() {
  return {.tokens = 4096, .length = 4096, .heads = 32, .qk_dim = 128, .v_dim = 128};
}

TEST(AttentionTime, IsTwoProductsAtTheFittedRate) {
  Attention whole = attention();
  whole.is_causal = false;
  const AttentionPasses passes = attention_passes(whole, round_device());
  EXPECT_DOUBLE_EQ(passes.forward_s, 2.0 * 4096 * 4096 * 32 * 256 / 500e12);
  EXPECT_DOUBLE_EQ(passes.backward_s, 2.5 * 1.15 * passes.forward_s);
}

TEST(AttentionTime, CausalIsHalfAndTheDiagonalsBlocks) {
  Attention whole = attention(), causal = attention();
  whole.is_causal = false;
  const double whole_s = attention_passes(whole, round_device()).forward_s;
  EXPECT_DOUBLE_EQ(attention_passes(causal, round_device()).forward_s, whole_s * (4096 + 256) / 8192);
  causal.length = whole.length = 256;
  EXPECT_DOUBLE_EQ(attention_passes(causal, round_device()).forward_s,
                   attention_passes(whole, round_device()).forward_s)
      << "one block is computed whole";
}

TEST(AttentionTime, NarrowHeadsReachLess) {
  Attention narrow = attention();
  narrow.heads = 64;
  narrow.qk_dim = narrow.v_dim = 64;
  EXPECT_DOUBLE_EQ(attention_passes(narrow, round_device()).forward_s,
                   attention_passes(attention(), round_device()).forward_s * (128.0 / 160) / (64.0 / 96));
}

TEST(AttentionTime, UnevenHeadsAreOfTheirMeanWidth) {
  Attention uneven = attention();
  uneven.qk_dim = 192;
  uneven.v_dim = 64;
  EXPECT_DOUBLE_EQ(attention_passes(uneven, round_device()).forward_s,
                   attention_passes(attention(), round_device()).forward_s);
}

TEST(AttentionTime, Flash2ReachesLessOnHopperOnly) {
  Attention flash_2 = attention();
  flash_2.is_flash_2 = true;
  Chip hopper = round_device();
  hopper.sheet.is_hopper_or_later = true;
  const double own_s = attention_passes(attention(), hopper).forward_s;
  EXPECT_DOUBLE_EQ(attention_passes(flash_2, hopper).forward_s, own_s / 0.45);
  EXPECT_EQ(attention_passes(flash_2, round_device()).forward_s, own_s);
}

TEST(AttentionTime, GrowsWithTokensLengthAndHeads) {
  for (double Attention::*size : {&Attention::tokens, &Attention::length, &Attention::heads}) {
    Attention more = attention();
    more.*size += 1;
    EXPECT_GT(attention_passes(more, round_device()).forward_s,
              attention_passes(attention(), round_device()).forward_s);
  }
}

}  // namespace
}  // namespace tidemark::cost
