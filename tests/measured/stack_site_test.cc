// Names and kinds of call stacks.

#include "integrations/measured/stack_site.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tidemark::measured {
namespace {

constexpr const char* kTorch = "/opt/venv/lib/python3.11/site-packages/torch/";

formats::StackFrame torch(std::string_view file, std::string_view function) {
  static std::vector<std::string> kept;  // frames are views
  kept.reserve(10'000);
  kept.push_back(kTorch + std::string(file));
  return {.file = kept.back(), .function = function};
}

StackSite site_of(const std::vector<formats::StackFrame>& frames) {
  formats::CallStack stack;
  for (std::size_t row = 0; row < frames.size(); ++row) stack.push_back(static_cast<std::int32_t>(row));
  return sites_of(frames, {stack}).front();
}

const formats::StackFrame kCall = torch("nn/modules/module.py", "_call_impl");
const formats::StackFrame kTrain{.file = "/srv/job/steps/train.py", .function = "train_one_step"};

TEST(StackSite, IsTheInnermostFrameOutsidePyTorch) {
  const StackSite site =
      site_of({torch("nn/functional.py", "batch_norm"),
               torch("nn/modules/batchnorm.py", "forward"),
               kCall,
               {.file = "/opt/venv/lib/python3.11/site-packages/torchvision/models/resnet.py", .function = "forward"},
               kCall,
               kTrain});
  EXPECT_EQ(site.name, "torchvision/models/resnet.py:forward (batch_norm)");
  EXPECT_EQ(site.kind, SiteKind::forward);
}

TEST(StackSite, TheNameIsTheSameOnEveryMachineAndLine) {
  const auto name = [](std::string_view file) { return site_of({{.file = file, .function = "f"}}).name; };
  EXPECT_EQ(name("/srv/job/steps/train.py"), "steps/train.py:f");
  EXPECT_EQ(name("/builds/77/steps/train.py"), "steps/train.py:f");
  EXPECT_EQ(name("train.py"), "train.py:f");
  EXPECT_EQ(name("/train.py"), "train.py:f");
  EXPECT_EQ(name("steps/train.py"), "steps/train.py:f");
  EXPECT_EQ(name("/usr/lib/python3/dist-packages/megatron/core/x.py"), "megatron/core/x.py:f");
  EXPECT_EQ(name("/home/me/torch/train.py"), "torch/train.py:f");  // a folder of the user's
}

TEST(StackSite, FramesOfNoPersonAreSkipped) {
  EXPECT_EQ(site_of({{.file = "??", .function = "at::empty"},
                     {.file = "/tmp/torchinductor_me/ab/cab.py", .function = "call"},
                     {.file = "<eval_with_key>.7", .function = "forward"},
                     kTrain})
                .name,
            "steps/train.py:train_one_step");
  EXPECT_EQ(site_of({{.file = "Copy.cpp", .function = "copy"}}).name, kNoFrame);
  EXPECT_EQ(site_of({torch("optim/adam.py", "step")}).name, "torch/optim/adam.py:step");
  EXPECT_EQ(site_of({{.file = "/src/pytorch/torch/nn/functional.py", .function = "linear"}, kTrain}).name,
            "steps/train.py:train_one_step (linear)");
}

TEST(StackSite, KindsOfPlacesInPyTorch) {
  const auto kind = [](const std::vector<formats::StackFrame>& frames) { return site_of(frames).kind; };
  EXPECT_EQ(kind({torch("optim/adam.py", "_init_group"), torch("optim/adam.py", "step"), kTrain}),
            SiteKind::optimizer_init);
  EXPECT_EQ(kind({torch("optim/adam.py", "_multi_tensor_adam"), torch("optim/adam.py", "step"), kTrain}),
            SiteKind::optimizer_step);
  EXPECT_EQ(kind({torch("nn/modules/module.py", "convert"), torch("nn/modules/module.py", "_apply"), kTrain}),
            SiteKind::parameters);
  EXPECT_EQ(kind({torch("nn/modules/linear.py", "__init__"), kTrain}), SiteKind::parameters);
  EXPECT_EQ(kind({torch("autograd/graph.py", "_engine_run_backward"), torch("_tensor.py", "backward"), kTrain}),
            SiteKind::backward);
  EXPECT_EQ(kind({kTrain}), SiteKind::unknown);
  EXPECT_EQ(kind({torch("distributed/distributed_c10d.py", "all_gather_into_tensor"), kCall, kTrain}),
            SiteKind::communication);
  EXPECT_EQ(
      kind({{.file = "/x/site-packages/megatron/core/optimizer/distrib_optimizer.py", .function = "__init__"}, kTrain}),
      SiteKind::optimizer_init);
}

TEST(StackSite, WhereACheckoutLiesSaysNothing) {
  const auto kind = [](std::string_view file, const std::vector<formats::StackFrame>& outward) {
    std::vector<formats::StackFrame> frames = {{.file = file, .function = "forward"}};
    frames.insert(frames.end(), outward.begin(), outward.end());
    return site_of(frames).kind;
  };
  // A model below a folder named optimizer is none; nor is one in such a folder that a module calls.
  EXPECT_EQ(kind("/home/ana/optimizer/train/model.py", {kCall, kTrain}), SiteKind::forward);
  EXPECT_EQ(kind("/home/ana/optimizer/train/model.py", {kTrain}), SiteKind::unknown);
  EXPECT_EQ(kind("/home/ana/optimizer/model.py", {kCall, kTrain}), SiteKind::forward);
  EXPECT_EQ(kind("/home/ana/optimizer/megatron/core/transformer/mlp.py", {kTrain}), SiteKind::unknown);
  // One of the user's own is, as are those of known packages, in a checkout as well.
  EXPECT_EQ(kind("/home/ana/optimizer/muon.py", {kTrain}), SiteKind::optimizer_step);
  EXPECT_EQ(kind("/home/ana/optim/muon.py", {torch("optim/optimizer.py", "wrapper"), kCall}), SiteKind::optimizer_step);
  EXPECT_EQ(kind("/src/Megatron-LM/megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py", {kCall}),
            SiteKind::optimizer_step);
  EXPECT_EQ(kind("/x/site-packages/apex/optimizers/fused_adam.py", {kCall}), SiteKind::optimizer_step);
  EXPECT_EQ(kind("/x/site-packages/mine/optim/muon.py", {kTrain}), SiteKind::optimizer_step);
}

TEST(StackSite, TheInnermostPlaceDecides) {
  const auto kind = [](const std::vector<formats::StackFrame>& frames) { return site_of(frames).kind; };
  // A forward that is computed anew in backward, and one within an optimizer's closure.
  EXPECT_EQ(kind({kCall, torch("autograd/graph.py", "_engine_run_backward"), kTrain}), SiteKind::forward);
  EXPECT_EQ(kind({kCall, kTrain, torch("optim/lbfgs.py", "step"), kTrain}), SiteKind::forward);
  // torchrun's own frames are outermost of everything.
  EXPECT_EQ(kind({kTrain, torch("distributed/elastic/multiprocessing/errors/__init__.py", "wrapper")}),
            SiteKind::unknown);
  // A function's own backward runs in a thread without the loop; its forward within a module.
  EXPECT_EQ(kind({kTrain, torch("autograd/function.py", "apply")}), SiteKind::backward);
  EXPECT_EQ(kind({kTrain, torch("autograd/function.py", "apply"), kCall, kTrain}), SiteKind::forward);
}

TEST(StackSite, NamesAreOneShortLineOfUtf8) {
  EXPECT_EQ(name_of("a\nb\x1b[0m"), "a?b?[0m");
  EXPECT_EQ(name_of("\xff\xc3(\xed\xa0\x80gr\xc3\xbc\xc3\x9f\xf0\x9f\x8c\x8a"),
            "\\xff\\xc3("
            "\\xed\\xa0\\x80gr\xc3\xbc\xc3\x9f\xf0\x9f\x8c\x8a");
  EXPECT_EQ(name_of(std::string(5'000, 'x')).size(), 200u);
  EXPECT_EQ(name_of(std::string(199, 'x') + "\xc3\xbc"), std::string(199, 'x'));
}

TEST(StackSite, NumbersThatStandAloneAreLeftOut) {
  EXPECT_EQ(name_without_numbers("layers.17.mlp"), "layers.mlp");
  EXPECT_EQ(name_without_numbers("step 12"), "step");
  EXPECT_EQ(name_without_numbers("12"), "");
  EXPECT_EQ(name_without_numbers("fc1/7:w2_9"), "fc1:w2");
  EXPECT_EQ(name_without_numbers("aten::mm"), "aten::mm");
  EXPECT_EQ(name_without_numbers(""), "");
}

}  // namespace
}  // namespace tidemark::measured
