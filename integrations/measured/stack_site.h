#pragma once
// What a call stack tells of the block it allocated: a name that is the same in every run of the same code, and what
// the block is for where frames of PyTorch say so. Pure.
//
// The name is `file:function` of the innermost frame outside PyTorch itself, with the function of PyTorch that was
// called in parentheses: `torchvision/models/resnet.py:forward (batch_norm)`. No line numbers: an edit above a line
// changes nothing. A file is what stands behind `site-packages/` (`dist-packages/`), of others the last two parts of
// the path. PyTorch itself is torch, torch_npu and functorch in such a folder or in a checkout named pytorch, generated
// code (`<string>`, torchinductor's), and whatever is no Python file.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/attributed_trace.h"
#include "planner/budget/holdings.h"

namespace tidemark::measured {

/// Part of a step as frames tell it.
enum class SiteKind : std::uint8_t {
  unknown,
  parameters,      ///< Module.to() and the like place them, a layer's constructor makes them
  forward,         ///< within the call of a module
  backward,        ///< within loss.backward(), of what runs in that thread
  optimizer_init,  ///< a function that makes the state
  optimizer_step,  ///< within step() and what it calls
  communication,   ///< within torch.distributed's collectives
};

struct StackSite {
  std::string name;  ///< at most 200 bytes, UTF-8 without control characters
  SiteKind kind = SiteKind::unknown;
  friend bool operator==(const StackSite&, const StackSite&) = default;
};

/// Where no frame of Python was recorded, as in backward's own threads.
inline constexpr std::string_view kNoFrame = "no Python frame";

/// As many as stacks. Looks at each frame once, however many stacks share it.
[[nodiscard]] std::vector<StackSite> sites_of(const std::vector<formats::StackFrame>& frames,
                                              const std::vector<formats::CallStack>& stacks);

/// The category that a kind tells by itself; of an optimizer's step it is `temporaries`.
[[nodiscard]] budget::Category category_of(SiteKind kind);

/// A text of a source as a storage's name: at most 200 bytes, UTF-8, no control characters.
[[nodiscard]] std::string name_of(std::string_view text);

/// The same for words that a user set, without numbers that stand alone between `.`, `/`, `_`, `-`, `:` and blanks:
/// `layers.17.mlp` is `layers.mlp`, `step 12` is `step`.
[[nodiscard]] std::string name_without_numbers(std::string_view text);

}  // namespace tidemark::measured
