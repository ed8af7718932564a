#pragma once
// Load, step time, memory and rungs over the steps of a trace that was played, as one self-contained HTML page. Every
// time and size is simulated, and the page says so.

#include <string>

#include "integrations/run/trace_summary.h"

namespace tidemark::run {

/// Where several devices play a step: the slowest one's time, the fullest one's memory, rungs of the mean device.
[[nodiscard]] std::string trace_html(const TraceOutcome& outcome);

}  // namespace tidemark::run
