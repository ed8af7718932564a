#include "planner/decide/sites/uniform.h"
#include "planner/policy.h"

namespace tidemark::policies {
namespace {

// As published-recipe; the core-attention output is the second swap that public MindSpeed code offered at the time.
constexpr decide::sites::NamedAction kRules[] = {{"k", Action::recompute},
                                                 {"v", Action::recompute},
                                                 {"fc1_in", Action::recompute},
                                                 {"act_out", Action::recompute},
                                                 {"shared_act_out", Action::recompute},
                                                 {"unpermute_in", Action::swap},
                                                 {"attention_out_core", Action::swap}};

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  return plan::answer_of(request, decide::sites::choose_by_name(request.problem.sites(), kRules));
}

}  // namespace

extern const plan::Policy kPublishedRecipeAttentionSwap;
const plan::Policy kPublishedRecipeAttentionSwap = {
    .name = "published-recipe-attention-swap",
    .help =
        "published-recipe, and swap the attention output as well (inferred: "
        "the public option appeared about 2025-05-07)",
    .decide = decide,
    .is_fixed = true};

}  // namespace tidemark::policies
