#include "integrations/ci/budget_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "integrations/ci/job_limit.h"
#include "integrations/ci/plain_words.h"
#include "integrations/ci/tolerance_text.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/yaml_fields.h"

namespace tidemark::ci {
namespace {

using formats::kMostPlanBytes;
using formats::Need;
using formats::YamlDocument;
using formats::YamlMap;
using formats::YamlNode;

constexpr std::size_t kLongestName = 100;

void note_line(const YamlMap& map, std::string_view key, BudgetJob& job) {
  if (map.has(key)) job.at.insert_or_assign(std::string(key), map.line_of(key));
}

void read_size(YamlMap& map, std::string_view key, std::string_view example, std::optional<Bytes>& out) {
  if (!map.has(key)) return map.accept(key);
  Bytes size = out.value_or(0);
  map.quantity(key, size, parse_bytes, example, Need::optional);
  if (size > kMostPlanBytes)
    map.wrong(key, fmt::format("{} is {}; it is at most {}", key, format_bytes(size), format_bytes(kMostPlanBytes)));
  out = size;
}

/// Keys that the file has for all jobs and each job may have for itself.
void read_defaults(YamlMap& map, BudgetJob& job) {
  for (const std::string_view key : {"capacity", "reserve", "host", "near", "growth", "load"}) note_line(map, key, job);
  read_size(map, "capacity", "64GiB", job.capacity_bytes);
  read_size(map, "reserve", "3GiB", job.reserve_bytes);
  read_size(map, "host", "64GiB", job.host_bytes);
  read_tolerance(map, "near", job.near);
  read_tolerance(map, "growth", job.growth);
  read_load(map, job.load);
  if (map.has("near") && job.near.percent >= 100) map.wrong("near", "near must be below 100 %");
}

void read_word(YamlMap& map, std::string_view key, std::string& out, BudgetJob& job) {
  note_line(map, key, job);
  map.text(key, out, Need::optional);
}

bool is_estimate(JobKind kind) {
  return kind == JobKind::script || kind == JobKind::bridge || kind == JobKind::torchtitan ||
         kind == JobKind::mindformers;
}

/// The one key that names a file. False: there is none, or there are several.
bool read_kind(YamlMap& map, BudgetJob& job) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < kJobKindWords.size(); ++i) {
    const std::string_view word = kJobKindWords[i];
    map.accept(word);
    if (!map.has(word)) continue;
    if (found) {
      map.wrong(word, fmt::format("a job has one file, and this one has {} and {}; make it two jobs",
                                  kJobKindWords[*found], word));
      return false;
    }
    found = i;
  }
  if (!found) return false;
  job.kind = static_cast<JobKind>(*found);
  read_word(map, kJobKindWords[*found], job.file, job);
  return true;
}

/// What only some kinds of job can be told.
void read_settings(YamlMap& map, BudgetJob& job) {
  const std::string_view word = word_of(job.kind);
  const bool is_model = job.kind == JobKind::model;
  const auto read_or_forbid = [&](std::string_view key, bool is_known, std::string_view of, std::string& out) {
    if (is_known) return read_word(map, key, out, job);
    map.forbid(key, fmt::format("this is a {}; it is for {}", word, of));
  };
  constexpr std::string_view kEstimates = "script, bridge, torchtitan and mindformers";
  read_or_forbid("policy", is_model, "model", job.policy);
  read_or_forbid("device", is_model || is_estimate(job.kind), "model, script, bridge, torchtitan and mindformers",
                 job.device);
  read_or_forbid("calibration", is_model || is_estimate(job.kind), "model, script, bridge, torchtitan and mindformers",
                 job.calibration);
  read_or_forbid("accelerator", is_estimate(job.kind), kEstimates, job.accelerator);
  read_or_forbid("predicted_by", job.kind == JobKind::measured, "measured", job.predicted_by);
  note_line(map, "world_size", job);
  if (!is_estimate(job.kind))
    return map.forbid("world_size", fmt::format("this is a {}; it is for {}", word, kEstimates));
  std::int32_t world_size = 1;
  map.integer("world_size", world_size, Need::optional);
  if (world_size < 1) map.wrong("world_size", fmt::format("world_size is {}; it is at least 1", world_size));
  if (world_size > kMostWorldSize)
    map.wrong("world_size", fmt::format("world_size is {}; it is at most {}", world_size, kMostWorldSize));
  if (map.has("world_size")) job.world_size = world_size;
}

/// A plan and a measured run have happened at the load they had; an estimate takes a cautious one.
void settle_load(YamlMap& map, BudgetJob& job, bool is_own) {
  if (job.kind == JobKind::model) return;
  const std::string_view why = job.kind == JobKind::plan       ? "a plan has the load that it was made at"
                               : job.kind == JobKind::measured ? "a measured run has the load that it was made at"
                                                               : "an estimate takes a cautious load (docs/cli.md)";
  if (is_own) map.wrong("load", fmt::format("load has no meaning here: {}", why));
  job.load.reset();
}

void expect_budget(YamlMap& map, YamlDocument& document, const BudgetJob& job) {
  if (job.capacity_bytes && job.reserve_bytes && *job.reserve_bytes >= *job.capacity_bytes)
    document.wrong(job.line_of("reserve"),
                   fmt::format("reserve {} leaves nothing of capacity {}", format_bytes(*job.reserve_bytes),
                               format_bytes(*job.capacity_bytes)));
  const bool has_device = job.kind == JobKind::model || job.kind == JobKind::plan;
  if (has_device || job.capacity_bytes || job.host_bytes || !job.limits.empty() || map.has("limits")) return;
  document.missing(map.line(),
                   fmt::format("a {} says no capacity; add `capacity: 64GiB` here or at the top", word_of(job.kind)));
}

void read_name(YamlMap& map, BudgetJob& job) {
  map.text("name", job.name, Need::required);
  if (job.name.size() > kLongestName)
    map.wrong("name", fmt::format("name has {} bytes; it has at most {}", job.name.size(), kLongestName));
  if (const std::optional<std::string_view> why = unfit_words(job.name))
    map.wrong("name", fmt::format("name {} {}", formats::shown(job.name), *why));
}

BudgetJob read_job(YamlDocument& document, YamlMap map, const BudgetJob& defaults) {
  BudgetJob job = defaults;
  job.line = map.line();
  read_name(map, job);
  const bool is_kind_known = read_kind(map, job);
  const bool has_kind = std::ranges::any_of(kJobKindWords, [&](std::string_view word) { return map.has(word); });
  if (!has_kind)
    document.missing(map.line(), fmt::format("job {} names no file; add one of `model:`, `plan:`, `script:`, "
                                             "`bridge:`, `torchtitan:`, `mindformers:`, `measured:`",
                                             formats::shown(job.name)));
  read_defaults(map, job);
  read_limits(document, map, job);
  read_waivers(document, map, job);
  if (is_kind_known) {
    read_settings(map, job);
    settle_load(map, job, map.has("load"));
    expect_budget(map, document, job);
  } else {
    for (const char* key : {"policy", "device", "calibration", "accelerator", "predicted_by", "world_size"})
      map.accept(key);
  }
  map.finish();
  return job;
}

void expect_unique_names(YamlDocument& document, const std::vector<BudgetJob>& jobs) {
  std::map<std::string_view, int> first_lines;
  for (const BudgetJob& job : jobs) {
    const auto [place, is_new] = first_lines.try_emplace(job.name, job.line);
    if (!is_new && !job.name.empty())
      document.wrong(job.line, fmt::format("job {} is there twice (first on line {}); give each its own name",
                                           formats::shown(job.name), place->second));
  }
}

void expect_predictions(YamlDocument& document, const std::vector<BudgetJob>& jobs) {
  std::vector<std::string> names;
  for (const BudgetJob& job : jobs)
    if (job.kind != JobKind::measured) names.push_back(job.name);
  for (const BudgetJob& job : jobs) {
    if (job.predicted_by.empty() || std::ranges::find(names, job.predicted_by) != names.end()) continue;
    const std::optional<std::string> near = formats::find_near_miss(job.predicted_by, names);
    document.wrong(job.line_of("predicted_by"),
                   fmt::format("predicted_by is {}, which is no planned or estimated job of this file; {}",
                               formats::shown(job.predicted_by),
                               near ? fmt::format("did you mean {}?", formats::shown(*near)) : "name one of them"));
    return;  // the first is what is said, and each costs a look at every name
  }
}

/// One mistake where a file has more of something than it may; true: it has not.
bool expect_few(YamlDocument& document, int line, std::string_view what, std::size_t count) {
  if (count <= kMostBudgetItems) return true;
  document.wrong(line, fmt::format("{} {}; a budget file has at most {}", count, what, kMostBudgetItems));
  return false;
}

void read_jobs(YamlDocument& document, YamlMap& map, const BudgetJob& defaults, std::vector<BudgetJob>& jobs) {
  const YamlNode* list = map.list("jobs", "[{name: small, model: models/small.yaml}]", Need::required);
  if (list == nullptr) return;
  const int line = map.line_of("jobs");
  if (list->items.empty()) document.wrong(line, "jobs is an empty list; add `- name: small` and `  model: FILE`");
  if (!expect_few(document, line, "jobs", list->items.size())) return;
  std::size_t limits = 0, waivers = 0;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const YamlNode& item = *list->items[i].value;
    jobs.push_back(read_job(document, YamlMap(document, item, fmt::format("jobs[{}]", i), item.line), defaults));
    limits += jobs.back().limits.size();
    waivers += jobs.back().waivers.size();
    if (!expect_few(document, item.line, "limits", limits) || !expect_few(document, item.line, "waivers", waivers))
      return;
  }
  expect_unique_names(document, jobs);
  expect_predictions(document, jobs);
}

/// A file of another version is not judged by the keys of this one.
Status expect_schema(const YamlNode& root, std::string_view file_name) {
  const YamlNode* schema = root.find("schema");
  if (schema == nullptr)
    return bad_input(
        fmt::format("{}:1: the file lacks the key 'schema'; begin with `schema: {}`", file_name, kBudgetSchema));
  if (schema->is_scalar() && schema->text == kBudgetSchema) return {};
  return bad_input(fmt::format("{}:{}: schema is {}; this version of Tidemark reads {}", file_name, schema->line,
                               formats::described(*schema), kBudgetSchema));
}

Result<std::shared_ptr<const YamlNode>> parse(std::string_view text, std::string_view file_name) {
  constexpr formats::YamlUse kUse = {.most_bytes = std::size_t{1} << 20,
                                     .what = "budget file",
                                     .invalid = "this is not valid YAML",
                                     .remedy = "write `key: value`, with the keys of a section indented alike"};
  Result<std::shared_ptr<const YamlNode>> root = formats::read_yaml_tree(text, file_name, kUse);
  if (!root || root.value()->is_map()) return root;
  return bad_input(fmt::format("{}:{}: the file is {}; begin with `schema: {}`, then `jobs:`", file_name,
                               root.value()->is_empty() ? 1 : root.value()->line,
                               root.value()->is_empty() ? "empty" : "not a list of `key: value` lines", kBudgetSchema));
}

}  // namespace

Result<BudgetFile> read_budget_file(std::string_view text, std::string_view file_name) {
  const Result<std::shared_ptr<const YamlNode>> root = parse(text, file_name);
  if (!root) return root.error();
  if (const Status status = expect_schema(*root.value(), file_name); !status) return status.error();
  YamlDocument document(file_name);
  YamlMap map(document, *root.value(), "", 1);
  map.accept("schema");
  BudgetFile file{.name = std::string(file_name), .is_baseline_named = map.has("baseline")};
  if (file.is_baseline_named) file.baseline_line = map.line_of("baseline");
  map.text("baseline", file.baseline, Need::optional);
  BudgetJob defaults;
  read_defaults(map, defaults);
  read_jobs(document, map, defaults, file.jobs);
  map.finish();
  if (!document.clean()) return document.first_error();
  return file;
}

}  // namespace tidemark::ci
