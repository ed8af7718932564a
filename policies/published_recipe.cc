#include "planner/decide/sites/uniform.h"
#include "planner/policy.h"

namespace tidemark {
namespace {

// Published: arXiv 2505.04519 names KV vectors, permute and SwiGLU as recomputed and says that other activations are
// swapped without naming them. The un-permute input is an inference from MindSpeed commit a06418c4 (2025-04-21).
constexpr NamedAction kRules[] = {{"k", Action::recompute},
                                  {"v", Action::recompute},
                                  {"fc1_in", Action::recompute},
                                  {"act_out", Action::recompute},
                                  {"shared_act_out", Action::recompute},
                                  {"unpermute_in", Action::swap}};

PolicyAnswer decide(const PolicyRequest& request) {
  return answer_of(request, choose_by_name(request.problem.sites(), kRules));
}

}  // namespace

extern const Policy kPublishedRecipe;
const Policy kPublishedRecipe = {
    .name = "published-recipe",
    .help =
        "recompute the MLA key and value vectors, the permuted expert input and the SwiGLU outputs (published), swap "
        "the un-permute "
        "input (inferred from the release dates of public options, not confirmed); the same on every layer and rank",
    .decide = decide};

}  // namespace tidemark
