// The packers on public instances: never below the load, and no worse than first fit was measured to be there.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "planner/layout/check_packing.h"
#include "tests/support/data.h"

namespace tidemark::layout {
namespace {

std::vector<std::vector<std::string>> read_csv(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::stringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

PackProblem read_problem(const std::filesystem::path& path) {
  PackProblem problem;
  const auto rows = read_csv(path);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    problem.items.push_back({std::stoi(rows[r][1]), std::stoi(rows[r][2]), std::stoll(rows[r][3])});
  }
  return problem;
}

double excess_percent(Bytes height, Bytes load) {
  return 100.0 * (static_cast<double>(height) / static_cast<double>(load) - 1.0);
}

TEST(ReferenceInstances, MinimallocHeightsMatchFirstFitAsMeasuredElsewhere) {
  const auto folder = testing::data_path("minimalloc");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const auto reference = read_csv(*folder / "reference.csv");
  ASSERT_GT(reference.size(), 5U);
  for (std::size_t r = 1; r < reference.size(); ++r) {
    const auto& row = reference[r];
    const PackProblem problem = read_problem(*folder / (row[0] + ".1048576.csv"));
    EXPECT_EQ(static_cast<int>(problem.items.size()), std::stoi(row[1]));
    const Bytes load = packing_load(problem);
    EXPECT_EQ(load, std::stoll(row[3])) << row[0];
    for (const Packer& packer : packers()) {
      const Bytes height = packer.pack(problem, {.work = 1000}).packing.height_bytes;
      EXPECT_GE(height, load) << row[0] << " " << packer.name;
      EXPECT_LE(excess_percent(height, load), 135.0) << row[0] << " " << packer.name;
      // Ties in the order are broken in more than one sensible way, hence the margin.
      if (packer.name == "first_fit_by_size") {
        EXPECT_LE(excess_percent(height, load), std::stod(row[7]) + 10) << row[0];
      }
    }
  }
}

TEST(ReferenceInstances, TrainingTracesArePackedAtTheirLoad) {
  const auto folder = testing::data_path("somas");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  for (const auto& [name, load] :
       {std::pair{"resnet50.csv", Bytes{1'515'472'556}}, std::pair{"pangu_2.6B.csv", Bytes{5'530'099'775}}}) {
    const PackProblem problem = read_problem(*folder / name);
    EXPECT_EQ(packing_load(problem), load);
    const PackAnswer answer = find_packer("auto")->pack(problem, {.work = 500'000});
    EXPECT_EQ(answer.packing.height_bytes, load) << name;
    EXPECT_EQ(answer.status, PackStatus::optimal) << name;
    EXPECT_EQ(find_fault(problem, answer.packing).value_or(""), "") << name;
  }
}

}  // namespace
}  // namespace tidemark::layout
