#pragma once
// A trace with what its source tells of each allocation beside sizes and times: the call stack or operator that asked
// for it, words of the user, and how much the allocator itself held of the device.
//
//   blocks   0  1  2  3 ...          origin_of  0 -1  2  0 ...   rows of `origins`; -1: nothing is told
//   reserved (event 0: 2 MiB), (event 7: 22 MiB), ...            from that event on, until the next mark

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::formats {

/// Views into the text that was read: it must outlive them.
struct StackFrame {
  std::string_view file;      ///< as the source has it: `/opt/venv/lib/.../torch/nn/functional.py`, `??`
  std::string_view function;  ///< `batch_norm`
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/// Rows of AttributedTrace::frames, innermost first. Not empty.
using CallStack = std::vector<std::int32_t>;

/// Who asked for a block. Views into the text that was read.
struct BlockOrigin {
  std::int32_t stack = -1;    ///< row of AttributedTrace::stacks; -1: none was recorded
  std::string_view label;     ///< the operator, or what the user had set as metadata; empty: none
  std::string_view category;  ///< in the source's own words (`parameter`, `activation`); empty: none
  friend bool operator==(const BlockOrigin&, const BlockOrigin&) = default;
};

struct ReservedMark {
  std::size_t event = 0;  ///< of the trace; its size: behind the last
  Bytes bytes = 0;        ///< held by the allocator from here on, free and in use
  friend bool operator==(const ReservedMark&, const ReservedMark&) = default;
};

struct AttributedTrace {
  AllocationTrace trace;
  std::vector<StackFrame> frames;
  std::vector<CallStack> stacks;
  std::vector<BlockOrigin> origins;
  std::vector<std::int32_t> origin_of;  ///< as many as blocks
  std::vector<ReservedMark> reserved;   ///< ascending by event; empty: the source does not tell
  std::vector<std::string> doubts;      ///< why more may have been held than the trace shows; a line each
};

}  // namespace tidemark::formats
