#pragma once
// Who asked for the blocks of a pickled snapshot. Frames that are no dict of two texts are left out: they are shown,
// never relied on. Private to formats.

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "integrations/formats/attributed_trace.h"
#include "integrations/formats/pickle_reader.h"

namespace tidemark::formats {

/// A stack that entries share is read once. The document must outlive it.
class SnapshotOrigins {
 public:
  explicit SnapshotOrigins(const PickleDocument& document) : document_(document) {}

  /// Row of the origin that a dict (an entry of the history, a block of a segment) tells; -1: it tells nothing.
  [[nodiscard]] std::int32_t origin_of(PickleId dict);

  /// Gives all rows to the trace; nothing may be asked any more.
  void move_to(AttributedTrace& run);

 private:
  [[nodiscard]] std::int32_t stack_of(PickleId dict);
  [[nodiscard]] std::int32_t frame_of(PickleId dict);
  [[nodiscard]] std::string_view text_of(PickleId dict, std::string_view key) const;

  const PickleDocument& document_;
  std::map<PickleId, std::int32_t> frame_rows_;  ///< by dict; -1: no frame
  std::map<PickleId, std::int32_t> stack_rows_;  ///< by list of frames; -1: it has none
  std::map<std::tuple<std::int32_t, std::string_view, std::string_view>, std::int32_t> origin_rows_;
  std::vector<StackFrame> frames_;
  std::vector<CallStack> stacks_;
  std::vector<BlockOrigin> origins_;
};

}  // namespace tidemark::formats
