#include "planner/step_time/row_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace tidemark::step_time {
namespace {

using Notes = std::vector<std::string>;

constexpr std::array<std::string_view, 8> kModules = {"core_attn",      "mla_up_proj", "mlp",     "moe",
                                                      "shared_experts", "layernorm",   "moe_act", "activation"};
constexpr std::array<std::string_view, 7> kGranularities = {"",          "none",         "False",          "full",
                                                            "selective", "selective-op", "selective-layer"};
constexpr std::array<std::string_view, 2> kCaptured = {"moe_router", "moe_preprocess"};
constexpr std::size_t kMostWord = 40;  ///< of a word that is quoted

bool is_among(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

void add(Notes& notes, bool holds, std::string_view note) {
  if (holds) notes.emplace_back(note);
}

std::string quoted(const std::string& word) {
  return "'" + word.substr(0, kMostWord) + "'";
}

void note_model(Notes& notes, const RowWords& row, const TimedRun& run) {
  const ModelWords& model = row.model;
  add(notes, run.model.alternates_window, "windows alternate with full attention: priced as full attention");
  add(notes, run.model.window > 0 && model.window == 0, "window of attention from the model's published configuration");
  add(notes, model.vocabulary == 0, "vocabulary not stated: 32000 assumed");
  add(notes, model.experts > 0 && (model.dense_layers < 0 || model.moe_every < 0),
      "which layers have experts is not stated: all but the dense ones named");
  add(notes, row.layout.task == "lora", "LoRA: priced as training of all weights");
  add(notes, run.document > 0, "packed documents of unknown length: a typical one assumed");
  add(notes, row.id.find("_pack_") != std::string::npos && run.document == 0,
      "packed documents under context parallelism: priced as one");
  add(notes, !row.has_fused_attention, "attention without the fused kernel: priced as fused");
}

void note_layout(Notes& notes, const RowWords& row, const TimedRun& run) {
  const LayoutWords& layout = row.layout;
  add(notes, run.sharded > 1 && layout.sharded <= 1, "weights cannot be held whole: priced as fully sharded");
  add(notes, run.virtual_pipeline > 1 && layout.virtual_pipeline <= 1,
      "interleaving is in the recipe, not in the row: one layer a chunk");
  add(notes, !layout.schedule.empty() && layout.schedule != "1f1b", "pipeline schedule: priced as 1F1B");
  add(notes, layout.shards_optimizer == false, "optimizer state is held whole: priced as sharded");
  add(notes, row.global_batch % (run.micro_batch * run.data) != 0,
      "global batch is no whole number of micro-batches: a fraction is priced");
}

void note_precision(Notes& notes, const RowWords& row) {
  add(notes, row.precision == "fp8row", "fp8 with scales by rows: priced as fp8");
  add(notes, row.precision == "mxfp8" || row.precision == "nvfp4", row.precision + ": priced by its peak only");
}

void note_recompute(Notes& notes, const RecomputeWords& recompute, const TimedRun& run) {
  const bool is_by_stage = recompute.granularity.starts_with("[") && run.recomputed.layers > 0;
  add(notes, recompute.granularity.empty(), "recompute not stated: priced as none");
  if (!is_by_stage && !is_among(kGranularities, recompute.granularity))
    notes.push_back(fmt::format("recompute {}: priced as none", quoted(recompute.granularity)));
  add(notes, is_by_stage, "layers recomputed differ between stages: priced as their mean");
  if (recompute.granularity == "selective" && !recompute.modules)
    notes.emplace_back("modules recomputed not stated: core_attn assumed");
  for (const RecomputedModule& module : run.recomputed.modules)
    if (!is_among(kModules, module.name))
      notes.push_back(fmt::format("recompute of {} is not priced", quoted(module.name)));
  add(notes, !recompute.select.empty() && recompute.select != "False", "recompute of chosen operators is not priced");
}

void note_overlap(Notes& notes, const RowWords& row, const Software& software) {
  const OverlapWords& overlap = row.overlap;
  add(notes, overlap.is_moe, "overlap of the exchange between experts is not priced");
  add(notes, overlap.is_tensor && software.tensor_hidden == 0, "overlap of tensor parallel traffic is not priced");
  add(notes, overlap.is_gradient_reduce == false && software.exchange_hidden > 0,
      "gradients are not exchanged beside compute: priced as if they were");
  add(notes, overlap.is_deterministic, "deterministic kernels: priced as the usual ones");
  if (std::ranges::any_of(overlap.captured, [](const auto& module) { return !is_among(kCaptured, module); }))
    notes.emplace_back("CUDA graphs beyond router and preparation are not priced");
}

}  // namespace

std::vector<std::string> notes_of(const RowWords& row, const TimedRun& run, const Software& software) {
  Notes notes;
  note_model(notes, row, run);
  note_layout(notes, row, run);
  note_precision(notes, row);
  note_recompute(notes, row.recompute, run);
  note_overlap(notes, row, software);
  return notes;
}

}  // namespace tidemark::step_time
