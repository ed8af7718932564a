#include "planner/prices/switch_prices.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "planner/prices/exchange_switches.h"
#include "planner/prices/host_switches.h"
#include "planner/prices/operator_switches.h"
#include "planner/prices/schedule_switches.h"

namespace tidemark::prices {

Result<PriceTable> price_switches(const PriceRequest& request) {
  std::optional<tbb::global_control> limit;
  if (request.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(request.threads));
  const Result<KeptStep> step = KeptStep::build(request);
  if (!step) return step.error();
  PriceTable table{.own = step.value().side()};
  for (auto* prices_of : {operator_prices, host_prices, exchange_prices, schedule_prices}) {
    Result<std::vector<SwitchPrice>> prices = prices_of(step.value());
    if (!prices) return prices.error();
    std::ranges::move(prices.value(), std::back_inserter(table.prices));
  }
  return table;
}

}  // namespace tidemark::prices
