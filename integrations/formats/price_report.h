#pragma once
// What `tidemark simulate --prices` prints: a table of switches, each off and on. All of it is modelled but the column
// of published figures.

#include <string>

#include "planner/prices/switch_prices.h"

namespace tidemark::formats {

[[nodiscard]] std::string price_table_text(const prices::PriceRequest& request, const prices::PriceTable& table);
[[nodiscard]] std::string price_table_json(const prices::PriceRequest& request, const prices::PriceTable& table);

}  // namespace tidemark::formats
