#include "planner/decide/sites/uniform.h"
#include "planner/policy.h"

namespace tidemark::policies {
namespace {

// Published: arXiv 2505.04519 names KV vectors, permute and SwiGLU as recomputed and says that other activations are
// swapped without naming them. The un-permute input is an inference from MindSpeed commit a06418c4 (2025-04-21).
constexpr decide::sites::NamedAction kRules[] = {{"k", Action::recompute},
                                                 {"v", Action::recompute},
                                                 {"fc1_in", Action::recompute},
                                                 {"act_out", Action::recompute},
                                                 {"shared_act_out", Action::recompute},
                                                 {"unpermute_in", Action::swap}};

plan::PolicyAnswer decide(const plan::PolicyRequest& request) {
  return plan::answer_of(request, decide::sites::choose_by_name(request.problem.sites(), kRules));
}

}  // namespace

extern const plan::Policy kPublishedRecipe;
const plan::Policy kPublishedRecipe = {
    .name = "published-recipe",
    .help =
        "recompute the MLA key and value vectors, the permuted expert input and the SwiGLU outputs (published), swap "
        "the un-permute "
        "input (inferred from the release dates of public options, not confirmed); the same on every layer and rank",
    .decide = decide,
    .is_fixed = true};

}  // namespace tidemark::policies
