#include "planner/plan_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "planner/plan_holdings.h"
#include "planner/storage_names.h"

namespace tidemark::plan {
namespace {

/// Sites that differ only in micro-batch: block, chunk, layer.
using ClassKey = std::tuple<BlockId, std::int32_t, std::int32_t>;

class MoveCounter {
 public:
  explicit MoveCounter(const RankPlan& plan) : graph_(plan.graph), decisions_(plan.decisions) {
    for (const Site& site : graph_.sites)
      micro_batches_[{site.block, site.chunk, site.layer}].push_back(site.micro_batch);
    for (const StorageTemplate& storage : graph_.storage_templates) names_.push_back(storage_name(storage).name);
    block_of_.resize(names_.size(), kNone<BlockId>);
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      const Block& block = graph_.blocks[b];
      const std::size_t first = row(block.first_storage_template);
      std::fill_n(block_of_.begin() + static_cast<std::ptrdiff_t>(first), block.storage_count, id_of<BlockId>(b));
    }
  }

  [[nodiscard]] std::map<std::string, Moves> count() const {
    std::map<std::string, Moves> moves;
    for (const Storage& storage : graph_.storages) ++moves[names_[row(storage.storage_template)]].instances;
    for (const Decision& decision : decisions_.rows) add(decision, moves[names_[row(decision.key.storage_template)]]);
    for (auto& [name, of] : moves)
      for (std::int64_t* counted : {&of.recomputed, &of.swapped, &of.offloaded})
        *counted = std::min(*counted, of.instances);  // more than one gap of an instance may be decided
    return moves;
  }

 private:
  void add(const Decision& decision, Moves& moves) const {
    const GapKey& key = decision.key;
    const auto sites = micro_batches_.find({block_of_[row(key.storage_template)], key.chunk, key.layer});
    if (sites == micro_batches_.end()) return;
    for (const std::int32_t micro_batch : sites->second) {
      const Action action = decisions_.action_of(key, micro_batch);
      if (action == Action::recompute) ++moves.recomputed;
      if (action == Action::swap) ++(key.gap < 0 ? moves.offloaded : moves.swapped);
    }
  }

  const Graph& graph_;
  const Decisions& decisions_;
  std::map<ClassKey, std::vector<std::int32_t>> micro_batches_;
  std::vector<std::string> names_;  ///< per storage template
  std::vector<BlockId> block_of_;   ///< the same
};

struct Verb {
  std::string_view word;
  std::int64_t Moves::*count;
};
constexpr std::array<Verb, 3> kVerbs = {Verb{"recompute", &Moves::recomputed}, Verb{"swap", &Moves::swapped},
                                        Verb{"offload", &Moves::offloaded}};

/// An edit in the making.
struct Change {
  std::set<std::int32_t> ranks;
  bool is_partial = false;
  Bytes saved_bytes = 0;
};

using ChangeKey = std::pair<std::string, std::string_view>;  // storage, verb

std::int64_t moved(const Moves& moves) {
  return moves.recomputed + moves.swapped + moves.offloaded;
}

std::map<std::string, Bytes> bytes_by_name(const PlanRequest& request, const RankPlan& plan) {
  std::map<std::string, Bytes> bytes;
  for (const budget::HeldStorage& held : rank_holdings(request, plan).storages) bytes[held.name] += held.bytes;
  return bytes;
}

void add_changes(const PlanRequest& request, const RankPlan& before, const RankPlan& after,
                 std::map<ChangeKey, Change>& changes) {
  const std::map<std::string, Moves> old_moves = moves_of(before), new_moves = moves_of(after);
  std::map<std::string, Bytes> old_bytes = bytes_by_name(request, before), new_bytes = bytes_by_name(request, after);
  for (const auto& [name, now] : new_moves) {
    const auto known = old_moves.find(name);
    const Moves then = known == old_moves.end() ? Moves{} : known->second;
    const auto note = [&](std::string_view word, std::int64_t count) {
      Change& change = changes[{name, word}];
      change.ranks.insert(after.graph.rank);
      change.is_partial = change.is_partial || count < now.instances;
      change.saved_bytes = std::max(change.saved_bytes, old_bytes[name] - new_bytes[name]);
    };
    for (const Verb& verb : kVerbs)
      if (now.*verb.count > then.*verb.count) note(verb.word, now.*verb.count);
    if (moved(now) < moved(then)) note("keep", now.instances - std::min(now.instances, moved(now)));
  }
}

}  // namespace

std::map<std::string, Moves> moves_of(const RankPlan& plan) {
  return MoveCounter(plan).count();
}

std::vector<budget::Edit> edits_between(const PlanRequest& request, const std::vector<const RankPlan*>& before,
                                        const std::vector<const RankPlan*>& after) {
  std::map<ChangeKey, Change> changes;
  for (std::size_t i = 0; i < before.size(); ++i) add_changes(request, *before[i], *after[i], changes);
  const bool has_ranks = !request.step && request.job.parallel.pipeline > 1;
  std::vector<budget::Edit> edits;
  for (const auto& [key, change] : changes) {
    std::string text = fmt::format("{} {}{}", key.second, change.is_partial ? "part of " : "", key.first);
    if (has_ranks) text += " on pp" + ranges_text(change.ranks);
    edits.push_back({.text = std::move(text), .saved_bytes = change.saved_bytes});
  }
  std::ranges::stable_sort(edits, std::ranges::greater{}, &budget::Edit::saved_bytes);
  return edits;
}

}  // namespace tidemark::plan
