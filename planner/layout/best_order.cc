#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>

#include "planner/layout/packer.h"
#include "planner/threads/parallel.h"

namespace tidemark::layout {
namespace {

// Up to here all orders together take some tens of milliseconds: none is left out, whoever asks to stop.
constexpr std::size_t kAlwaysRun = 20'000;

// Beyond this the first order of the table, which mends what it fails at, is the lowest where there is a height to keep
// to: the others fail somewhere along the clock.
constexpr std::size_t kMostToCompare = 60'000;

std::vector<const Packer*> orders_to_run(bool plain, bool may_be_stopped) {
  std::vector<const Packer*> orders;
  for (const Packer& packer : packers()) {
    // Where blocks are not plain, die_together is this order.
    if (packer.is_order && (plain || packer.name != "long_lives_first")) orders.push_back(&packer);
  }
  if (!may_be_stopped) return orders;
  // The table begins with what wins most often, which takes longest where lives are long.
  std::ranges::reverse(orders);
  std::stable_partition(orders.begin(), orders.end(),
                        [](const Packer* order) { return order->name == "first_fit_start_order"; });
  return orders;
}

}  // namespace

PackAnswer best_order(const PackProblem& problem, const PackLimits& limits) {
  const bool may_be_stopped = limits.should_stop && problem.items.size() > kAlwaysRun;
  PackLimits within = may_be_stopped ? limits : PackLimits{};
  within.enough_bytes = limits.enough_bytes;
  std::vector<const Packer*> orders = orders_to_run(problem.plain(), may_be_stopped);
  std::size_t most = limits.most_orders;
  if (!may_be_stopped && problem.plain() && limits.enough_bytes > 0 && problem.items.size() > kMostToCompare) most = 1;
  orders.resize(std::min(orders.size(), most));
  std::vector<std::optional<PackAnswer>> answers(orders.size());
  // The first order that is low enough wins, so whatever stands behind it need not run. The first one runs alone: where
  // it is, as it mostly is, nobody else's time is spent.
  std::atomic<std::size_t> winner{orders.size()};
  const auto run = [&](std::size_t o) {
    if (winner.load() < o || (o > 0 && may_be_stopped && limits.should_stop())) return;
    answers[o] = orders[o]->pack(problem, within);
    if (answers[o]->status != PackStatus::optimal && answers[o]->packing.height_bytes > limits.enough_bytes) return;
    for (std::size_t seen = winner.load(); o < seen && !winner.compare_exchange_weak(seen, o);) {
    }
  };
  run(0);
  within.useless_bytes = answers[0]->packing.height_bytes;  // of equals the first wins
  threads::parallel_for_each(1, orders.size(), run);
  if (winner.load() < orders.size()) return *std::move(answers[winner.load()]);
  return *std::move(*std::ranges::min_element(answers, {}, [](const std::optional<PackAnswer>& answer) {
    return answer ? answer->packing.height_bytes : std::numeric_limits<Bytes>::max();
  }));
}

}  // namespace tidemark::layout
