#include "planner/step_time/step_seconds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/planner/step_time/timed_cases.h"

namespace tidemark::step_time {
namespace {

Case changed(const ReferenceCase& reference) {
  Case result = plain_case();
  reference.change(result);
  return result;
}

double took_s(const Case& c, const Chip& device = hopper()) {
  return step_seconds(c.run, device, c.software).seconds;
}

TEST(StepSeconds, AreThoseOfTheReferenceImplementation) {
  std::set<double> seen;
  for (const ReferenceCase& reference : kReferenceCases) {
    const double seconds = took_s(changed(reference));
    EXPECT_NEAR(seconds / reference.seconds, 1, 1e-9) << reference.name;
    EXPECT_TRUE(seen.insert(seconds).second) << reference.name << " changes nothing";
  }
  EXPECT_EQ(seen.size(), 35u);
}

TEST(StepSeconds, ABetterDeviceIsNeverSlower) {
  for (const ReferenceCase& reference : kReferenceCases) {
    const Case c = changed(reference);
    const double before_s = took_s(c);
    for (double FittedRates::*share :
         {&FittedRates::matmul, &FittedRates::memory, &FittedRates::intra_link, &FittedRates::inter_link,
          &FittedRates::attention, &FittedRates::grouped_matmul, &FittedRates::fp8}) {
      Chip better = hopper();
      better.rates.*share *= 1.2;
      EXPECT_LE(took_s(c, better), before_s * (1 + 1e-12)) << reference.name;
    }
    for (double FittedRates::*time : {&FittedRates::tile_start, &FittedRates::launch_s, &FittedRates::hop_s}) {
      Chip better = hopper();
      better.rates.*time /= 1.2;
      EXPECT_LE(took_s(c, better), before_s * (1 + 1e-12)) << reference.name;
    }
  }
}

TEST(StepSeconds, EveryRateIsUsedBySomeRun) {
  for (double FittedRates::*rate :
       {&FittedRates::matmul, &FittedRates::tile_start, &FittedRates::memory, &FittedRates::launch_s,
        &FittedRates::intra_link, &FittedRates::inter_link, &FittedRates::hop_s, &FittedRates::attention,
        &FittedRates::grouped_matmul, &FittedRates::fp8}) {
    Chip other = hopper();
    other.rates.*rate *= 0.9;
    int changes = 0;
    for (const ReferenceCase& reference : kReferenceCases) {
      changes += std::fabs(took_s(changed(reference), other) / reference.seconds - 1) > 1e-6;
    }
    EXPECT_GT(changes, 0);
  }
}

TEST(StepSeconds, MoreWorkIsSlower) {
  for (const ReferenceCase& reference : kReferenceCases) {
    const Case c = changed(reference);
    Case deeper = c, longer = c, wider = c, more = c;
    deeper.run.model.layers += deeper.run.pipeline;
    longer.run.sequence += 256;
    wider.run.model.vocabulary *= 2;
    more.run.global_batch *= 2;
    EXPECT_GT(took_s(deeper), took_s(c)) << reference.name;
    EXPECT_GT(took_s(longer), took_s(c)) << reference.name;
    EXPECT_GT(took_s(wider), took_s(c)) << reference.name;
    EXPECT_GT(took_s(more), took_s(c)) << reference.name;
    EXPECT_LE(took_s(more), 2 * took_s(c)) << reference.name << ": what a step has once is paid once";
  }
}

TEST(StepSeconds, RunningAgainIsSlowerTheMoreOfItIs) {
  for (const ReferenceCase& reference : kReferenceCases) {
    Case none = changed(reference);
    none.run.recomputed = {};
    Case half = none, full = none, products = none;
    half.run.recomputed.layers = 0.5;
    full.run.recomputed.layers = 1;
    products.run.recomputed.is_half_of_products = true;
    EXPECT_LT(took_s(none), took_s(half)) << reference.name;
    EXPECT_LT(took_s(half), took_s(full)) << reference.name;
    EXPECT_LT(took_s(none), took_s(products)) << reference.name;
    EXPECT_LE(took_s(products), took_s(full)) << reference.name << ": both launch all of the forward again";
    products.software.is_graph = full.software.is_graph = true;
    EXPECT_LT(took_s(products), took_s(full)) << reference.name << ": the device's own time";
  }
}

TEST(StepSeconds, TermsOfOneStageMakeUpTheStep) {
  Case graph = plain_case();
  graph.software.is_graph = true;
  graph.software.step_s = 7e-3;
  const StepSeconds step = step_seconds(graph.run, hopper(), graph.software);
  const StepTerms& terms = step.terms;
  const double layers_s = terms.matmul_s + terms.attention_s + terms.vector_s + terms.tensor_s + terms.expert_s;
  const double named_s = layers_s + terms.head_s + terms.exchange_s + terms.optimizer_s + 7e-3;
  EXPECT_LT(named_s, step.seconds) << "the embedding is not named";
  EXPECT_GT(named_s, 0.99 * step.seconds);
  EXPECT_EQ(terms.bubble_share, 0);
  EXPECT_EQ(terms.tensor_s + terms.expert_s + terms.sharded_s, 0) << "there is one rank of each";
}

TEST(StepSeconds, TermsAreShownWhereTheyArise) {
  for (const ReferenceCase& reference : kReferenceCases) {
    const Case c = changed(reference);
    const StepTerms terms = step_seconds(c.run, hopper(), c.software).terms;
    EXPECT_GT(terms.matmul_s, 0) << reference.name;
    EXPECT_GT(terms.attention_s, 0) << reference.name;
    EXPECT_GT(terms.vector_s, 0) << reference.name;
    EXPECT_EQ(terms.tensor_s > 0, c.run.tensor > 1 || c.run.context > 1) << reference.name;
    EXPECT_EQ(terms.expert_s > 0, c.run.expert > 1) << reference.name;
    EXPECT_EQ(terms.sharded_s > 0, c.run.sharded > 1) << reference.name;
    EXPECT_EQ(terms.bubble_share > 0, c.run.pipeline > 1) << reference.name;
  }
}

TEST(StepSeconds, LaunchesHideBehindTheDeviceUnlessTheyTakeLonger) {
  Case c = plain_case();
  Chip free_host = hopper(), slow_host = hopper();
  free_host.rates.launch_s = 0;
  EXPECT_NEAR(took_s(c) / took_s(c, free_host), 1, 0.02) << "layers of 4096 tokens take longer than their launches";
  slow_host.rates.launch_s = 25e-3;
  const double host_s = step_seconds(c.run, slow_host, c.software).terms.host_s;
  EXPECT_GT(took_s(c, slow_host), host_s);
  EXPECT_LT(took_s(c, slow_host), 1.3 * host_s) << "then the host's time is the step's, with head and embedding";
  c.software.is_graph = true;
  EXPECT_EQ(took_s(c, slow_host), took_s(c, free_host)) << "a captured graph launches nothing";
}

}  // namespace
}  // namespace tidemark::step_time
