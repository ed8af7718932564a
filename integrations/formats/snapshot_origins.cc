#include "integrations/formats/snapshot_origins.h"

#include <optional>
#include <utility>

namespace tidemark::formats {

std::string_view SnapshotOrigins::text_of(PickleId dict, std::string_view key) const {
  const std::optional<PickleId> id = document_.find(dict, key);
  return id ? document_.find_text(*id).value_or(std::string_view()) : std::string_view();
}

std::int32_t SnapshotOrigins::frame_of(PickleId dict) {
  const auto [place, is_new] = frame_rows_.try_emplace(dict, -1);
  if (!is_new) return place->second;
  const StackFrame read{.file = text_of(dict, "filename"), .function = text_of(dict, "name")};
  if (read.file.empty() || read.function.empty()) return -1;
  place->second = static_cast<std::int32_t>(frames_.size());
  frames_.push_back(read);
  return place->second;
}

std::int32_t SnapshotOrigins::stack_of(PickleId dict) {
  const std::optional<PickleId> list = document_.find(dict, "frames");
  const std::vector<PickleId>* frames = list ? document_.find_items(*list) : nullptr;
  if (frames == nullptr || frames->empty()) return -1;
  const auto [place, is_new] = stack_rows_.try_emplace(*list, -1);
  if (!is_new) return place->second;
  CallStack stack;
  for (const PickleId frame : *frames)
    if (const std::int32_t row = frame_of(frame); row >= 0) stack.push_back(row);
  if (stack.empty()) return -1;
  place->second = static_cast<std::int32_t>(stacks_.size());
  stacks_.push_back(std::move(stack));
  return place->second;
}

std::int32_t SnapshotOrigins::origin_of(PickleId dict) {
  // `user_metadata` is what torch.cuda.memory._set_memory_metadata() had set; `category` is written by
  // torch.cuda._memory_viz.profile_plot() and by tools that fill it in.
  const BlockOrigin origin{
      .stack = stack_of(dict), .label = text_of(dict, "user_metadata"), .category = text_of(dict, "category")};
  if (origin == BlockOrigin{}) return -1;
  const auto [place, is_new] = origin_rows_.try_emplace({origin.stack, origin.label, origin.category},
                                                        static_cast<std::int32_t>(origins_.size()));
  if (is_new) origins_.push_back(origin);
  return place->second;
}

void SnapshotOrigins::move_to(AttributedTrace& run) {
  run.frames = std::move(frames_);
  run.stacks = std::move(stacks_);
  run.origins = std::move(origins_);
}

}  // namespace tidemark::formats
