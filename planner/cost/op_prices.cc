#include "planner/cost/op_prices.h"

#include <cmath>

#include "planner/cost/nanoseconds.h"
#include "planner/cost/op_work.h"
#include "planner/cost/rounded_max.h"

namespace tidemark::cost {
namespace {

constexpr std::int32_t kNoBlock = -1;
constexpr double kLeastShare = 1e-9;  ///< of rows: the first ones

/// Passes that a block's sites run for every micro-batch.
bool is_of_pass(const OpTemplate& op) {
  return op.phase == OpPhase::forward || op.phase == OpPhase::backward || op.phase == OpPhase::weight_gradient;
}

}  // namespace

OpPrices::OpPrices(const Graph& graph, const Machine& machine)
    : graph_(graph), machine_(machine), block_of_(graph.op_templates.size(), kNoBlock) {
  for (const Block& block : graph.blocks) {
    const BlockTime time = time_of(block);
    if (time.host_s > 0)
      for (std::int32_t op = 0; op < block.op_template_count; ++op)
        block_of_[row(block.first_op_template) + static_cast<std::size_t>(op)] =
            static_cast<std::int32_t>(blocks_.size());
    blocks_.push_back(time);
  }
}

OpPrices::BlockTime OpPrices::time_of(const Block& block) const {
  BlockTime time;
  for (std::int32_t i = 0; i < block.op_template_count; ++i) {
    const OpTemplate& op = graph_.op_templates[row(block.first_op_template) + static_cast<std::size_t>(i)];
    if (!is_of_pass(op)) continue;
    const OpWork work = op_work(op, machine_.chip, 1, 1);
    DeviceTime device{.kept_s = op_work(op, machine_.chip, 1, kLeastShare).device_s};
    (op.routed ? device.routed_s : device.even_s) = work.device_s - device.kept_s;
    time.all += device;
    if (op.lane == Lane::compute) time.compute += device;
    time.host_s += work.host_s;
  }
  return time;
}

OpPrices::Shares OpPrices::shares(OpTemplateId op, double load, std::int32_t chunks) const {
  const std::int32_t of = block_of_[row(op)];
  if (of == kNoBlock) return {};
  const BlockTime& block = blocks_[static_cast<std::size_t>(of)];
  const bool computes = graph_.op_templates[row(op)].lane == Lane::compute;
  const double device_s = (computes ? block.compute : block.all).at(load, chunks);
  const double both_s = rounded_max(device_s, block.host_s, kHostSharpness);
  return {.device = std::pow(device_s / both_s, kHostSharpness - 1),
          .host = std::pow(block.host_s / both_s, kHostSharpness - 1)};
}

double OpPrices::chunk_ns(OpTemplateId id, double load, std::int32_t chunks) const {
  const OpTemplate& op = graph_.op_templates[row(id)];
  if (op.phase == OpPhase::receive) return 0;
  if (op.cost.kind == WorkKind::given) return op.cost.given / chunks;
  const OpWork work = op_work(op, machine_.chip, load, 1.0 / chunks);
  const Shares share = shares(id, load, chunks);
  return kNsPerSecond * (share.device * work.device_s + share.host * work.host_s);
}

std::int64_t OpPrices::ns(OpTemplateId op, double load) const {
  return std::llround(chunk_ns(op, load, 1));
}

bool OpPrices::varies(OpTemplateId op) const {
  const std::int32_t of = block_of_[row(op)];
  return graph_.op_templates[row(op)].routed ||
         (of != kNoBlock && blocks_[static_cast<std::size_t>(of)].all.routed_s > 0);
}

OpTimes::OpTimes(const Graph& graph, const Machine& machine, double time_scale)
    : graph_(graph), prices_(graph, machine), time_scale_(time_scale), known_(graph.op_templates.size()) {}

std::int64_t OpTimes::ns(OpTemplateId op, SiteId site) {
  const double load = site == kNone<SiteId> ? 1.0 : static_cast<double>(graph_.sites[row(site)].fullest_load);
  Known& last = known_[row(op)];
  if (last.load != load) {
    const double scale = graph_.op_templates[row(op)].lane == Lane::compute ? time_scale_ : 1.0;
    last = {.load = load, .ns = std::llround(scale * prices_.chunk_ns(op, load, 1))};
  }
  return last.ns;
}

std::vector<std::int64_t> op_durations(const Graph& graph, const Machine& machine, double time_scale) {
  OpTimes times(graph, machine, time_scale);
  std::vector<std::int64_t> durations;
  durations.reserve(graph.ops.size());
  for (const Op& op : graph.ops) durations.push_back(times.ns(op.op_template, op.site));
  return durations;
}

}  // namespace tidemark::cost
