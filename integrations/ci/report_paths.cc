#include "integrations/ci/report_paths.h"

#include <filesystem>

namespace tidemark::ci {
namespace {

namespace fs = std::filesystem;

class Renamer {
 public:
  explicit Renamer(const ReportPaths& paths) : paths_(paths) {}

  void apply(budget::Control& control) const { control.file = report_path(paths_, control.file); }
  void apply(budget::HeldStorage& storage) const { each(storage.controls); }
  void apply(budget::StorageGrowth& storage) const { each(storage.controls); }
  void apply(budget::RankHoldings& rank) const { each(rank.storages); }
  void apply(budget::RankGrowth& rank) const { each(rank.storages); }
  void apply(budget::Edit& edit) const { apply(edit.where); }
  void apply(ChangedLine& line) const { apply(line.now); }
  void apply(ChangedControl& changed) const {
    apply(changed.line);
    each(changed.others);
  }
  void apply(JobFinding& finding) const {
    apply(finding.where);
    if (finding.changed) apply(*finding.changed);
  }
  void apply(budget::Growth& growth) const {
    each(growth.ranks);
    each(growth.storages);
  }
  void apply(JobResult& job) const {
    apply(job.where);
    each(job.findings);
    each(job.holdings.ranks);
    if (job.growth) apply(*job.growth);
    if (job.remedy) each(job.remedy->edits);
    if (job.predicted) each(job.predicted->ranks);
  }
  template <class Items>
  void each(Items& items) const {
    for (auto& item : items) apply(item);
  }

 private:
  const ReportPaths& paths_;
};

}  // namespace

std::string report_path(const ReportPaths& paths, std::string_view file) {
  if (paths.are_kept() || file.empty()) return std::string(file);
  const fs::path given(file);
  const fs::path whole = (fs::path(paths.working) / given).lexically_normal();
  const fs::path below = whole.lexically_relative(fs::path(paths.root).lexically_normal());
  const bool is_below = !below.empty() && *below.begin() != "..";
  return (is_below ? below : given.lexically_normal()).generic_string();
}

GateResult with_paths(GateResult result, const ReportPaths& paths) {
  if (!paths.are_kept()) Renamer(paths).each(result.jobs);
  return result;
}

DiffResult with_paths(DiffResult result, const ReportPaths& paths) {
  if (paths.are_kept()) return result;
  const Renamer rename(paths);
  rename.apply(result.growth);
  if (result.changed) rename.apply(*result.changed);
  result.after.file = report_path(paths, result.after.file);
  return result;
}

}  // namespace tidemark::ci
