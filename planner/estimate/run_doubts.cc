#include "planner/estimate/run_doubts.h"

namespace tidemark::estimate {
namespace {

/// Masks grow with its square: longest sequence of a measured run with a mask as long.
constexpr std::int64_t kLongestMask = 4096;

class DoubtList {
 public:
  void add(bool holds, std::string_view argument, std::string_view reason) {
    if (holds) doubts_.push_back({argument, reason});
  }
  [[nodiscard]] std::vector<Doubt> take() && { return std::move(doubts_); }

 private:
  std::vector<Doubt> doubts_;
};

void add_attention(const Draft& draft, DoubtList& doubts) {
  const Model& model = draft.run.model;
  const Attention& attention = model.attention;
  doubts.add(
      !attention.use_flash, "",
      "attention without --use-flash-attn: what it keeps follows the framework's code, no measured run shows it");
  doubts.add(attention.softcapped, "attn-logit-softcapping", "no measured run caps its scores");
  doubts.add(attention.mask != AttentionMask::compressed && model.sequence > kLongestMask, "seq-length",
             "an attention mask as long as the sequence was measured up to 4096 only, and it grows with the square");
}

void add_context(const Draft& draft, DoubtList& doubts) {
  constexpr std::string_view kName = "context-parallel-algo";
  const std::string_view algorithm = draft.context_algorithm;
  if (draft.run.parallel.context < 2) return;
  const bool hybrid = algorithm == "hybrid_cp_algo";
  const bool known = algorithm.empty() || algorithm == "ulysses_cp_algo" || algorithm == "megatron_cp_algo";
  doubts.add(hybrid, kName, "the one measured run with it peaks twice as high as what is modelled");
  doubts.add(!hybrid && !known, kName, "what this algorithm keeps of masks and exchanged parts is not modelled");
}

void add_ascend(const Draft& draft, DoubtList& doubts) {
  const Model& model = draft.run.model;
  add_attention(draft, doubts);
  add_context(draft, doubts);
  doubts.add(draft.fp16, "fp16", "the one measured run in fp16 peaks twice as high as what is modelled");
  doubts.add(draft.run.loss.softcapped, "output-logit-softcapping", "no measured run caps its logits");
  doubts.add(model.unfused_norm, "",
             "RMSNorm without --use-fused-rmsnorm: its fp32 copies follow the framework's code, no measured run shows "
             "them");
  doubts.add(draft.run.parallel.schedule == Schedule::dualpipev, "schedules-method",
             "what waits in this schedule follows its description, no measured run shows it");
}

}  // namespace

std::vector<Doubt> doubts_of(const Draft& draft) {
  DoubtList doubts;
  if (draft.run.platform.framework == Framework::mindspeed_llm) add_ascend(draft, doubts);
  doubts.add(!draft.run.offload.modules.empty(), "fine-grained-activation-offloading",
             "what is left on the device follows the framework's rules, no measured run shows it");
  return std::move(doubts).take();
}

}  // namespace tidemark::estimate
