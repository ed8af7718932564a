#include "planner/estimate/run_seconds.h"

#include "planner/step_time/step_seconds.h"

namespace tidemark::estimate {

RunSeconds run_seconds(const PricedRun& run, const Chip& chip) {
  const step_time::StepSeconds step = step_time::step_seconds(run.run, chip, run.software);
  RunSeconds seconds{.passes_s = step.passes_s, .micro_batches = run.run.micro_batches(), .end_s = step.end_s};
  seconds.idle_chunks = step.fill_s / step.passes_s * seconds.micro_batches;
  return seconds;
}

RunSeconds run_seconds(const TrainingRun& run, const Chip& chip) {
  return run_seconds(to_timed_run(run, chip), chip);
}

double step_percent(const TrainingRun& before, const TrainingRun& after, const Chip& chip) {
  return 100 * (run_seconds(after, chip).seconds() / run_seconds(before, chip).seconds() - 1);
}

}  // namespace tidemark::estimate
