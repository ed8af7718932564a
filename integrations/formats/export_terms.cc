#include "integrations/formats/export_terms.h"

#include <string_view>

#include "planner/step_time/run_terms.h"

namespace tidemark::formats {
namespace {

/// Switches of MindSpeed by the module that they recompute; Megatron-LM lists modules by name.
std::string_view module_of(const ExportWord& word) {
  if (word.option == "--recompute-activation-function") return "activation";
  if (word.option == "--recompute-norm") return "layernorm";
  if (word.option == "--recompute-mla-up-proj") return "mla_up_proj";
  return word.value;
}

TimeTerm term_of(const ExportWord& word) {
  if (word.action == Action::swap) return TimeTerm::activations_on_host;
  if (word.storages.empty()) return TimeTerm::whole_layers_recomputed;
  return step_time::term_of_module(module_of(word));
}

}  // namespace

TimeTerms terms_of(const ExportVocabulary& vocabulary, const search::SettingValues& values) {
  TimeTerms terms;
  for (std::size_t w = 0; w < vocabulary.words.size(); ++w) terms.add_if(values[w] > 0, term_of(vocabulary.words[w]));
  return terms;
}

}  // namespace tidemark::formats
