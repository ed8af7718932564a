#include "integrations/measured/trace_storages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "integrations/measured/rank_measure.h"
#include "integrations/measured/stack_site.h"

namespace tidemark::measured {
namespace {

using budget::Category;
using Action = formats::AllocationTrace::Action;

/// What an origin tells once and for all.
struct Site {
  std::string name;
  Category category = Category::other;
  bool is_told = false;            ///< the category is the source's own
  bool is_optimizer_step = false;  ///< and the category is not
};

/// Words of torch.profiler's memory categories (torch/profiler/_memory_profiler.py, Category), and ours.
std::optional<Category> category_named(std::string_view word) {
  using Row = std::pair<std::string_view, Category>;
  constexpr auto kWords = std::to_array<Row>({{"parameter", Category::parameters},
                                              {"gradient", Category::gradients},
                                              {"activation", Category::activations},
                                              {"input", Category::activations},
                                              {"autograd_detail", Category::activations},
                                              {"temporary", Category::temporaries}});
  const auto found = std::ranges::find(kWords, word, &Row::first);
  if (found != kWords.end()) return found->second;
  const auto own = std::ranges::find(budget::kCategoryWords, word);
  if (own == budget::kCategoryWords.end()) return std::nullopt;
  return static_cast<Category>(own - budget::kCategoryWords.begin());
}

/// Operators of torch.distributed and of HCCL say so in their names: `c10d::allreduce_`, `HcclAllreduce`.
Category category_of_operator(std::string_view name) {
  const bool is_collective = name.starts_with("c10d::") || name.starts_with("_c10d_functional::") ||
                             name.starts_with("Hccl") || name.starts_with("hccl") || name.starts_with("hcom_");
  return is_collective ? Category::communication : Category::other;
}

class Sites {
 public:
  explicit Sites(const formats::AttributedTrace& run) : run_(run), stacks_(sites_of(run.frames, run.stacks)) {
    for (const formats::BlockOrigin& origin : run.origins) sites_.push_back(site_of_origin(origin));
  }

  /// Of a block; nothing is told of it: where it was at the start decides.
  [[nodiscard]] Site site_of_block(std::int32_t block) const {
    const std::int32_t origin = run_.origin_of[static_cast<std::size_t>(block)];
    if (origin >= 0) return sites_[static_cast<std::size_t>(origin)];
    if (block < run_.trace.live_at_start) return {.name = std::string(kBefore)};
    return {.name = std::string(run_.trace.source == "snapshot" ? kNoFrame : "no operator named")};
  }

  /// Of the stack that allocated the block. Backward runs in threads without a frame of Python: where other stacks were
  /// recorded, none means one of them.
  [[nodiscard]] SiteKind kind_of(std::int32_t block) const {
    const std::int32_t origin = run_.origin_of[static_cast<std::size_t>(block)];
    const std::int32_t stack = origin < 0 ? -1 : run_.origins[static_cast<std::size_t>(origin)].stack;
    if (stack >= 0) return stacks_[static_cast<std::size_t>(stack)].kind;
    const bool is_recorded = !stacks_.empty() && block >= run_.trace.live_at_start;
    return is_recorded ? SiteKind::backward : SiteKind::unknown;
  }
  [[nodiscard]] bool is_optimizer(std::int32_t block) const {
    const SiteKind kind = kind_of(block);
    return kind == SiteKind::optimizer_step || kind == SiteKind::optimizer_init;
  }

 private:
  /// Words that the user set are the category, `category: name`, or a name.
  [[nodiscard]] Site site_of_origin(const formats::BlockOrigin& origin) const {
    Site site{.name = std::string(kNoFrame)};
    if (origin.stack >= 0) {
      const StackSite& stack = stacks_[static_cast<std::size_t>(origin.stack)];
      site = {.name = stack.name,
              .category = category_of(stack.kind),
              .is_optimizer_step = stack.kind == SiteKind::optimizer_step};
    } else if (!origin.label.empty()) {
      site.category = category_of_operator(origin.label);
    }
    std::string_view label = origin.label;
    std::optional<Category> told = category_named(origin.category);
    const std::size_t colon = std::min(label.find(':'), label.size());
    if (const auto word = category_named(label.substr(0, colon)); word && !label.substr(colon).starts_with("::")) {
      if (!told) told = word;
      label.remove_prefix(std::min(colon + 1, label.size()));
    }
    // Operators (`aten::mm`) are names as they are; a user's words may count steps and layers.
    if (const std::string name = origin.stack < 0 ? name_of(label) : name_without_numbers(label); !name.empty())
      site.name = name;
    if (told) {
      site.category = *told;
      site.is_told = true;
      site.is_optimizer_step = false;
    }
    return site;
  }

  const formats::AttributedTrace& run_;
  std::vector<StackSite> stacks_;
  std::vector<Site> sites_;
};

/// Positions, from 1, of the last allocations up to the peak, one by an optimizer and one by anything else; 0: none.
struct LastEvents {
  std::size_t optimizer = 0, other = 0;
};

LastEvents last_events(const formats::AttributedTrace& run, const TracePeak& peak, const Sites& sites) {
  LastEvents last;
  for (std::size_t i = 0; i < peak.events; ++i) {
    const formats::AllocationTrace::Event& event = run.trace.events[i];
    if (event.action == Action::alloc) (sites.is_optimizer(event.block) ? last.optimizer : last.other) = i + 1;
  }
  return last;
}

/// What a block is once the time it has lived is looked at: a step's own memory that is still there when something else
/// allocates is the optimizer's state, and what backward left behind when an optimizer allocates is a gradient.
Site aged(Site site, SiteKind kind, std::size_t birth, const LastEvents& last) {
  if (site.is_optimizer_step && (birth == 0 || birth < last.other)) site.category = Category::optimizer_state;
  if (!site.is_told && kind == SiteKind::backward && birth < last.optimizer) {
    site.category = Category::gradients;
    if (site.name == kNoFrame) site.name = kLeftByBackward;
  }
  return site;
}

/// By block: the position, from 1, of the event that allocates it; 0 of what is live at the start.
std::vector<std::size_t> births_of(const formats::AllocationTrace& trace) {
  std::vector<std::size_t> births(trace.blocks.size(), 0);
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (trace.events[i].action == Action::alloc) births[static_cast<std::size_t>(trace.events[i].block)] = i + 1;
  return births;
}

/// A row a name: where one name has several categories, each says its own.
std::vector<budget::HeldStorage> rows_of(const std::map<std::pair<std::string, Category>, budget::HeldStorage>& held) {
  std::vector<budget::HeldStorage> rows;
  for (auto at = held.begin(); at != held.end(); ++at) {
    const auto next = std::next(at);
    const bool is_shared = (next != held.end() && next->first.first == at->first.first) ||
                           (at != held.begin() && std::prev(at)->first.first == at->first.first);
    rows.push_back(at->second);
    rows.back().name = at->first.first;
    if (is_shared) rows.back().name += fmt::format(" [{}]", budget::word_of(at->first.second));
  }
  std::ranges::sort(rows, {}, &budget::HeldStorage::name);
  std::ranges::stable_sort(rows, std::ranges::greater{}, &budget::HeldStorage::bytes);
  return rows;
}

std::string place_of(const formats::AttributedTrace& run, const TracePeak& peak, const Sites& sites) {
  if (peak.events == 0) return "where the recording begins";
  const std::int32_t block = run.trace.events[peak.events - 1].block;
  return fmt::format("event {} of {}, in {}", peak.events, run.trace.events.size(), sites.site_of_block(block).name);
}

}  // namespace

AttributedPeak attribute(const formats::AttributedTrace& run, const TracePeak& peak) {
  const Sites sites(run);
  const LastEvents last = last_events(run, peak, sites);
  const std::vector<std::size_t> births = births_of(run.trace);
  std::map<std::pair<std::string, Category>, budget::HeldStorage> held;
  for (const std::int32_t block : peak.blocks) {
    const Site site =
        aged(sites.site_of_block(block), sites.kind_of(block), births[static_cast<std::size_t>(block)], last);
    const auto [place, is_new] = held.try_emplace({site.name, site.category});
    place->second.category = site.category;
    place->second.count = is_new ? 1 : place->second.count + 1;
    place->second.bytes += run.trace.blocks[static_cast<std::size_t>(block)].bytes;
  }
  return {.storages = rows_of(held), .place = place_of(run, peak, sites)};
}

}  // namespace tidemark::measured
