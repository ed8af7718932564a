#include "planner/step_time/run_terms.h"

#include <gtest/gtest.h>

#include "tests/planner/step_time/timed_cases.h"

namespace tidemark::step_time {
namespace {

TEST(RunTerms, OfAPlainRunAreItsReplicas) {
  EXPECT_EQ(terms_of(plain_case().run).text(), "data_parallel");
}

TEST(RunTerms, OfLayoutsAreTheDegreesAboveOne) {
  Case c = plain_case();
  c.run.tensor = 2;
  EXPECT_EQ(terms_of(c.run).text(), "tensor_parallel, data_parallel");
  c.run.is_sequence_parallel = true;
  c.run.pipeline = 2;
  c.run.virtual_pipeline = 2;
  c.run.context = 2;
  c.run.data = 1;
  EXPECT_EQ(terms_of(c.run).text(),
            "tensor_parallel, sequence_parallel, pipeline, interleaved_pipeline, context_parallel");
  c.run.is_folded = true;
  EXPECT_TRUE(terms_of(c.run).has(TimeTerm::folded_pipeline));
  EXPECT_FALSE(terms_of(c.run).has(TimeTerm::interleaved_pipeline));
  c.run.is_folded = false;
  c.run.pipeline = 1;  // chunks of one stage are no pipeline
  EXPECT_FALSE(terms_of(c.run).has(TimeTerm::interleaved_pipeline));
}

TEST(RunTerms, OfExpertsNeedAModelThatHasThem) {
  Case c = plain_case();
  c.run.expert = 8;
  c.run.expert_hidden = 0.5;
  EXPECT_EQ(terms_of(c.run).text(), "data_parallel");
  make_moe(c);
  EXPECT_TRUE(terms_of(c.run).has(TimeTerm::experts));
  EXPECT_TRUE(terms_of(c.run).has(TimeTerm::expert_parallel));
  EXPECT_TRUE(terms_of(c.run).has(TimeTerm::expert_overlap));
}

TEST(RunTerms, OfModulesAreThoseThatTheModelHas) {
  Case c = plain_case();
  c.run.recomputed.modules = {{"mlp"}, {"moe"}, {"mla_up_proj"}, {"core_attn"}, {"whatever"}};
  EXPECT_EQ(terms_of(c.run).text(),
            "data_parallel, core_attention_recomputed, dense_feed_forward_recomputed, operators_recomputed");
  c.run.recomputed.layers = 1;  // nothing is left for them
  EXPECT_EQ(terms_of(c.run).text(), "data_parallel, whole_layers_recomputed");
}

TEST(RunTerms, OfTheHostAreItsCopiesAndItsUpdates) {
  Case c = plain_case();
  c.run.host.dense_bytes = 1;
  EXPECT_EQ(terms_of(c.run).text(), "data_parallel, activations_on_host");
  c.run.host = {.updated_share = 0.5};
  EXPECT_EQ(terms_of(c.run).text(), "data_parallel, state_on_host");
}

}  // namespace
}  // namespace tidemark::step_time
