#pragma once
// The problem of a small step once more, as an integer program for an outside solver: which op runs at which position,
// what is held from one position to the next, what is copied out and in. Shares with the planner the nouns alone.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/planner/decide/flat/reference_step.h"

namespace tidemark::testing {

/// A CPLEX LP file: schedules of at most `positions` runs whose peak is within the budget, at the least cost of runs
/// and copies. REQUIRES: every storage has one writer and is neither held nor resident from the start.
class Milp {
 public:
  Milp(const ReferenceStep& step, Bytes budget, std::int32_t positions) : step_(step), positions_(positions) {
    for (std::int32_t p = 0; p < positions; ++p) {
      runs(p);
      for (std::int32_t s = 0; s < std::ssize(step.storages); ++s) holds(p, s);
      memory(p, budget);
    }
    for (std::int32_t v = 0; v < std::ssize(step.ops); ++v) {
      const bool once = step.ops[index(v)].recompute != ReferenceStep::Recompute::pure;
      rows_ += fmt::format("{} {} 1\n", sum_of_runs({v}, 0, positions), once ? "=" : ">=");
    }
  }

  [[nodiscard]] std::string text() const {
    return fmt::format("Minimize\n obj:{}\nSubject To\n{}Bounds\n{}Binaries\n{}End\n", objective_, rows_, bounds_,
                       binaries_);
  }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  static std::string run(std::int32_t p, std::int32_t v) { return fmt::format("x{}_{}", p, v); }

  /// " + x.. + x.." of some ops at positions [begin, end).
  static std::string sum_of_runs(const std::vector<std::int32_t>& ops, std::int32_t begin, std::int32_t end) {
    std::string sum;
    for (std::int32_t p = begin; p < end; ++p)
      for (const std::int32_t v : ops) sum += " + " + run(p, v);
    return sum;
  }

  /// One op at a position, or none from there on; first runs in program order.
  void runs(std::int32_t p) {
    std::string sum, before;
    for (std::int32_t v = 0; v < std::ssize(step_.ops); ++v) {
      const ReferenceStep::Op& op = step_.ops[index(v)];
      objective_ += fmt::format(" + {} {}", op.cost, run(p, v));
      binaries_ += " " + run(p, v) + "\n";
      sum += " + " + run(p, v);
      if (p > 0) before += " - " + run(p - 1, v);
      if (v > 0) {
        std::string earlier;
        for (std::int32_t q = 0; q < p; ++q) earlier += " - " + run(q, v - 1);
        rows_ += fmt::format("{}{} <= 0\n", run(p, v), earlier);
      }
      for (const std::int32_t s : op.reads)
        rows_ += p == 0 ? run(p, v) + " = 0\n" : fmt::format("{} - h{}_{} - i{}_{} <= 0\n", run(p, v), p - 1, s, p, s);
    }
    rows_ += sum + " <= 1\n";
    if (p > 0) rows_ += sum + before + " <= 0\n";
  }

  /// h: held behind a position; a: there while it runs; o: a copy is outside behind it; u: copied out; i: copied in.
  void holds(std::int32_t p, std::int32_t s) {
    const ReferenceStep::Storage& row = step_.storages[index(s)];
    std::vector<std::int32_t> writers, readers;
    for (std::int32_t v = 0; v < std::ssize(step_.ops); ++v) {
      if (std::ranges::binary_search(step_.ops[index(v)].writes, s)) writers.push_back(v);
      if (std::ranges::binary_search(step_.ops[index(v)].reads, s)) readers.push_back(v);
    }
    const std::string at = fmt::format("{}_{}", p, s), earlier = fmt::format("{}_{}", p - 1, s);
    const std::string made = sum_of_runs(writers, p, p + 1), read = sum_of_runs(readers, p, p + 1);
    const std::string held = p > 0 ? " + h" + earlier : "";
    binaries_ += " i" + at + "\n";
    for (const char* name : {"h", "a", "o", "u"}) bounds_ += fmt::format(" 0 <= {}{} <= 1\n", name, at);
    const auto less = [](std::string sum) {
      std::ranges::replace(sum, '+', '-');
      return sum;
    };
    rows_ += fmt::format("h{}{}{} - i{} <= 0\n", at, less(held), less(made), at);
    rows_ += fmt::format("a{}{} - i{} >= 0\n", at, less(held), at);
    rows_ += fmt::format("a{}{} >= 0\n", at, less(made));
    rows_ += fmt::format("u{}{}{} - i{} <= 0\n", at, less(held), less(made), at);
    rows_ += fmt::format("o{} - u{}{} <= 0\n", at, at, p > 0 ? " - o" + earlier : "");
    rows_ += p > 0 ? fmt::format("i{} - o{} <= 0\n", at, earlier) : fmt::format("i{} = 0\n", at);
    rows_ += fmt::format("i{}{} <= 0\n", at, less(read));
    if (!row.swappable) rows_ += fmt::format("i{} = 0\n", at);
    objective_ += fmt::format(" + {} i{} + {} u{}", row.copies.in.compute, at, row.copies.out.compute, at);
  }

  void memory(std::int32_t p, Bytes budget) {
    std::string sum;
    for (std::int32_t s = 0; s < std::ssize(step_.storages); ++s)
      sum += fmt::format(" + {} a{}_{}", step_.storages[index(s)].bytes, p, s);
    for (std::int32_t v = 0; v < std::ssize(step_.ops); ++v)
      if (step_.ops[index(v)].transient_bytes > 0)
        sum += fmt::format(" + {} {}", step_.ops[index(v)].transient_bytes, run(p, v));
    rows_ += fmt::format("{} <= {}\n", sum, budget);
  }

  const ReferenceStep& step_;
  std::int32_t positions_;
  std::string objective_, rows_, bounds_, binaries_;
};

[[nodiscard]] inline bool has_cbc() {
  return std::system("command -v cbc > /dev/null 2>&1") == 0;  // NOLINT(concurrency-mt-unsafe)
}

struct MilpAnswer {
  bool solved = false;               ///< within its time
  std::optional<std::int64_t> cost;  ///< of all runs and copies; nothing: infeasible
};

/// By COIN-OR CBC, in `folder`.
[[nodiscard]] inline MilpAnswer solve_with_cbc(const std::string& lp, const std::filesystem::path& folder) {
  const std::filesystem::path problem = folder / "step.lp", solution = folder / "step.sol";
  std::ofstream(problem) << lp;
  std::filesystem::remove(solution);
  const std::string command = fmt::format("cbc '{}' sec 60 solve solution '{}' > '{}' 2>&1", problem.string(),
                                          solution.string(), (folder / "cbc.log").string());
  if (std::system(command.c_str()) != 0) return {};  // NOLINT(concurrency-mt-unsafe)
  std::ifstream file(solution);
  std::string first;
  std::getline(file, first);
  MilpAnswer answer{.solved = first.starts_with("Optimal") || first.starts_with("Infeasible") ||
                              first.starts_with("Integer infeasible")};
  if (const std::size_t value = first.rfind("value "); first.starts_with("Optimal") && value != std::string::npos)
    answer.cost = std::llround(std::stod(first.substr(value + 6)));
  return answer;
}

}  // namespace tidemark::testing
