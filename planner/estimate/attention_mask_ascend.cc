#include "planner/estimate/attention_mask_ascend.h"

#include <algorithm>

namespace tidemark::estimate {
namespace {

constexpr double kCompressed = 2048 * 2048;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Booleans of one mask over the samples of a micro-batch. Padded ones are as long as the longest sample.
double square(const RankView& view) {
  return view.sizes.keys * view.sizes.keys;
}

bool is_of_micro_batch(AttentionMask mask) {
  return mask == AttentionMask::made || mask == AttentionMask::loaded;
}

/// One a sample. Ranks that pass keys on keep the rows of their queries of a mask that is loaded.
double micro_batch_mask(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  const double rows = attention.mask == AttentionMask::loaded ? number(attention.ring) : 1;
  return view.sizes.sequences * square(view) / rows;
}

double held_bytes(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  switch (attention.mask) {
    case AttentionMask::compressed:
      return kCompressed;
    case AttentionMask::whole: {
      // The fused kernel takes one for all samples.
      const double side = number(view.run.model.sequence);
      return side * side * (attention.use_flash ? 1 : view.sizes.sequences);
    }
    case AttentionMask::made:
      return micro_batch_mask(view);
    case AttentionMask::loaded:
      return micro_batch_mask(view) + (attention.ring > 1 ? kCompressed : 0);
  }
  return 0;
}

}  // namespace

Term attention_mask(const RankView& view) {
  // On the host it comes over in parts.
  return {"attention_mask", view.run.model.attention.mask_on_host ? 0 : held_bytes(view), Origin::code,
          "mindspeed/core/transformer/flash_attention/generate_mask/generate_mask.py"};
}

Term waiting_masks(const RankView& view, double in_flight) {
  const bool waits = is_of_micro_batch(view.run.model.attention.mask);
  return {"waiting_masks", waits ? std::max(0.0, in_flight - 1) * micro_batch_mask(view) : 0, Origin::code,
          "mindspeed_llm/training/utils.py: a mask a micro-batch, saved for the backward of its attention"};
}

double mask_making_bytes(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  if (attention.mask != AttentionMask::made) return 0;
  const double samples = view.sizes.sequences;
  // Ones and their triangle, the triangle and its filled copies, those and the booleans, in turn; in fp32 unless padded
  // on the left. reset-attention-mask makes a triangle a sample.
  const double triangles = attention.reset_mask ? samples : 1;
  const double width = attention.padded_left ? 1 : 4;
  return square(view) * std::max({2 * width * triangles, width * (triangles + samples), (width + 1) * samples});
}

}  // namespace tidemark::estimate
