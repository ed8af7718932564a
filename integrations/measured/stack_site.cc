#include "integrations/measured/stack_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::measured {
namespace {

constexpr std::size_t kMostNameBytes = 200;
constexpr std::size_t kMostPathBytes = 4096;  // PATH_MAX of Linux
constexpr auto kPackages = std::to_array<std::string_view>({"site-packages/", "dist-packages/"});
constexpr auto kTorch = std::to_array<std::string_view>({"torch/", "torch_npu/", "functorch/"});

/// Behind the innermost folder of packages; empty: the file is in none.
std::string_view in_packages(std::string_view file) {
  for (const std::string_view folder : kPackages)
    if (const std::size_t at = file.rfind(folder); at != std::string_view::npos) return file.substr(at + folder.size());
  return {};
}

/// The path below the folder that holds PyTorch; empty: the file is none of PyTorch's.
std::string_view in_torch(std::string_view file) {
  constexpr std::string_view kCheckout = "/pytorch/";
  std::string_view inner = in_packages(file);
  if (inner.empty())
    if (const std::size_t at = file.rfind(kCheckout); at != std::string_view::npos)
      inner = file.substr(at + kCheckout.size());
  const auto leads = [&](std::string_view folder) { return inner.starts_with(folder); };
  return std::ranges::any_of(kTorch, leads) ? inner : std::string_view();
}

bool is_generated(std::string_view file) {
  return file.starts_with('<') || file.find("/torchinductor_") != std::string_view::npos;
}

/// What of a path is the same on every machine.
std::string_view stable_file(std::string_view file) {
  if (const std::string_view inner = in_packages(file); !inner.empty()) return inner;
  const std::size_t last = file.rfind('/');
  if (last == std::string_view::npos || last == 0) return last == 0 ? file.substr(1) : file;
  const std::size_t before = file.rfind('/', last - 1);
  return before == std::string_view::npos ? file : file.substr(before + 1);
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Where the innermost folder of that name begins; npos: there is none on the path.
std::size_t find_folder(std::string_view path, std::string_view name) {
  for (std::size_t at = path.rfind(name); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : path.rfind(name, at - 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || path[at - 1] == '/') && end < path.size() && path[end] == '/') return at;
  }
  return std::string_view::npos;
}

/// Packages beside PyTorch whose optimizers lie in a folder named so, installed or in a checkout:
/// megatron/core/optimizer/optimizer.py, mindspeed/optimizer/distrib_optimizer.py,
/// transformer_engine/pytorch/optimizers/fused_adam.py, apex/optimizers, bitsandbytes/optim.
constexpr auto kWithOptimizers =
    std::to_array<std::string_view>({"megatron", "mindspeed", "transformer_engine", "apex", "bitsandbytes"});

/// The path from the innermost of those packages on; empty: the file is of none.
std::string_view in_known_package(std::string_view file) {
  std::size_t innermost = std::string_view::npos;
  for (const std::string_view package : kWithOptimizers)
    if (const std::size_t at = find_folder(file, package); at != std::string_view::npos)
      innermost = innermost == std::string_view::npos ? at : std::max(innermost, at);
  return innermost == std::string_view::npos ? std::string_view() : file.substr(innermost);
}

bool is_in_optimizer_folder(std::string_view path) {
  return std::ranges::any_of(std::to_array<std::string_view>({"optim", "optimizer", "optimizers"}),
                             [&](std::string_view name) { return find_folder(path, name) != std::string_view::npos; });
}

/// Module._apply() moves parameters and buffers through `convert` or a lambda of to(), cuda(), npu(); layers make
/// theirs in __init__ (torch/nn/modules/*.py).
bool makes_parameters(std::string_view in_torch, std::string_view function) {
  if (is_one_of(in_torch, {"torch/nn/modules/module.py", "torch_npu/utils/_module.py"}))
    return is_one_of(function, {"_apply", "convert", "to_empty"});
  return in_torch.starts_with("torch/nn/modules/") && function == "__init__";
}

/// What one frame tells.
struct FrameFacts {
  SiteKind kind = SiteKind::unknown;
  bool is_guessed = false;   ///< by the name of a folder that is the user's own
  bool makes_state = false;  ///< torch/optim/adam.py has `_init_group`, Megatron's optimizer `__init__` and `_init_...`
  bool applies = false;      ///< a function with a backward of its own: forward and backward both go through this frame
  bool is_python = false;    ///< written by a person
  bool is_torch = false;
};

/// By a place in PyTorch, or in a package whose optimizers are known.
SiteKind kind_of(std::string_view in_torch, const formats::StackFrame& frame) {
  if (is_one_of(in_torch, {"torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py"}))
    return SiteKind::communication;
  if (makes_parameters(in_torch, frame.function)) return SiteKind::parameters;
  // Every call of a module goes through Module._call_impl(), loss.backward() through _engine_run_backward().
  if (in_torch == "torch/nn/modules/module.py" && frame.function == "_call_impl") return SiteKind::forward;
  if (in_torch == "torch/autograd/graph.py" && frame.function == "_engine_run_backward") return SiteKind::backward;
  const bool is_optimizer = is_in_optimizer_folder(in_torch.empty() ? in_known_package(frame.file) : in_torch);
  return is_optimizer ? SiteKind::optimizer_step : SiteKind::unknown;
}

/// Of other files as much of the path counts as is the same on every machine: where a checkout lies says nothing.
bool is_guessed_optimizer(std::string_view in_torch, std::string_view file) {
  return in_torch.empty() && in_known_package(file).empty() && is_in_optimizer_folder(stable_file(file));
}

FrameFacts facts_of(const formats::StackFrame& whole) {
  // A path longer than the system's is none.
  const formats::StackFrame frame{.file = whole.file.substr(0, kMostPathBytes), .function = whole.function};
  FrameFacts facts;
  facts.is_python = frame.file.ends_with(".py") && !is_generated(frame.file);
  if (!facts.is_python) return facts;
  const std::string_view torch = in_torch(frame.file);
  facts.is_torch = !torch.empty();
  facts.kind = kind_of(torch, frame);
  facts.is_guessed = facts.kind == SiteKind::unknown && is_guessed_optimizer(torch, frame.file);
  if (facts.is_guessed) facts.kind = SiteKind::optimizer_step;
  facts.makes_state = facts.kind == SiteKind::optimizer_step && holds(frame.function.substr(0, kMostNameBytes), "init");
  facts.applies = torch == "torch/autograd/function.py" && frame.function == "apply";
  return facts;
}

/// Names and kinds of stacks over the facts of their frames.
class StackReader {
 public:
  explicit StackReader(const std::vector<formats::StackFrame>& frames) : frames_(frames) {
    facts_.reserve(frames.size());
    for (const formats::StackFrame& frame : frames) facts_.push_back(facts_of(frame));
  }

  [[nodiscard]] StackSite site_of(const formats::CallStack& stack) const {
    const auto is_python = [&](std::int32_t frame) { return facts(frame).is_python; };
    const auto is_outside = [&](std::int32_t frame) { return is_python(frame) && !facts(frame).is_torch; };
    const auto caller = std::ranges::find_if(stack, is_outside);
    const auto called = std::find_if(stack.begin(), caller, is_python);
    StackSite site{.name = std::string(kNoFrame), .kind = kind_of_stack(stack)};
    if (caller == stack.end() && called == stack.end()) return site;
    const formats::StackFrame& named = frame(caller == stack.end() ? *called : *caller);
    site.name = fmt::format("{}:{}", stable_file(named.file.substr(0, kMostPathBytes)),
                            named.function.substr(0, kMostNameBytes));
    if (caller != stack.end() && called != caller)
      site.name += fmt::format(" ({})", frame(*called).function.substr(0, kMostNameBytes));
    if (site.kind == SiteKind::backward) site.name += " in backward";
    site.name = name_of(site.name);
    return site;
  }

 private:
  /// The innermost frame that tells anything decides: a module that is called in backward computes its forward anew, a
  /// closure of an optimizer's step does, too.
  [[nodiscard]] SiteKind kind_of_stack(const formats::CallStack& stack) const {
    bool applies = false;
    for (auto at = stack.begin(); at != stack.end(); ++at) {
      const FrameFacts& frame = facts(*at);
      if (frame.is_guessed && is_called_by_module({at, stack.end()})) return SiteKind::forward;
      if (frame.kind == SiteKind::optimizer_step) {
        const auto makes_state = [&](std::int32_t other) { return facts(other).makes_state; };
        return std::ranges::any_of(stack, makes_state) ? SiteKind::optimizer_init : SiteKind::optimizer_step;
      }
      if (frame.kind != SiteKind::unknown) return frame.kind;
      applies = applies || frame.applies;
    }
    return applies ? SiteKind::backward : SiteKind::unknown;  // backward's own threads have no more frames
  }
  /// A model may lie in a folder named optimizer; an optimizer's step is called by no module.
  [[nodiscard]] bool is_called_by_module(std::span<const std::int32_t> outward) const {
    const auto is_certain = [&](std::int32_t row) {
      return facts(row).kind != SiteKind::unknown && !facts(row).is_guessed;
    };
    const auto certain = std::ranges::find_if(outward, is_certain);
    return certain != outward.end() && facts(*certain).kind == SiteKind::forward;
  }
  [[nodiscard]] const formats::StackFrame& frame(std::int32_t row) const {
    return frames_[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] const FrameFacts& facts(std::int32_t row) const { return facts_[static_cast<std::size_t>(row)]; }

  const std::vector<formats::StackFrame>& frames_;
  std::vector<FrameFacts> facts_;
};

}  // namespace

std::string name_of(std::string_view text) {
  std::string name;
  const std::string printable = formats::printable(text.substr(0, 4 * kMostNameBytes));
  for (std::size_t at = 0; at < printable.size();) {
    const std::string_view rest = std::string_view(printable).substr(at);
    const std::size_t size = formats::utf8_size(rest);
    const std::string_view next = size == 0 ? "?" : rest.substr(0, size);
    if (name.size() + next.size() > kMostNameBytes) break;
    name += next;
    at += std::max<std::size_t>(size, 1);
  }
  return name;
}

std::string name_without_numbers(std::string_view text) {
  constexpr std::string_view kBetween = "./_-: ";
  text = text.substr(0, 4 * kMostNameBytes);
  std::string kept;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool is_number = !word.empty() && std::ranges::all_of(word, is_digit);
    // A number goes with the separator before it.
    if (!is_number) kept.append(begin > 0 && !kept.empty() ? 1 : 0, begin > 0 ? text[begin - 1] : ' ').append(word);
    begin = end + 1;
  }
  return name_of(kept);
}

std::vector<StackSite> sites_of(const std::vector<formats::StackFrame>& frames,
                                const std::vector<formats::CallStack>& stacks) {
  const StackReader reader(frames);
  std::vector<StackSite> sites;
  sites.reserve(stacks.size());
  for (const formats::CallStack& stack : stacks) sites.push_back(reader.site_of(stack));
  return sites;
}

budget::Category category_of(SiteKind kind) {
  switch (kind) {
    case SiteKind::parameters:
      return budget::Category::parameters;
    case SiteKind::forward:
      return budget::Category::activations;
    case SiteKind::optimizer_init:
      return budget::Category::optimizer_state;
    case SiteKind::optimizer_step:
      return budget::Category::temporaries;
    case SiteKind::communication:
      return budget::Category::communication;
    case SiteKind::backward:  // gradients and what is needed for them
    case SiteKind::unknown:
      break;
  }
  return budget::Category::other;
}

}  // namespace tidemark::measured
