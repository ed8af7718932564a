#include "integrations/formats/price_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using prices::Basis;
using prices::SwitchPrice;
using prices::SwitchSide;
using PriceJson = nlohmann::ordered_json;

constexpr double kSecondsPerNs = 1e-9;

std::string seconds_text(const SwitchSide& side) {
  return fmt::format("{:.3f}", static_cast<double>(side.step_ns) * kSecondsPerNs);
}

std::string bubble_text(const SwitchSide& side) {
  return fmt::format("{:.2f}", 100 * side.bubble_share);
}

void add_price(const SwitchPrice& price, TextTable& table) {
  const SwitchSide &off = *price.off, &on = *price.on;
  table.add({std::string(price.name), off.setting, on.setting, seconds_text(off), seconds_text(on),
             fmt::format("{:+.2f}", price.gain_percent()), gib_text(off.peak_bytes), gib_text(on.peak_bytes),
             gib_text(off.host_bytes), gib_text(on.host_bytes), bubble_text(off), bubble_text(on)});
}

std::string prices_of(const prices::PriceTable& table, Basis basis) {
  TextTable text({"switch", "off", "on", "step s off", "on", "gain %", "peak GiB off", "on", "host GiB off", "on",
                  "bubble % off", "on"},
                 {0, 1, 2});
  for (const SwitchPrice& price : table.prices)
    if (price.off && price.basis == basis) add_price(price, text);
  return text.text(2);
}

std::string published_text(const prices::PriceTable& table) {
  TextTable text({"switch", "modelled here", "published", "by"}, {0, 1, 2, 3});
  bool is_empty = true;
  for (const SwitchPrice& price : table.prices) {
    if (!price.off || !price.published) continue;
    is_empty = false;
    text.add({std::string(price.name),
              fmt::format("{} s -> {} s, peak {} -> {} GiB, bubble {} -> {} %", seconds_text(*price.off),
                          seconds_text(*price.on), gib_text(price.off->peak_bytes), gib_text(price.on->peak_bytes),
                          bubble_text(*price.off), bubble_text(*price.on)),
              std::string(price.published->text), std::string(price.published->source)});
  }
  return is_empty ? "" : "\nBeside what is published, of other jobs where it says so\n" + text.text(2);
}

std::string sources_text(const prices::PriceTable& table) {
  TextTable text({"switch", "constant", "note"}, {0, 1, 2});
  for (const SwitchPrice& price : table.prices)
    if (price.off) text.add({std::string(price.name), std::string(price.constant), price.note});
  return "\nWhere the constants come from\n" + text.text(2);
}

std::string left_out_text(const prices::PriceTable& table) {
  TextTable text({"switch", "why not"}, {0, 1});
  bool is_empty = true;
  for (const SwitchPrice& price : table.prices) {
    if (price.off) continue;
    is_empty = false;
    text.add({std::string(price.name), price.why_not});
  }
  return is_empty ? "" : "\nOf no meaning for this job\n" + text.text(2);
}

PriceJson json_of(const SwitchSide& side) {
  return {{"setting", side.setting},
          {"step_ms", static_cast<double>(side.step_ns) * 1e-6},
          {"peak_bytes", side.peak_bytes},
          {"host_bytes", side.host_bytes},
          {"bubble_percent", 100 * side.bubble_share}};
}

PriceJson json_of(const SwitchPrice& price) {
  PriceJson json = {{"switch", std::string(price.name)},
                    {"basis", price.basis == Basis::ops ? "ops" : "passes"},
                    {"off", price.off ? json_of(*price.off) : PriceJson(nullptr)},
                    {"on", price.on ? json_of(*price.on) : PriceJson(nullptr)},
                    {"gain_percent", price.off ? PriceJson(price.gain_percent()) : PriceJson(nullptr)},
                    {"why_not", price.off ? PriceJson(nullptr) : PriceJson(price.why_not)},
                    {"constant", std::string(price.constant)},
                    {"note", price.note},
                    {"published", nullptr}};
  if (price.published)
    json["published"] = {{"text", std::string(price.published->text)},
                         {"source", std::string(price.published->source)}};
  return json;
}

}  // namespace

std::string price_table_text(const prices::PriceRequest& request, const prices::PriceTable& table) {
  return fmt::format(
             "{} on {}: prices of switches, one at a time, with everything kept (modelled)\n"
             "  step {} s, peak {} GiB, bubble {} %\n"
             "\nOp by op\n",
             request.job.model.name, request.machine.name, seconds_text(table.own), gib_text(table.own.peak_bytes),
             bubble_text(table.own)) +
         prices_of(table, Basis::ops) +
         "\nPass by pass, against the job's own schedule without forward beside backward; without the end of the "
         "step\n" +
         prices_of(table, Basis::passes) + published_text(table) + sources_text(table) + left_out_text(table);
}

std::string price_table_json(const prices::PriceRequest& request, const prices::PriceTable& table) {
  PriceJson json = {{"model", request.job.model.name},
                    {"device", request.machine.name},
                    {"time_is", "modelled"},
                    {"own", json_of(table.own)},
                    {"prices", PriceJson::array()}};
  json["own"].erase("setting");
  for (const SwitchPrice& price : table.prices) json["prices"].push_back(json_of(price));
  return json.dump(2) + "\n";
}

}  // namespace tidemark::formats
