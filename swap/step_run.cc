#include "swap/step_run.h"

namespace tidemark::swap {

Result<std::vector<RunReport>> run_step(std::span<const std::unique_ptr<Executor>> ranks,
                                        const std::function<Status()>& let_time_pass) {
  for (const std::unique_ptr<Executor>& rank : ranks)
    if (Status s = rank->issue(); !s) return s.error();
  if (Status s = let_time_pass(); !s) return s.error();
  std::vector<RunReport> reports;
  for (const std::unique_ptr<Executor>& rank : ranks) {
    Result<RunReport> report = rank->finish();
    if (!report) return report.error();
    reports.push_back(std::move(report).value());
  }
  return reports;
}

}  // namespace tidemark::swap
