// Writes reports of random results with nasty names, in every format, and baselines, for validate_formats.py.
//
//   write_samples FOLDER COUNT

#include <cstdint>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "integrations/ci/baseline_text.h"
#include "integrations/ci/report_format.h"
#include "tests/ci/random_results.h"

namespace tidemark {
namespace {

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::cerr << path << ": cannot write\n";
  return !file.fail();
}

bool write_reports(const std::string& folder, std::uint32_t seed) {
  testing::RandomResults random(seed);
  const ci::GateResult gate = random.gate();
  const ci::DiffResult diff = random.diff();
  const ci::ReportOptions options{.is_explained = seed % 2 == 0, .most_contributors = seed % 7};
  bool is_written = true;
  for (std::size_t i = 0; i < ci::kReportFormatWords.size(); ++i) {
    const auto format = static_cast<ci::ReportFormat>(i);
    const std::string ending = std::to_string(seed) + "." + std::string(ci::word_of(format));
    is_written = write(folder + "/check-" + ending, ci::write_report(format, gate, options)) && is_written;
    is_written = write(folder + "/diff-" + ending, ci::write_report(format, diff, options)) && is_written;
  }
  ci::Baseline baseline{.tool_version = "0.1.0"};
  for (const ci::JobResult& job : gate.jobs)
    if (!job.holdings.ranks.empty())
      ci::put_job(baseline, ci::baseline_of(job.job.name, {{"model", seed}}, job.holdings));
  return write(folder + "/baseline-" + std::to_string(seed) + ".baseline", ci::write_baseline(baseline)) && is_written;
}

}  // namespace
}  // namespace tidemark

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "write_samples FOLDER COUNT\n";
    return 2;
  }
  const auto samples = static_cast<std::uint32_t>(std::stoul(arguments[2]));
  for (std::uint32_t seed = 1; seed <= samples; ++seed)
    if (!tidemark::write_reports(arguments[1], seed)) return 1;
  return 0;
}
