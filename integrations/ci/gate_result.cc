#include "integrations/ci/gate_result.h"

#include <algorithm>

namespace tidemark::ci {

std::string_view word_of(GateVerdict verdict) {
  return kGateVerdictWords[static_cast<std::size_t>(verdict)];
}
std::string_view word_of(FindingKind kind) {
  return kFindingKindWords[static_cast<std::size_t>(kind)];
}
std::string_view word_of(WaiverEffect effect) {
  return kWaiverEffectWords[static_cast<std::size_t>(effect)];
}

GateVerdict gate_verdict_of(budget::Verdict verdict) {
  switch (verdict) {
    case budget::Verdict::pass:
      return GateVerdict::pass;
    case budget::Verdict::near:
      return GateVerdict::near;
    case budget::Verdict::fail:
      return GateVerdict::fail;
  }
  return GateVerdict::error;
}

const JobFinding* worst_finding(const JobResult& job) {
  const auto worst = std::ranges::max_element(job.findings, {}, &JobFinding::verdict);
  return worst == job.findings.end() ? nullptr : &*worst;
}

const budget::RankHoldings& explained_rank(const JobResult& job) {
  const JobFinding* worst = worst_finding(job);
  const bool has_rank = worst != nullptr && worst->rank && *worst->rank < job.holdings.ranks.size();
  return job.holdings.ranks[has_rank ? *worst->rank : budget::highest_rank(job.holdings)];
}

GateVerdict verdict_of(const JobResult& job) {
  if (!job.error.empty()) return GateVerdict::error;
  const JobFinding* worst = worst_finding(job);
  return worst == nullptr ? GateVerdict::pass : gate_verdict_of(worst->verdict);
}

GateVerdict verdict_of(const GateResult& result) {
  GateVerdict verdict = GateVerdict::pass;
  for (const JobResult& job : result.jobs) verdict = std::max(verdict, verdict_of(job));
  return verdict;
}

GateCounts counts_of(const GateResult& result) {
  GateCounts counts;
  for (const JobResult& job : result.jobs) {
    const GateVerdict verdict = verdict_of(job);
    counts.pass += verdict == GateVerdict::pass ? 1U : 0U;
    counts.near += verdict == GateVerdict::near ? 1U : 0U;
    counts.fail += verdict == GateVerdict::fail ? 1U : 0U;
    counts.error += verdict == GateVerdict::error ? 1U : 0U;
    for (const JobFinding& finding : job.findings) counts.waived += finding.effect == WaiverEffect::waived ? 1U : 0U;
  }
  return counts;
}

int exit_status(const GateResult& result, bool is_exit_zero) {
  const GateVerdict verdict = verdict_of(result);
  if (verdict == GateVerdict::error) return 2;
  const bool is_over = verdict == GateVerdict::fail || (result.is_strict && verdict == GateVerdict::near);
  return is_over && !is_exit_zero ? 1 : 0;
}

}  // namespace tidemark::ci
