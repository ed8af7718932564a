#include "planner/prices/exchange_switches.h"

#include <fmt/format.h>

#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/expert_exchange.h"
#include "planner/prices/schedule_parts.h"

namespace tidemark::prices {
namespace {

using graph_build::JobSpec;
using graph_build::ParallelSpec;

/// A key of the job, both ways.
struct KeySwitch {
  std::string_view name;
  bool is_on = false;    ///< as the job has it
  JobSpec other;         ///< the job the other way
  bool overlaps = true;  ///< false: neither side has forward beside backward
  std::string off, on;   ///< what it is set to
  std::string why_not;   ///< it changes nothing in this job; empty: it does
  std::string note;
};

Result<SwitchSide> side_of(const PriceRequest& request) {
  const Result<KeptStep> step = KeptStep::build(request);
  if (!step) return step.error();
  return step.value().side();
}

Result<SwitchPrice> switched(const KeptStep& step, const KeySwitch& key) {
  SwitchPrice price{.name = key.name,
                    .why_not = key.why_not,
                    .constant = "the job's key switched, rates of the device",
                    .note = key.note};
  if (!price.why_not.empty()) return price;
  if (const auto problems = graph_build::find_problems(key.other); !problems.empty()) {
    price.why_not = problems.front().key + ": " + problems.front().message;
    return price;
  }
  PriceRequest request = step.request();
  Result<SwitchSide> own = step.side();
  if (!key.overlaps && request.job.parallel.overlap_forward_backward) {
    request.job.parallel.overlap_forward_backward = false;
    own = side_of(request);
  }
  request.job = key.other;
  const Result<SwitchSide> other = side_of(request);
  if (!own) return own.error();
  if (!other) return other.error();
  price.off = key.is_on ? other.value() : own.value();
  price.on = key.is_on ? own.value() : other.value();
  price.off->setting = key.off;
  price.on->setting = key.on;
  return price;
}

KeySwitch hierarchical(const PriceRequest& request) {
  KeySwitch key{.name = "hierarchical exchange",
                .is_on = request.job.parallel.hierarchical_expert_communication,
                .other = request.job,
                .off = "all-to-all",
                .on = "all-gather between nodes"};
  bool& flag = key.other.parallel.hierarchical_expert_communication;
  flag = !flag;
  const graph_build::DeviceShapes shapes = graph_build::device_shapes(request.job, request.machine);
  if (!request.job.model.has_experts()) {
    key.why_not = "the model has no experts";
  } else if (shapes.expert_group.nodes < 2) {
    key.why_not = "the devices of an expert group share a node";
  }
  return key;
}

KeySwitch overlap(const PriceRequest& request) {
  KeySwitch key{.name = "forward beside backward",
                .is_on = request.job.parallel.overlap_forward_backward,
                .other = request.job,
                .off = "one after the other",
                .on = "interleaved"};
  bool& flag = key.other.parallel.overlap_forward_backward;
  flag = !flag;
  return key;
}

KeySwitch parts(const PriceRequest& request) {
  const ParallelSpec& p = request.job.parallel;
  const std::int32_t on = p.expert_exchange_parts > 1 ? p.expert_exchange_parts : 2;
  KeySwitch key{.name = "exchange in parts",
                .is_on = p.expert_exchange_parts > 1,
                .other = request.job,
                .off = "1 part",
                .on = fmt::format("{} parts", on)};
  key.other.parallel.expert_exchange_parts = key.is_on ? 1 : on;
  const graph_build::DeviceShapes shapes = graph_build::device_shapes(request.job, request.machine);
  if (!request.job.model.has_experts()) {
    key.why_not = "the model has no experts";
  } else if (!graph_build::exchanges_rows(shapes)) {
    key.why_not = "no rows leave a device";
  }
  return key;
}

KeySwitch chunks(const KeptStep& step) {
  const PriceRequest& request = step.request();
  const ParallelSpec& p = request.job.parallel;
  const std::int32_t on = p.virtual_pipeline > 1 ? p.virtual_pipeline : 2;
  KeySwitch key{.name = "chunks of a rank",
                .is_on = p.virtual_pipeline > 1,
                .other = request.job,
                .off = "1 chunk",
                .on = fmt::format("{} chunks", on),
                .note = fmt::format("{} has its layers where they make ranks equally busy",
                                    p.virtual_pipeline > 1 ? "off" : "on")};
  if (p.pipeline == 1) {
    key.why_not = "one rank has no pipeline";
    return key;
  }
  // Pairs of passes of one chunk wait for each other all along the pipeline: no chunks, no overlap.
  key.overlaps = false;
  if (p.overlap_forward_backward) key.note += "; forward and backward one after the other on both sides";
  key.other = ScheduleParts(step).balanced(request.job, key.is_on ? 1 : on, graph_build::StagePlacement::looped);
  key.other.parallel.overlap_forward_backward = false;
  return key;
}

}  // namespace

Result<std::vector<SwitchPrice>> exchange_prices(const KeptStep& step) {
  std::vector<SwitchPrice> prices;
  for (const KeySwitch& key :
       {hierarchical(step.request()), overlap(step.request()), parts(step.request()), chunks(step)}) {
    Result<SwitchPrice> price = switched(step, key);
    if (!price) return price.error();
    prices.push_back(std::move(price).value());
  }
  prices[1].published = PublishedPrice{.text = "24.71 s -> 20.99 s, Qwen3-30B on 16 H100",
                                       .source = "NVIDIA Megatron-Bridge, matched experiments (measured)"};
  if (step.request().job.model.name == kPanguModel) {
    prices[0].published =
        PublishedPrice{.text = "with overlap 95 % of the exchange hidden", .source = "arXiv 2505.04519"};
    prices[3].published = PublishedPrice{.text = "bubble 18.98 % -> 10.49 %", .source = "arXiv 2505.04519"};
  }
  return prices;
}

}  // namespace tidemark::prices
