// The exact search against every order of placement on small problems, and on large ones that are known to fit.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "planner/layout/check_packing.h"
#include "planner/layout/exact_cause.h"
#include "planner/layout/exact_search.h"
#include "tests/support/data.h"

namespace tidemark::layout {
namespace {

Bytes aligned(const PackProblem& problem, std::size_t i) {
  return round_up(problem.items[i].bytes, problem.alignment);
}

// The least height by brute force: every order of the blocks, each at the lowest address that clashes with nothing
// placed. Some order gives it: that of the addresses in a packing whose addresses have the least sum.
class EveryOrder {
 public:
  explicit EveryOrder(const PackProblem& problem) : problem_(problem) {
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
      const PackItem& item = problem.items[i];
      if (item.bytes == 0 || item.begin >= item.end) continue;
      const int number = problem.block_of.empty() ? static_cast<int>(i) : problem.block_of[i];
      const auto known = static_cast<std::size_t>(std::ranges::find(numbers_, number) - numbers_.begin());
      if (known == numbers_.size()) {
        numbers_.push_back(number);
        blocks_.emplace_back();
      }
      blocks_[known].push_back(i);
    }
  }

  Bytes least() {
    offsets_.assign(problem_.items.size(), -1);
    left_.assign(blocks_.size(), 1);
    Bytes height = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (fixed(b) == kAnywhere) continue;
      height = std::max(height, put(b, fixed(b)));
      left_[b] = 0;
    }
    least_ = 1 << 20;
    descend(height);
    return least_;
  }

 private:
  void descend(Bytes height) {
    if (height >= least_) return;
    bool all = true;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (left_[b] == 0) continue;
      all = false;
      left_[b] = 0;
      Bytes address = 0;
      while (clashes(b, address)) ++address;
      descend(std::max(height, put(b, address)));
      for (const std::size_t i : blocks_[b]) offsets_[i] = -1;
      left_[b] = 1;
    }
    if (all) least_ = height;
  }
  [[nodiscard]] Bytes fixed(std::size_t b) const {
    for (const std::size_t i : blocks_[b]) {
      if (!problem_.fixed_offset.empty() && problem_.fixed_offset[i] != kAnywhere) return problem_.fixed_offset[i];
    }
    return kAnywhere;
  }
  Bytes put(std::size_t b, Bytes address) {
    Bytes top = 0;
    for (const std::size_t i : blocks_[b]) {
      offsets_[i] = address;
      top = std::max(top, address + aligned(problem_, i));
    }
    return top;
  }
  [[nodiscard]] bool clashes(std::size_t b, Bytes address) const {
    for (const std::size_t i : blocks_[b]) {
      if (address % problem_.alignment != 0) return true;
      if (!problem_.own_alignment.empty() && address % problem_.own_alignment[i] != 0) return true;
      for (std::size_t j = 0; j < offsets_.size(); ++j) {
        if (offsets_[j] < 0 || !together(i, j)) continue;
        if (address < offsets_[j] + aligned(problem_, j) && offsets_[j] < address + aligned(problem_, i)) return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool together(std::size_t i, std::size_t j) const {
    const PackItem& a = problem_.items[i];
    const PackItem& b = problem_.items[j];
    if (a.begin < b.end && b.begin < a.end) return true;
    return std::ranges::any_of(problem_.apart, [&](const auto& pair) {
      return std::pair(static_cast<std::size_t>(pair.first), static_cast<std::size_t>(pair.second)) ==
                 std::pair(i, j) ||
             std::pair(static_cast<std::size_t>(pair.second), static_cast<std::size_t>(pair.first)) == std::pair(i, j);
    });
  }

  const PackProblem& problem_;
  std::vector<int> numbers_;
  std::vector<std::vector<std::size_t>> blocks_;
  std::vector<Bytes> offsets_;
  std::vector<char> left_;
  Bytes least_ = 0;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  bool one_in(int count) { return below(count) == 0; }

  PackProblem plain(int count, int clock, int largest) {
    PackProblem problem;
    for (int i = 0; i < count; ++i) {
      const int begin = below(clock);
      problem.items.push_back({begin, begin + 1 + below(clock - begin), 1 + below(largest)});
    }
    return problem;
  }

  /// Alignments, gaps and storages written in place, fixed addresses and pairs kept apart, each now and then.
  PackProblem any() {
    PackProblem problem = plain(3 + below(5), 3 + below(7), 1 + below(9));
    const auto count = static_cast<int>(problem.items.size());
    if (one_in(4)) problem.alignment = 1 + below(3);
    if (one_in(3)) {
      for (int i = 0; i < count; ++i) problem.block_of.push_back(one_in(3) ? below(count) : count + i);
    }
    if (one_in(4)) {
      for (int i = 0; i < count; ++i) problem.own_alignment.push_back(1 + below(4));
    }
    if (one_in(4)) {
      for (int i = 0; i < count; ++i)
        problem.fixed_offset.push_back(one_in(4) ? below(9) * problem.alignment : kAnywhere);
    }
    if (one_in(3)) {
      for (int pairs = 1 + below(3); pairs > 0; --pairs) problem.apart.emplace_back(below(count), below(count));
    }
    return find_contradiction(problem) ? any() : problem;
  }

 private:
  std::mt19937 random_;
};

// Boxes that fill a rectangle: it is cut in two, or into five around a middle one, until there are enough.
PackProblem cut_rectangle(Draw& draw, std::size_t count, int clock, int height) {
  struct Box {
    int begin, end, low, high;
  };
  std::vector<Box> boxes{{0, clock, 0, height}};
  while (boxes.size() < count) {
    const auto row = static_cast<std::size_t>(draw.below(static_cast<int>(boxes.size())));
    const Box box = boxes[row];
    if (box.end - box.begin < 4 || box.high - box.low < 4) continue;
    const int time = box.begin + 1 + draw.below(box.end - box.begin - 2);
    const int level = box.low + 1 + draw.below(box.high - box.low - 2);
    if (draw.one_in(3)) {
      const int time2 = time + 1 + draw.below(box.end - time - 1);
      const int level2 = level + 1 + draw.below(box.high - level - 1);
      boxes[row] = {time, time2, level, level2};
      boxes.push_back({box.begin, time, box.low, level2});
      boxes.push_back({box.begin, time2, level2, box.high});
      boxes.push_back({time2, box.end, level, box.high});
      boxes.push_back({time, box.end, box.low, level});
    } else if (draw.one_in(2)) {
      boxes[row].end = time;
      boxes.push_back({time, box.end, box.low, box.high});
    } else {
      boxes[row].high = level;
      boxes.push_back({box.begin, box.end, level, box.high});
    }
  }
  PackProblem problem;
  for (const Box& box : boxes) problem.items.push_back({box.begin, box.end, box.high - box.low});
  return problem;
}

// id,lower,upper,size
PackProblem read_problem(const std::filesystem::path& path) {
  std::ifstream file(path);
  PackProblem problem;
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream cells(line);
    std::string id;
    PackItem item;
    cells >> id >> item.begin >> item.end >> item.bytes;
    problem.items.push_back(item);
  }
  return problem;
}

std::string fault_of(const PackProblem& problem, const Packing& packing) {
  return find_fault(problem, packing).value_or("");
}

TEST(ExactSearch, AgreesWithEveryOrderOnSmallProblems) {
  Draw draw(1);
  int decided = 0;
  for (int round = 0; round < 700; ++round) {
    const PackProblem problem = draw.any();
    const Bytes least = EveryOrder(problem).least();
    const Blocks blocks(problem);
    const FitAnswer fits = fit(blocks, least, {});
    const FitAnswer below = fit(blocks, least - 1, {});
    // Whole blocks are kept apart where the pair names one of their items only: then too little may be found.
    if (problem.apart.empty() || problem.block_of.empty()) {
      ASSERT_EQ(fits.status, FitStatus::placed) << "round " << round;
      ASSERT_EQ(below.status, FitStatus::infeasible) << "round " << round;
      ++decided;
    }
    ASSERT_NE(fits.status, FitStatus::infeasible) << "round " << round;
    ASSERT_NE(below.status, FitStatus::placed) << "round " << round;
    if (fits.status != FitStatus::placed) continue;
    const Packing packing = blocks.packing(fits.addresses);
    ASSERT_EQ(fault_of(problem, packing), "") << "round " << round;
    ASSERT_EQ(packing.height_bytes, least) << "round " << round;
  }
  EXPECT_GT(decided, 500);
}

// Three blocks of two items, wherever they lie.
Bytes least_of_all_addresses(const PackProblem& problem) {
  Bytes least = 1 << 20;
  constexpr Bytes kHighest = 16;
  Packing packing{.offsets = std::vector<Bytes>(6), .height_bytes = 0};
  for (Bytes code = 0; code < kHighest * kHighest * kHighest; ++code) {
    const Bytes address[] = {code % kHighest, code / kHighest % kHighest, code / kHighest / kHighest};
    packing.height_bytes = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      packing.offsets[i] = address[i / 2] + problem.shift[i];
      packing.height_bytes = std::max(packing.height_bytes, packing.offsets[i] + problem.items[i].bytes);
    }
    if (packing.height_bytes < least && !find_fault(problem, packing)) least = packing.height_bytes;
  }
  return least;
}

TEST(ExactSearch, NeverCallsImpossibleWhatBeginsWithinItsBlock) {
  Draw draw(2);
  int fits_closer = 0;  // one block within the step of another, as the search does not try
  for (int round = 0; round < 150; ++round) {
    PackProblem problem = draw.plain(6, 5, 5);
    problem.block_of = {0, 0, 1, 1, 2, 2};
    for (int i = 0; i < 6; ++i) problem.shift.push_back(i % 2 == 0 ? 0 : draw.below(4));
    const Blocks blocks(problem);
    const Bytes least = least_of_all_addresses(problem);
    for (Bytes capacity = packing_load(problem) - 1; capacity < 20; ++capacity) {
      const FitAnswer answer = fit(blocks, capacity, {});
      ASSERT_FALSE(answer.status == FitStatus::infeasible && capacity >= least) << "round " << round;
      fits_closer += answer.status == FitStatus::undecided && capacity >= least ? 1 : 0;
      if (answer.status != FitStatus::placed) continue;
      const Packing packing = blocks.packing(answer.addresses);
      ASSERT_EQ(fault_of(problem, packing), "") << "round " << round;
      ASSERT_LE(packing.height_bytes, capacity) << "round " << round;
    }
  }
  EXPECT_GT(fits_closer, 0);
}

TEST(ExactSearch, PutsRectanglesTogetherAgain) {
  Draw draw(3);
  for (int round = 0; round < 40; ++round) {
    const PackProblem problem = cut_rectangle(draw, 60, 200, 200);
    const Blocks blocks(problem);
    const FitAnswer answer = fit(blocks, 200, {.work = 400'000, .should_stop = {}});
    ASSERT_EQ(answer.status, FitStatus::placed) << "round " << round;
    EXPECT_EQ(fault_of(problem, blocks.packing(answer.addresses)), "");
  }
}

TEST(ExactSearch, DoesNotCareHowBlocksAreNamed) {
  Draw draw(9);
  PackProblem problem = cut_rectangle(draw, 250, 400, 400);
  const FitAnswer one = fit(Blocks(problem), 400, {});
  std::ranges::reverse(problem.items);
  const FitAnswer other = fit(Blocks(problem), 400, {});
  EXPECT_EQ(other.status, one.status);
  EXPECT_EQ(other.work, one.work);
}

TEST(ExactSearch, PacksThePublicInstancesWithoutSlack) {
  const auto folder = testing::data_path("minimalloc");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  for (const char* name : {"A", "B", "C", "D", "E", "F", "K"}) {
    const PackProblem problem = read_problem(*folder / (std::string(name) + ".1048576.csv"));
    const Blocks blocks(problem);
    const FitAnswer answer = fit(blocks, 1 << 20, {.work = 2'000'000, .should_stop = {}});
    ASSERT_EQ(answer.status, FitStatus::placed) << name;
    const Packing packing = blocks.packing(answer.addresses);
    EXPECT_EQ(fault_of(problem, packing), "") << name;
    EXPECT_LE(packing.height_bytes, 1 << 20) << name;
  }
}

TEST(ExactSearch, SolvesWhatLooksTheSameOnce) {
  Draw draw(4);
  const PackProblem once = cut_rectangle(draw, 60, 200, 200);
  PackProblem often;
  for (int copy = 0; copy < 50; ++copy) {
    for (const PackItem& item : once.items)
      often.items.push_back({item.begin + 200 * copy, item.end + 200 * copy, item.bytes});
  }
  const FitAnswer one = fit(Blocks(once), 200, {});
  const FitAnswer all = fit(Blocks(often), 200, {});
  ASSERT_EQ(all.status, FitStatus::placed);
  EXPECT_EQ(fault_of(often, Blocks(often).packing(all.addresses)), "");
  EXPECT_LE(all.work, one.work + 50 * 60);
}

TEST(ExactSearch, TriesBlocksThatDifferInNothingInOneOrderOnly) {
  // Twelve of the same kind leave a hole too small for anything else: no order of theirs changes that.
  PackProblem problem;
  for (int i = 0; i < 12; ++i) problem.items.push_back({0, 10, 7});
  for (int i = 0; i < 3; ++i) problem.items.push_back({2 * i, 2 * i + 1, 5});
  problem.items.push_back({0, 3, 4});
  problem.items.push_back({2, 6, 4});
  const Bytes load = packing_load(problem);
  const FitAnswer answer = fit(Blocks(problem), load - 1, {});
  EXPECT_EQ(answer.status, FitStatus::infeasible);
  EXPECT_LE(answer.work, 1000);
}

TEST(ExactSearch, GivesUpWhereItCannotEnd) {
  Draw draw(5);
  const PackProblem large = draw.plain(5000, 100, 1000);
  EXPECT_EQ(fit(Blocks(large), packing_load(large), {}).status, FitStatus::undecided);
  const PackProblem hard = cut_rectangle(draw, 300, 1000, 1000);
  const FitAnswer little = fit(Blocks(hard), 1000, {.work = 600, .should_stop = {}});
  EXPECT_EQ(little.status, FitStatus::undecided);
  EXPECT_LE(little.work, 700);
  EXPECT_EQ(fit(Blocks(hard), 1000, {.should_stop = [] { return true; }}).status, FitStatus::undecided);
}

TEST(ExactPacker, FindsTheLeastHeightAndProvesIt) {
  Draw draw(6);
  const Packer& exact = *find_packer("exact");
  for (int round = 0; round < 400; ++round) {
    const PackProblem problem = draw.any();
    if (!problem.apart.empty() && !problem.block_of.empty()) continue;
    const PackAnswer answer = exact.pack(problem, {});
    ASSERT_EQ(fault_of(problem, answer.packing), "") << "round " << round;
    ASSERT_EQ(answer.packing.height_bytes, EveryOrder(problem).least()) << "round " << round;
    ASSERT_EQ(answer.bound_bytes, answer.packing.height_bytes) << "round " << round;
    ASSERT_EQ(answer.status, PackStatus::optimal) << "round " << round;
  }
}

TEST(ExactPacker, MoreWorkIsNeverHigher) {
  Draw draw(7);
  for (int round = 0; round < 5; ++round) {
    const PackProblem problem = draw.plain(60, 40, 1000);
    Bytes before = Bytes{1} << 40;
    for (const std::int64_t work : {0, 1000, 5000, 30'000, 100'000}) {
      const PackAnswer answer = find_packer("exact")->pack(problem, {.work = work});
      EXPECT_EQ(fault_of(problem, answer.packing), "");
      EXPECT_LE(answer.packing.height_bytes, before);
      EXPECT_LE(answer.bound_bytes, answer.packing.height_bytes);
      before = answer.packing.height_bytes;
    }
  }
}

TEST(ExactPacker, NamesWhatCannotFit) {
  Draw draw(8);
  int tight = 0;  // where not the bytes alone are too many
  for (int round = 0; round < 400; ++round) {
    const PackProblem problem = draw.any();
    const Bytes least = EveryOrder(problem).least();
    if (least < 2 || !problem.block_of.empty()) continue;
    tight += least > packing_load(problem) ? 1 : 0;
    const PackAnswer answer = find_packer("exact")->pack(problem, {.enough_bytes = least - 1});
    ASSERT_EQ(answer.status, PackStatus::infeasible);
    ASSERT_EQ(fault_of(problem, answer.packing), "");
    const auto least_of = [&](std::size_t left_out) {
      PackProblem part = problem;
      for (PackItem& item : part.items) item.bytes = 0;
      for (std::size_t r = 0; r < answer.cannot_fit.size(); ++r) {
        const auto i = static_cast<std::size_t>(answer.cannot_fit[r]);
        if (r != left_out) part.items[i].bytes = problem.items[i].bytes;
      }
      return EveryOrder(part).least();
    };
    ASSERT_GE(least_of(answer.cannot_fit.size()), least) << "round " << round;
    for (std::size_t r = 0; r < answer.cannot_fit.size(); ++r) ASSERT_LT(least_of(r), least) << "round " << round;
  }
  EXPECT_GT(tight, 5);
}

}  // namespace
}  // namespace tidemark::layout
