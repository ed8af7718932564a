#include "planner/layout/exact_search.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "planner/layout/exact_parts.h"

namespace tidemark::layout {
namespace {

// Beyond this a tree of blocks hardly ever comes to an end, and its conflicts fill the memory.
constexpr std::size_t kMostBlocks = 2000;
constexpr std::size_t kMostParts = 8 * kMostBlocks;
constexpr std::int64_t kStepsPerUnit = 200;
constexpr std::size_t kPairsPerUnit = 200;
// Of a restart: enough to come to the end a few times, but not to stay with a bad beginning.
constexpr std::int64_t kFirstNodes = 1000;
constexpr std::int64_t kNodesPerBlock = 3;
constexpr double kGrowth = 1.1;

// What a block is worth, and how that is weighed: every pair in turn.
enum class Worth : std::uint8_t { life, sections, area };
constexpr std::array kWorths = {Worth::area, Worth::sections, Worth::life};
constexpr std::size_t kWays = 4;
constexpr std::size_t kTurns = kWays * kWorths.size();

// Our own, so that the same numbers come everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// Restarts of the tree, each with another choice and what the ones before have learned about who is hard to place.
class Restarts {
 public:
  Restarts(const ExactSections& sections, std::span<const PackItem> hulls, Bytes capacity)
      : sections_(sections),
        hulls_(hulls.begin(), hulls.end()),
        state_(sections, capacity),
        possible_(state_.start()) {}

  FitStatus run(std::size_t round, std::int64_t nodes, std::int64_t steps, const std::function<bool()>& should_stop) {
    if (!possible_) return FitStatus::infeasible;
    const std::size_t way = round / kWorths.size() % kWays;
    const Worth kind = kWorths[round % kWorths.size()];
    ExactTree::Choice choice{.worth = {}, .over_slack = way % 2 == 1, .few_first = way >= 2};
    for (std::uint32_t block = 0; block < sections_.blocks(); ++block) {
      const double shake = round < kTurns ? 1.0 : 0.7 + 0.6 * random_.next();
      choice.worth.push_back(worth(kind, block) * shake);
    }
    const FitStatus status = ExactTree(state_, choice, should_stop).run(nodes, steps);
    forget();
    return status;
  }
  [[nodiscard]] const ExactState& state() const { return state_; }

 private:
  [[nodiscard]] double worth(Worth kind, std::uint32_t block) const {
    const auto runs = sections_.runs(block);
    const auto life = static_cast<double>(hulls_[block].life());
    if (kind == Worth::life) return life;
    if (kind == Worth::sections) return runs.back().last - runs.front().first;
    return life * static_cast<double>(sections_.height(block));
  }
  void forget() {
    for (double& blame : state_.blame.sections) blame = 0.5 + 0.5 * blame;
    for (double& blame : state_.blame.blocks) blame = 0.5 + 0.5 * blame;
  }

  const ExactSections& sections_;
  std::vector<PackItem> hulls_;
  ExactState state_;
  bool possible_ = false;
  Random random_{88172645463325252ULL};
};

FitAnswer fit_group(const Blocks& blocks, const ExactSections& sections, std::span<const std::uint32_t> rows,
                    Bytes capacity, const FitLimits& limits) {
  std::vector<PackItem> hulls;
  for (const std::uint32_t row : rows) hulls.push_back(blocks.hulls()[row]);
  Restarts restarts(sections, hulls, capacity);
  FitAnswer answer;
  double nodes = static_cast<double>(std::max(kFirstNodes, kNodesPerBlock * static_cast<std::int64_t>(rows.size())));
  for (std::size_t round = 0; answer.status == FitStatus::undecided; ++round) {
    const std::int64_t left = limits.work * kStepsPerUnit - restarts.state().steps();
    if (left <= 0 || (limits.should_stop && limits.should_stop())) break;
    answer.status = restarts.run(round, static_cast<std::int64_t>(nodes), left, limits.should_stop);
    if (round % kTurns == kTurns - 1) nodes *= kGrowth;
  }
  answer.work = restarts.state().steps() / kStepsPerUnit + 1;
  if (answer.status == FitStatus::placed) answer.addresses = restarts.state().addresses();
  if (answer.status == FitStatus::infeasible && !sections.complete()) answer.status = FitStatus::undecided;
  return answer;
}

// Two groups that look the same can be packed the same way.
std::vector<Bytes> looks(const ExactSections& sections) {
  std::vector<Bytes> looks;
  for (std::size_t block = 0; block < sections.blocks(); ++block) {
    looks.insert(looks.end(), {sections.height(block), sections.alignment(block), sections.fixed(block)});
    for (const auto& run : sections.runs(block)) looks.insert(looks.end(), {run.first, run.last, run.bytes});
  }
  return looks;
}

// The same search whatever the order in which blocks are named.
std::vector<std::uint32_t> in_order_of_time(const Blocks& blocks, std::vector<std::uint32_t> rows) {
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t row) {
    const PackItem& hull = blocks.hulls()[row];
    return std::tuple(hull.begin, hull.end, -hull.bytes);
  });
  return rows;
}

}  // namespace

FitAnswer fit(const Blocks& blocks, Bytes capacity, const FitLimits& limits) {
  FitAnswer answer{.status = FitStatus::placed, .addresses = std::vector<Bytes>(blocks.size(), 0), .work = 0};
  const auto groups = independent_groups(blocks);
  const FitAnswer given_up{.status = FitStatus::undecided, .addresses = {}, .work = limits.work};
  std::int64_t work = 0;  // to find out who conflicts with whom
  for (const auto& rows : groups) {
    std::size_t parts = 0;  // there are as many sections, each with most of the blocks
    for (const std::uint32_t row : rows) parts += blocks.parts(row).size();
    if (rows.size() > kMostBlocks || parts > kMostParts) return given_up;
    work += static_cast<std::int64_t>(parts * rows.size() / kPairsPerUnit);
  }
  if (work > limits.work) return given_up;
  answer.work = work;
  std::map<std::vector<Bytes>, std::vector<Bytes>> seen;
  for (const auto& group : groups) {
    const auto rows = in_order_of_time(blocks, group);
    const ExactSections sections(blocks, rows);
    auto [known, first] = seen.try_emplace(looks(sections));
    if (first) {
      FitAnswer part = fit_group(blocks, sections, rows, capacity,
                                 {.work = limits.work - answer.work, .should_stop = limits.should_stop});
      answer.work += part.work;
      if (part.status != FitStatus::placed) return {.status = part.status, .addresses = {}, .work = answer.work};
      known->second = std::move(part.addresses);
    }
    for (std::size_t r = 0; r < rows.size(); ++r) answer.addresses[rows[r]] = known->second[r];
  }
  return answer;
}

}  // namespace tidemark::layout
