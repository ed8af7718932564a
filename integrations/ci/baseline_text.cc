#include "integrations/ci/baseline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "integrations/ci/content_hash.h"
#include "integrations/ci/json_parts.h"
#include "integrations/ci/safe_text.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/json_node.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

using formats::JsonNode;
using formats::kMostPlanBytes;

constexpr std::int64_t kMostCount = std::int64_t{1} << 40;       ///< of instances of one storage: more than bytes allow
constexpr std::int64_t kMostRank = (std::int64_t{1} << 31) - 1;  ///< of a launcher, not of a plan

// ---- writing ------------------------------------------------------------------------------------------------------

void write_rank(JsonParts& parts, const BaselineRank& rank) {
  parts.row([&] {
    parts.number("rank", rank.rank);
    if (!rank.place.empty()) parts.text("place", rank.place);
    parts.number("peak_bytes", rank.peak_bytes);
    parts.bytes("host_bytes", rank.host_bytes);
    parts.categories("by_category", rank.by_category);
    parts.list("storages", rank.storages, [&](const BaselineStorage& storage) {
      parts.row([&] {
        parts.text("name", storage.name);
        parts.text("category", budget::word_of(storage.category));
        parts.number("count", storage.count);
        parts.number("bytes", storage.bytes);
      });
    });
  });
}

void write_run(JsonParts& parts, const BaselineRun& run) {
  parts.json().line();
  parts.json().open_list();
  for (const RunPeak& peak : run) {
    parts.object([&] {
      parts.number("rank", peak.rank);
      parts.number("peak_bytes", peak.peak_bytes);
    });
  }
  parts.json().close_list();
}

/// One a line: a diff of two baselines shows what was changed.
void write_controls(JsonParts& parts, const std::vector<std::string>& controls) {
  parts.json().line();
  parts.list("controls", controls, [&](const std::string& control) {
    parts.json().line();
    parts.json().value(std::string_view(with_replacements(control)));
  });
}

void write_job(JsonParts& parts, const BaselineJob& job) {
  parts.json().line();
  parts.object(with_replacements(job.name), [&] {
    parts.json().line();
    parts.text("basis", budget::word_of(job.basis));
    parts.json().line();
    parts.list("inputs", job.inputs, [&](const InputHash& input) {
      parts.row([&] {
        parts.text("role", input.role);
        parts.text("fnv1a64", hash_text(input.fnv1a64));
      });
    });
    parts.json().line();
    parts.list("runs", job.runs, [&](const BaselineRun& run) { write_run(parts, run); });
    if (!job.controls.empty()) write_controls(parts, job.controls);
    parts.json().line();
    parts.list("ranks", job.ranks, [&](const BaselineRank& rank) { write_rank(parts, rank); });
  });
}

// ---- reading ------------------------------------------------------------------------------------------------------

budget::CategoryBytes read_categories(const JsonNode& node) {
  budget::CategoryBytes bytes{};
  for (const std::string& key : node.keys()) {
    const auto word = std::ranges::find(budget::kCategoryWords, std::string_view(key));
    if (word == budget::kCategoryWords.end())
      node.wrong(fmt::format("has an unknown category {}; it knows {}", formats::shown(key),
                             fmt::join(budget::kCategoryWords, ", ")));
    else
      bytes[static_cast<std::size_t>(word - budget::kCategoryWords.begin())] =
          node.at(key).integer(-kMostPlanBytes, kMostPlanBytes);
  }
  return bytes;
}

BaselineStorage read_storage(const JsonNode& node) {
  node.expect_members({"name", "category", "count", "bytes"});
  return {.name = node.at("name").text(),
          .category = static_cast<budget::Category>(node.at("category").word(budget::kCategoryWords)),
          .count = node.at("count").integer(0, kMostCount),
          .bytes = node.at("bytes").integer(-kMostPlanBytes, kMostPlanBytes)};
}

BaselineRank read_rank(const JsonNode& node) {
  node.expect_members({"rank", "place", "peak_bytes", "host_bytes", "by_category", "storages"});
  BaselineRank rank{.rank = node.at("rank").integer(0, kMostRank),
                    .peak_bytes = node.at("peak_bytes").integer(0, kMostPlanBytes),
                    .by_category = read_categories(node.at("by_category"))};
  if (node.has("place")) rank.place = node.at("place").text();
  if (const JsonNode host = node.at("host_bytes"); !host.is_null()) rank.host_bytes = host.integer(0, kMostPlanBytes);
  const Bytes told = std::accumulate(rank.by_category.begin(), rank.by_category.end(), Bytes{0});
  if (told != rank.peak_bytes)
    node.at("by_category")
        .wrong(fmt::format("adds up to {} bytes, not to the peak of {}; was the file edited? "
                           "`tidemark baseline update` makes it anew",
                           told, rank.peak_bytes));
  const JsonNode storages = node.at("storages");
  for (std::size_t i = 0; i < storages.size() && node.clean(); ++i)
    rank.storages.push_back(read_storage(storages.item(i)));
  return rank;
}

/// Ranks of a list of objects: ascending, each once. `previous`: -1 before the first.
void expect_ascending(const JsonNode& node, std::int64_t rank, std::int64_t previous) {
  if (rank <= previous)
    node.wrong(fmt::format("rank {} follows rank {}; each belongs once, ascending", rank, previous));
}

BaselineRun read_run(const JsonNode& node) {
  BaselineRun run;
  if (node.size() > kMostBaselineRanks) node.wrong(fmt::format("has more than {} ranks", kMostBaselineRanks));
  for (std::size_t i = 0; i < node.size() && node.clean(); ++i) {
    const JsonNode item = node.item(i);
    item.expect_members({"rank", "peak_bytes"});
    const RunPeak peak{.rank = item.at("rank").integer(0, kMostRank),
                       .peak_bytes = item.at("peak_bytes").integer(0, kMostPlanBytes)};
    expect_ascending(item, peak.rank, run.empty() ? -1 : run.back().rank);
    run.push_back(peak);
  }
  return run;
}

std::vector<InputHash> read_inputs(const JsonNode& node) {
  std::vector<InputHash> inputs;
  for (std::size_t i = 0; i < node.size() && node.clean(); ++i) {
    const JsonNode item = node.item(i);
    item.expect_members({"role", "fnv1a64"});
    const std::optional<std::uint64_t> hash = parse_hash(item.at("fnv1a64").text());
    if (!hash) item.at("fnv1a64").wrong("must be 16 hexadecimal digits in lower case");
    inputs.push_back({.role = item.at("role").text(), .fnv1a64 = hash.value_or(0)});
  }
  return inputs;
}

void read_runs(const JsonNode& node, BaselineJob& job) {
  const std::size_t count = node.size();
  const bool is_measured = job.basis == budget::Basis::measured;
  if (is_measured && (count == 0 || count > kMostBaselineRuns))
    node.wrong(fmt::format("has {} runs; a measured job has 1 to {}", count, kMostBaselineRuns));
  if (!is_measured && count > 0) node.wrong("must be empty: only a measured job has runs");
  for (std::size_t i = 0; i < count && node.clean(); ++i) job.runs.push_back(read_run(node.item(i)));
}

/// Of a baseline that was written before there were controls: none.
std::vector<std::string> read_controls(const JsonNode& job) {
  std::vector<std::string> controls;
  if (!job.has("controls")) return controls;
  const JsonNode list = job.at("controls");
  for (std::size_t i = 0; i < list.size() && list.clean(); ++i) controls.push_back(list.item(i).text());
  if (!std::ranges::is_sorted(controls)) list.wrong("must ascend; `tidemark baseline update` makes it anew");
  return controls;
}

BaselineJob read_job(const std::string& name, const JsonNode& node) {
  node.expect_members({"basis", "inputs", "runs", "controls", "ranks"});
  BaselineJob job{.name = name,
                  .basis = static_cast<budget::Basis>(node.at("basis").word(budget::kBasisWords)),
                  .inputs = read_inputs(node.at("inputs"))};
  read_runs(node.at("runs"), job);
  const JsonNode ranks = node.at("ranks");
  if (ranks.size() == 0 || ranks.size() > kMostBaselineRanks)
    ranks.wrong(fmt::format("has {} ranks; a job has 1 to {}", ranks.size(), kMostBaselineRanks));
  for (std::size_t i = 0; i < ranks.size() && node.clean(); ++i) {
    BaselineRank rank = read_rank(ranks.item(i));
    expect_ascending(ranks.item(i), rank.rank, job.ranks.empty() ? -1 : job.ranks.back().rank);
    job.ranks.push_back(std::move(rank));
  }
  job.controls = read_controls(node);
  return job;
}

/// What a file is that names no schema, or another one.
Error other_schema(const nlohmann::json& root, std::string_view file_name) {
  const auto found = root.is_object() ? root.find("schema") : root.end();
  if (!root.is_object() || found == root.end() || !found->is_string())
    return bad_input(fmt::format("{}: this is no baseline: it has no \"schema\": \"{}\"; name another file", file_name,
                                 kBaselineSchema));
  return bad_input(fmt::format("{}: schema {}; this version of Tidemark reads {}", file_name,
                               formats::shown(found->get<std::string>()), kBaselineSchema));
}

bool has_schema(const nlohmann::json& root) {
  if (!root.is_object()) return false;
  const auto found = root.find("schema");
  return found != root.end() && found->is_string() && found->get<std::string>() == kBaselineSchema;
}

}  // namespace

std::string write_baseline(const Baseline& baseline) {
  std::string text;
  JsonParts parts(text);
  parts.object([&] {
    parts.json().line();
    parts.text("schema", kBaselineSchema);
    parts.json().line();
    parts.text("tool_version", baseline.tool_version);
    parts.json().line();
    parts.object("jobs", [&] {
      for (const BaselineJob& job : baseline.jobs) write_job(parts, job);
    });
    parts.json().line();
  });
  return text + "\n";
}

Result<Baseline> read_baseline(std::string_view text, std::string_view file_name) {
  if (text.size() > kMostBaselineBytes)
    return bad_input(fmt::format("{}: the file has {} bytes; a baseline has at most {}", file_name, text.size(),
                                 kMostBaselineBytes));
  const Result<nlohmann::json> root = formats::parse_json(text, file_name, "the baseline");
  if (!root) return root.error();
  if (!has_schema(root.value())) return other_schema(root.value(), file_name);
  JsonNode::Mistake mistake;
  const JsonNode node(root.value(), mistake);
  node.expect_members({"schema", "tool_version", "jobs"});
  Baseline baseline{.tool_version = node.at("tool_version").text()};
  const JsonNode jobs = node.at("jobs");
  for (const std::string& name : jobs.keys()) {
    if (!node.clean()) break;
    baseline.jobs.push_back(read_job(name, jobs.at(name)));
  }
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  return baseline;
}

}  // namespace tidemark::ci
