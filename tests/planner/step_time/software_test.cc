// Values of frameworks: found by name and by where a measurement was published.

#include "planner/step_time/software.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace tidemark::step_time {
namespace {

TEST(SoftwareTable, NamesAreSortedAndUnique) {
  const auto all = all_software();
  EXPECT_EQ(all.size(), 16U);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Software::name));
  std::set<std::string> names;
  for (const Software& software : all) names.insert(software.name);
  EXPECT_EQ(names.size(), all.size());
}

TEST(SoftwareTable, EveryNameFindsItself) {
  for (const Software& software : all_software()) EXPECT_EQ(find_software(software.name), &software);
  EXPECT_EQ(find_software("vtrain-"), nullptr);
  EXPECT_EQ(find_software(""), nullptr);
}

// What step_seconds divides by or raises to a share.
TEST(SoftwareTable, SharesAreSharesAndWhatDividesIsAboveZero) {
  for (const Software& at : all_software()) {
    for (const double share : {at.tensor_hidden, at.exchange_hidden, at.send_hidden}) {
      EXPECT_GE(share, 0) << at.name;
      EXPECT_LE(share, 1) << at.name;
    }
    EXPECT_GT(at.send_rate, 0) << at.name;
    EXPECT_LE(at.send_rate, 1) << at.name;
    EXPECT_GT(at.bucket_bytes, 0) << at.name;
    EXPECT_GT(at.gradient_bytes, 0) << at.name;
    EXPECT_GE(at.imbalance, 1) << at.name;
    EXPECT_LE(at.step_s, 0.1) << at.name << ": seconds, not milliseconds";
  }
}

TEST(SoftwareTable, LinesOfOneFrameworkDifferInTheirTraits) {
  EXPECT_TRUE(find_software("vtrain")->has_tf32_head);
  EXPECT_FALSE(find_software("vtrain-multi")->has_tf32_head);
  EXPECT_EQ(find_software("vtrain")->gradient_bytes, 2);
  EXPECT_EQ(find_software("vtrain-multi")->gradient_bytes, 4);
  EXPECT_EQ(find_software("megatron-2021")->weight_bytes, 0);
  EXPECT_EQ(find_software("megatron-2022")->weight_bytes, 2);
  for (const char* eager : {"vtrain", "vtrain-multi", "megatron-2021", "megatron-2022"})
    EXPECT_TRUE(find_software(eager)->is_eager) << eager;
  EXPECT_EQ(std::ranges::count_if(all_software(), &Software::is_eager), 4);
  for (const Software& software : all_software())
    EXPECT_EQ(software.pass_corner, software.is_eager ? 2.75 : 0) << software.name;
  EXPECT_EQ(std::ranges::count_if(all_software(), &Software::is_graph), 1);
  EXPECT_TRUE(find_software("mindformers")->is_graph);
  EXPECT_LT(find_software("bridge")->moe_launches, find_software("dgxc")->moe_launches);
  EXPECT_TRUE(find_software("foundry")->is_flash_2);
  EXPECT_TRUE(find_software("fms")->is_flash_2);
}

TEST(SoftwareOfSource, TheNarrowestPatternDecides) {
  const auto name_of = [](std::string_view source) {
    const Software* software = software_of(source);
    return software == nullptr ? std::string("none") : software->name;
  };
  EXPECT_EQ(name_of("VIA-Research/vTrain@0:data/ground_truth_single.csv"), "vtrain");
  EXPECT_EQ(name_of("VIA-Research/vTrain@0:data/ground_truth_multi.csv"), "vtrain-multi");
  EXPECT_EQ(name_of("arXiv:2104.04473 table 1"), "megatron-2021");
  EXPECT_EQ(name_of("arXiv:2205.05198 table 5"), "megatron-2022");
  EXPECT_EQ(name_of("mosaicml/llm-foundry@0:README.md"), "foundry");
  EXPECT_EQ(name_of("InternLM/InternEvo@0:doc/en/train_performance.rst"), "internevo");
  EXPECT_EQ(name_of("pytorch/torchtitan@0:docs/performance.md"), "titan");
  EXPECT_EQ(name_of("foundation-model-stack/fms-fsdp@0:README.md"), "fms");
  EXPECT_EQ(name_of("NVIDIA/JAX-Toolbox@0:README.md"), "jax");
  EXPECT_EQ(name_of("NVIDIA-NeMo/Megatron-Bridge@0:docs/performance-summary.md"), "bridge");
  EXPECT_EQ(name_of("NVIDIA/dgxc-benchmarking@0:nemotron/README.md"), "dgxc");
  EXPECT_EQ(name_of("NVIDIA/NeMo@0:docs/x.rst"), "nemo");
  EXPECT_EQ(name_of("NVIDIA/NeMo-Framework-Launcher@0:README.md"), "nemo");
  EXPECT_EQ(name_of("Megatron-LM tests/functional_tests@0:x.json"), "megatron-core");
  EXPECT_EQ(name_of("Ascend/MindSpeed-LLM@0:README.md"), "mindspeed");
  EXPECT_EQ(name_of("MindSpeed-LLM tests/**/baseline*/*.json@0:x.json"), "mindspeed-ci");
  EXPECT_EQ(name_of("mindspore-lab/mindformers@0:x.md"), "mindformers");
  EXPECT_EQ(name_of("somebody/else@0:README.md"), "none");
  EXPECT_EQ(name_of(""), "none");
}

}  // namespace
}  // namespace tidemark::step_time
