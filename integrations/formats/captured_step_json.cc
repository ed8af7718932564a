#include "integrations/formats/captured_step_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "integrations/formats/cost_column.h"
#include "integrations/formats/json_node.h"
#include "integrations/formats/spec_fields.h"
#include "planner/graph_build/captured_graph.h"

namespace tidemark::formats {
namespace {

constexpr std::array<std::string_view, 3> kUnits = {"ns", "joule", "one"};  // GivenCosts::Unit
constexpr std::array<std::string_view, 5> kKinds = {"pure", "random", "routing", "collective", "never"};
constexpr std::array<std::string_view, 3> kPhases = {"forward", "backward", "optimizer"};
constexpr std::array<OpPhase, 3> kPhaseOf = {OpPhase::forward, OpPhase::backward, OpPhase::optimizer};
constexpr RealRange kCostRange{.least = 0, .most = 1e18};
constexpr RealRange kRateRange{.least = 1, .most = 1e18};  // bytes a second

/// Roles are for people to read; one that is no role of ours says nothing.
StorageRole role_of(std::string_view word) {
  const auto found = std::ranges::find(kRoleWords, word);
  return found == kRoleWords.end() ? StorageRole::activation : static_cast<StorageRole>(found - kRoleWords.begin());
}

class JsonReader {
 public:
  explicit JsonReader(const JsonNode& top) : top_(top) {}

  CapturedStep read() {
    static_cast<void>(top_.at("tidemark_graph").integer(1, 1));
    top_.expect_members({"tidemark_graph", "name", "framework", "cost_unit", "link", "storages", "ops"});
    if (top_.has("name")) step_.name = top_.at("name").text();
    if (top_.has("framework")) step_.framework = top_.at("framework").text();
    if (top_.has("cost_unit")) costs_of_.unit = static_cast<GivenCosts::Unit>(top_.at("cost_unit").word(kUnits));
    if (top_.has("link")) read_link(top_.at("link"));
    const JsonNode storages = top_.at("storages"), ops = top_.at("ops");
    op_count_ = static_cast<std::int64_t>(ops.size());
    if (op_count_ == 0) ops.wrong("there is no op; a step has at least one");
    for (std::size_t s = 0; s < storages.size() && top_.clean(); ++s) read_storage(storages.item(s));
    for (std::size_t v = 0; v < ops.size() && top_.clean(); ++v) read_op(ops.item(v));
    if (!top_.clean()) return std::move(step_);
    build();
    return std::move(step_);
  }

 private:
  void read_link(const JsonNode& node) {
    if (costs_of_.unit != GivenCosts::Unit::ns) node.wrong("a link takes time; \"cost_unit\" must be \"ns\"");
    has_link_ = true;
    out_ns_per_byte_ = 1e9 / node.at("out_bytes_per_second").number(kRateRange);
    in_ns_per_byte_ = 1e9 / node.at("in_bytes_per_second").number(kRateRange);
    latency_ns_ = number(node, "latency_ns");
    if (node.has("host_bytes")) step_.host_bytes = node.at("host_bytes").integer(0, kMostPlanBytes);
    constexpr std::array<std::string_view, 4> kKeys = {"host_bytes", "in_bytes_per_second", "latency_ns",
                                                       "out_bytes_per_second"};
    for (const std::string& key : node.keys())
      if (std::ranges::find(kKeys, key) == kKeys.end())
        node.wrong("a link has the keys out_bytes_per_second, in_bytes_per_second, latency_ns and host_bytes only");
  }

  void read_storage(const JsonNode& node) {
    node.expect_members({"name", "module", "role", "bytes", "bound_bytes", "pinned_until", "until_end", "swappable",
                         "page_out_cost", "page_in_cost"});
    graph_build::CapturedGraphBuilder::StorageRow row{.bytes = node.at("bytes").integer(0, kMostPlanBytes)};
    if (node.has("name")) row.name = node.at("name").text();
    if (node.has("module") && !node.at("module").is_null()) row.module = node.at("module").text();
    if (node.has("role") && !node.at("role").is_null()) row.role = role_of(node.at("role").text());
    // A bound is what must be there whatever the data.
    if (node.has("bound_bytes")) row.bytes = node.at("bound_bytes").integer(row.bytes, kMostPlanBytes);
    if (node.has("pinned_until"))
      row.held_until = static_cast<std::int32_t>(node.at("pinned_until").integer(0, op_count_ - 1));
    if (node.has("until_end")) row.lasting = node.at("until_end").boolean();
    const bool may_swap = !node.has("swappable") || node.at("swappable").boolean();
    // Without a price nobody can say what paging costs, so it is not offered.
    row.swappable = may_swap && (has_link_ || (node.has("page_out_cost") && node.has("page_in_cost")));
    if (!has_link_ && node.has("page_out_cost") != node.has("page_in_cost"))
      node.wrong("has one of page_out_cost and page_in_cost; what may be paged out needs both");
    page_costs_.push_back({number(node, "page_out_cost"), number(node, "page_in_cost")});
    sum_bytes_ += row.bytes;
    if (sum_bytes_ > kMostPlanBytes) node.wrong("the bytes up to here are more than a plan can hold");
    storages_.push_back(std::move(row));
  }

  void read_op(const JsonNode& node) {
    node.expect_members(
        {"name", "module", "role", "cost", "reads", "writes", "transient_bytes", "phase", "recompute", "told"});
    graph_build::CapturedGraphBuilder::OpRow op;
    if (node.has("name")) op.name = node.at("name").text();
    if (node.has("module") && !node.at("module").is_null()) op.module = node.at("module").text();
    costs_.push_back(node.at("cost").number(kCostRange));
    if (node.has("transient_bytes")) op.transient_bytes = node.at("transient_bytes").integer(0, kMostPlanBytes);
    if (node.has("phase")) op.phase = kPhaseOf[node.at("phase").word(kPhases)];
    if (node.has("recompute"))
      op.recompute = static_cast<graph_build::CapturedGraphBuilder::Recompute>(node.at("recompute").word(kKinds));
    if (node.has("told")) op.told = node.at("told").boolean();
    op.reads = ids(node.at("reads"));
    op.writes = ids(node.at("writes"));
    ops_.push_back(std::move(op));
  }

  [[nodiscard]] std::vector<std::int32_t> ids(const JsonNode& node) const {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < node.size() && top_.clean(); ++i)
      ids.push_back(static_cast<std::int32_t>(node.item(i).integer(0, std::ssize(storages_) - 1)));
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  /// 0 where the key is not there.
  static double number(const JsonNode& node, std::string_view key) {
    return node.has(key) ? node.at(key).number(kCostRange) : 0;
  }

  void build() {
    CostColumn column;
    for (const double cost : costs_) column.add(cost);
    for (const auto& pages : page_costs_)
      for (const double cost : pages) column.add(cost);
    if (has_link_) {
      offer_quick_pages();
      for (const auto& row : storages_)
        for (const double ns_per_byte : {out_ns_per_byte_, in_ns_per_byte_})
          if (row.swappable) column.add(page_ns(row, ns_per_byte));
    }
    costs_of_.quantum = column.quantum();
    const auto quanta = [&](double cost) { return CostColumn::quanta(cost, costs_of_.quantum); };
    graph_build::CapturedGraphBuilder builder(costs_of_);
    for (std::size_t s = 0; s < storages_.size(); ++s) {
      auto& row = storages_[s];
      if (row.swappable) {
        GivenCopies& copies = row.copies.emplace();
        copies.out.compute = quanta(page_costs_[s][0]);
        copies.in.compute = quanta(page_costs_[s][1]);
        if (has_link_) {
          copies.out.link = quanta(page_ns(row, out_ns_per_byte_));
          copies.in.link = quanta(page_ns(row, in_ns_per_byte_));
        }
      }
      builder.add(std::move(row));
    }
    for (std::size_t v = 0; v < ops_.size(); ++v) {
      ops_[v].cost = quanta(costs_[v]);
      builder.add(std::move(ops_[v]));
    }
    step_.graph = std::move(builder).build();
  }

  /// A page that takes far longer than the step helps nobody, and would leave no digits for the costs of ops.
  void offer_quick_pages() {
    constexpr double kSteps = 100;
    const double most = kSteps * std::accumulate(costs_.begin(), costs_.end(), 0.0);
    for (auto& row : storages_)
      row.swappable = row.swappable && page_ns(row, std::max(out_ns_per_byte_, in_ns_per_byte_)) <= most;
  }

  [[nodiscard]] double page_ns(const graph_build::CapturedGraphBuilder::StorageRow& row, double ns_per_byte) const {
    return std::ceil(latency_ns_ + ns_per_byte * static_cast<double>(row.bytes));
  }

  JsonNode top_;
  CapturedStep step_;
  GivenCosts costs_of_{.unit = GivenCosts::Unit::one};
  bool has_link_ = false;
  std::vector<graph_build::CapturedGraphBuilder::StorageRow> storages_;
  std::vector<graph_build::CapturedGraphBuilder::OpRow> ops_;
  std::int64_t op_count_ = 0;
  Bytes sum_bytes_ = 0;
  double out_ns_per_byte_ = 0, in_ns_per_byte_ = 0, latency_ns_ = 0;  // of the link
  std::vector<double> costs_;
  std::vector<std::array<double, 2>> page_costs_;
};

}  // namespace

Result<CapturedStep> read_captured_step_json(std::string_view text, std::string_view file_name,
                                             StepObjective objective) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the graph");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode top(document.value(), mistake);
  CapturedStep step = JsonReader(top).read();
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  const GivenCosts::Unit needed = objective == StepObjective::time ? GivenCosts::Unit::ns : GivenCosts::Unit::joule;
  if (objective != StepObjective::cost && step.graph.given_costs.unit != needed)
    return bad_input(fmt::format("{}: /cost_unit: costs are in '{}'; --objective {} needs '{}'", file_name,
                                 kUnits[static_cast<std::size_t>(step.graph.given_costs.unit)],
                                 objective == StepObjective::time ? "time" : "energy",
                                 kUnits[static_cast<std::size_t>(needed)]));
  return step;
}

}  // namespace tidemark::formats
