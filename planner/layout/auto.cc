// The default: orders side by side.

#include <algorithm>
#include <atomic>

#include "planner/layout/packer.h"
#include "planner/parallel.h"

namespace tidemark {
namespace {

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  std::vector<const Packer*> orders;
  for (const Packer& packer : packers()) {
    if (packer.is_order) orders.push_back(&packer);
  }
  std::vector<PackAnswer> answers(orders.size());
  // The first order that is low enough wins, so whatever stands behind it in the table need not run. The first one runs
  // alone: where it is, as it mostly is, nobody else's time is spent.
  std::atomic<std::size_t> winner{orders.size()};
  const auto run = [&](std::size_t o) {
    if (winner.load() < o) return;
    answers[o] = orders[o]->pack(problem, limits);
    if (answers[o].status != PackStatus::optimal && answers[o].packing.height_bytes > limits.enough_bytes) return;
    for (std::size_t seen = winner.load(); o < seen && !winner.compare_exchange_weak(seen, o);) {
    }
  };
  run(0);
  parallel_for_each(1, orders.size(), run);
  if (winner.load() < orders.size()) return std::move(answers[winner.load()]);
  return std::move(*std::min_element(answers.begin(), answers.end(), [](const PackAnswer& a, const PackAnswer& b) {
    return a.packing.height_bytes < b.packing.height_bytes;
  }));
}

}  // namespace

extern const Packer kAuto;
const Packer kAuto = {.name = "auto", .help = "several orders side by side; the lowest wins", .pack = pack};

}  // namespace tidemark
