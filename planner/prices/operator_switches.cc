#include "planner/prices/operator_switches.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/op_work.h"
#include "planner/graph_build/device_shapes.h"
#include "planner/prices/operator_use.h"

namespace tidemark::prices {
namespace {

/// Every storage of the template of `storage` holds so many bytes more at load 1.
void keep_more(Graph& graph, StorageId storage, double bytes) {
  const StorageTemplateId id = graph.storages[row(storage)].storage_template;
  StorageTemplate& of = graph.storage_templates[row(id)];
  const StorageTemplate before = of;
  if (of.routed_rows > 0) {
    of.routed_row_bytes += std::llround(bytes / static_cast<double>(of.routed_rows));
  } else {
    of.fixed_bytes += std::llround(bytes);
  }
  for (Storage& each : graph.storages) {
    if (each.storage_template != id) continue;
    const SiteLoad loads = graph.sites[row(each.site)].loads();
    each.bytes += storage_bytes(of, loads) - storage_bytes(before, loads);
    each.expected_bytes += storage_bytes(of, {}) - storage_bytes(before, {});
  }
}

bool is_product(const OpTemplate& op) {
  return op.cost.kind == WorkKind::matmul || op.cost.kind == WorkKind::grouped_matmul;
}

/// Of all products of an op one by one: each fills the cores by itself.
double looped_s(OpTemplate op, const Chip& chip) {
  const double count = op.cost.product.count;
  op.cost.kind = WorkKind::matmul;
  op.cost.product.count = 1;
  op.cost.memory_bytes = 0;
  return count * cost::op_work(op, chip, 1, 1).device_s;
}

double grouped_s(OpTemplate op, const Chip& chip) {
  op.cost.memory_bytes = 0;
  return cost::op_work(op, chip, 1, 1).device_s;
}

struct OperatorLine {
  std::string_view name, plain;
  Operator op;
};
constexpr OperatorLine kLines[] = {
    {.name = "fused RMSNorm", .plain = "8 kernels, 16 back", .op = Operator::rms_norm},
    {.name = "fused SwiGLU", .plain = "2 kernels, 4 back", .op = Operator::swiglu},
    {.name = "fused rotary embedding", .plain = "5 kernels, 5 back", .op = Operator::rotary},
    {.name = "fused permute", .plain = "3 kernels, 2 back", .op = Operator::permute},
    {.name = "fused unpermute", .plain = "4 kernels, 4 back", .op = Operator::unpermute}};

constexpr std::string_view kCounted = "kernels of the plain expression counted (design/switch_prices.md)";
constexpr std::string_view kProducts =
    "waves of tiles of each product (planner/cost/matmul_time.h); a launch an expert";
constexpr std::string_view kAdded = "bytes counted: 12 for 8 an element of a gradient; a launch a product";

/// Whether a change does anything to any rank's costs.
bool changes_any(const KeptStep& step, const Change& change) {
  return std::ranges::any_of(step.graphs(), [&](const Graph& graph) {
    ChangedRank rank{.graph = graph};
    change(rank);
    for (std::size_t i = 0; i < graph.op_templates.size(); ++i) {
      const OpCost &now = rank.graph.op_templates[i].cost, &before = graph.op_templates[i].cost;
      if (now.launches != before.launches || now.memory_bytes != before.memory_bytes) return true;
    }
    return false;
  });
}

struct OperatorChange {
  std::string_view name;
  std::string off;
  std::string_view constant, why_not;
  Change change;
};

std::vector<OperatorChange> changes_of(const KeptStep& step) {
  const PriceRequest& request = step.request();
  std::vector<OperatorChange> changes;
  for (const OperatorLine& line : kLines)
    changes.push_back({.name = line.name,
                       .off = std::string(line.plain),
                       .constant = kCounted,
                       .why_not = "the job has no such operator",
                       .change = [op = line.op, &request](ChangedRank& rank) { unfuse(op, request, rank); }});
  changes.push_back({.name = "grouped expert products",
                     .off = "a product an expert",
                     .constant = kProducts,
                     .why_not = "no device has several experts",
                     .change = [&request](ChangedRank& rank) { loop_over_experts(request, rank); }});
  changes.push_back({.name = "gradients added in the product",
                     .off = "added apart",
                     .constant = kAdded,
                     .why_not = "the job has no products",
                     .change = [](ChangedRank& rank) { add_gradients_apart(rank); }});
  return changes;
}

Result<SwitchPrice> priced(const KeptStep& step, const OperatorChange& change) {
  SwitchPrice price{.name = change.name, .constant = change.constant};
  if (!changes_any(step, change.change)) {
    price.why_not = std::string(change.why_not);
    return price;
  }
  Result<SwitchSide> off = step.changed(change.change);
  if (!off) return off.error();
  price.off = std::move(off).value();
  price.off->setting = change.off;
  price.on = step.side();
  price.on->setting = "fused";
  return price;
}

}  // namespace

void unfuse(Operator op, const PriceRequest& request, ChangedRank& rank) {
  Graph& graph = rank.graph;
  const graph_build::ModelSpec& model = request.job.model;
  const graph_build::DeviceShapes shapes = graph_build::device_shapes(request.job, request.machine);
  const bool scales_rows = model.moe.probabilities == graph_build::MoeSpec::Probabilities::at_unpermute;
  const EagerOperator eager = eager_operator(op, scales_rows);
  const std::vector<std::int32_t> first = first_ops(graph);
  struct Kept {
    StorageId storage;
    double bytes = 0;
  };
  std::vector<Kept> kept;  // sizes of storages tell elements, so they grow when all is read
  for (std::size_t i = 0; i < graph.op_templates.size(); ++i) {
    if (first[i] < 0) continue;
    const auto example = static_cast<OpId>(first[i]);
    const std::optional<OperatorUse> use = operator_use(graph, example, model, shapes);
    if (!use || use->op != op) continue;
    const EagerPass& pass = use->is_backward ? eager.backward : eager.forward;
    OpCost& cost = graph.op_templates[i].cost;
    cost.memory_bytes += use->elements * pass.more_bytes();
    cost.launches += use->tensors * pass.more_launches();
    if (use->is_backward || eager.more_saved_bytes <= 0) continue;
    if (const auto storage = first_activation_read(graph, example))
      kept.push_back({.storage = *storage, .bytes = use->elements * eager.more_saved_bytes});
  }
  for (const Kept& each : kept) keep_more(graph, each.storage, each.bytes);
  rank.resizes = rank.resizes || !kept.empty();
}

void loop_over_experts(const PriceRequest& request, ChangedRank& rank) {
  const Chip& chip = request.machine.chip;
  const double bytes_per_s = chip.sheet.memory_bytes_per_s * chip.rates.memory;
  for (OpTemplate& op : rank.graph.op_templates) {
    if (op.cost.kind != WorkKind::grouped_matmul || op.cost.product.count <= 1) continue;
    // An op has one product shape: what the loop takes longer stands beside it as bytes that take as long.
    op.cost.memory_bytes += (looped_s(op, chip) - grouped_s(op, chip)) * bytes_per_s;
    op.cost.launches += op.cost.product.count - 1;
  }
}

void add_gradients_apart(ChangedRank& rank) {
  constexpr double kMoreBytes = 12 - 8;  // written in 16 bits, read again, sum read and written; for sum alone
  constexpr double kHeldBytes = 2;
  rank.transient_bytes.resize(rank.graph.op_templates.size(), 0);
  for (std::size_t i = 0; i < rank.graph.op_templates.size(); ++i) {
    OpTemplate& op = rank.graph.op_templates[i];
    if (op.phase != OpPhase::weight_gradient || !is_product(op)) continue;
    const ProductShape& p = op.cost.product;
    const double elements = p.count * p.rows * p.columns;
    op.cost.memory_bytes += kMoreBytes * elements;
    op.cost.launches += 1;
    rank.transient_bytes[i] = std::llround(kHeldBytes * elements);
  }
}

Result<std::vector<SwitchPrice>> operator_prices(const KeptStep& step) {
  std::vector<SwitchPrice> prices;
  const std::vector<OperatorChange> changes = changes_of(step);
  for (const OperatorChange& change : changes) {
    Result<SwitchPrice> price = priced(step, change);
    if (!price) return price.error();
    prices.push_back(std::move(price).value());
  }
  Result<SwitchPrice> all = priced(step, {.name = "all of these operators",
                                          .off = "all plain",
                                          .constant = "the lines above together",
                                          .why_not = "the job has none",
                                          .change = [&](ChangedRank& rank) {
                                            for (const OperatorChange& change : changes) change.change(rank);
                                          }});
  if (!all) return all.error();
  if (step.request().job.model.name == kPanguModel)
    all.value().published =
        PublishedPrice{.text = "operator work +15 %, with FlashAttention +50 % forward and +30 % backward",
                       .source = "Huawei on Pangu Ultra MoE, June 2025 (secondary)"};
  prices.push_back(std::move(all).value());
  return prices;
}

}  // namespace tidemark::prices
