#pragma once
// One step of several ranks whose devices share one virtual time: issue all, let time pass, finish all.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "swap/executor.h"

namespace tidemark::swap {

/// `let_time_pass` runs the world (SimWorld::run). Reports in the order of the executors. The first error ends the
/// step.
[[nodiscard]] Result<std::vector<RunReport>> run_step(std::span<const std::unique_ptr<Executor>> ranks,
                                                      const std::function<Status()>& let_time_pass);

}  // namespace tidemark::swap
