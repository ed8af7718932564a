#include "integrations/formats/import_measured_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/bytes.h"
#include "integrations/formats/csv_table.h"
#include "integrations/formats/json_node.h"

namespace tidemark::formats {
namespace {

using estimate::MeasuredRank;
using Ranks = std::vector<MeasuredRank>;

constexpr std::int64_t kMostRanks = 1 << 24;
constexpr RealRange kMeasuredMib = {.least = 0, .most = 1e9, .open = true};

/// What makes a rank one more of those before; or nothing.
std::string refusal_of(const MeasuredRank& rank, std::set<std::int64_t>& before) {
  if (!before.insert(*rank.rank).second)
    return fmt::format("rank {} is there twice; one figure per rank is needed", *rank.rank);
  if (rank.peak_bytes && *rank.peak_bytes < *rank.steady_bytes)
    return fmt::format("rank {}: max_allocated_mib must not be below allocated_mib", *rank.rank);
  return {};
}

Result<Ranks> read_json(std::string_view text, std::string_view file_name) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the measurement");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode list = JsonNode(document.value(), mistake).at("ranks");
  Ranks ranks;
  std::set<std::int64_t> before;
  for (std::size_t i = 0; i < list.size() && list.clean(); ++i) {
    const JsonNode at = list.item(i);
    MeasuredRank rank{.rank = at.at("rank").integer(0, kMostRanks),
                      .steady_bytes = at.at("allocated_mib").number(kMeasuredMib) * kMiB};
    if (at.has("max_allocated_mib") && !at.at("max_allocated_mib").is_null())
      rank.peak_bytes = at.at("max_allocated_mib").number(kMeasuredMib) * kMiB;
    if (const std::string refusal = refusal_of(rank, before); !refusal.empty()) at.wrong(refusal);
    ranks.push_back(rank);
  }
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  return ranks;
}

Result<double> read_mib(std::string_view name, std::string_view text) {
  const Result<std::int64_t> bytes = read_scaled(name, text, kMiB);
  if (!bytes) return bytes.error();
  if (bytes.value() == 0) return bad_input(fmt::format("{} is 0; it must be above 0", name));
  return static_cast<double>(bytes.value());
}

Result<Ranks> read_csv(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<std::size_t> rank = csv.value().get("rank");
  if (!rank) return rank.error();
  const Result<std::size_t> steady = csv.value().get("allocated_mib");
  if (!steady) return steady.error();
  const std::optional<std::size_t> peak = csv.value().find("max_allocated_mib");
  Ranks ranks;
  std::set<std::int64_t> before;
  const Status status = csv.value().for_each([&](const CsvRow& row) -> Status {
    const Result<std::int64_t> number = read_whole("rank", row.fields[rank.value()], 0, kMostRanks);
    if (!number) return number.error();
    const Result<double> allocated = read_mib("allocated_mib", row.fields[steady.value()]);
    if (!allocated) return allocated.error();
    MeasuredRank at{.rank = number.value(), .steady_bytes = allocated.value()};
    if (peak && !row.fields[*peak].empty()) {
      const Result<double> most = read_mib("max_allocated_mib", row.fields[*peak]);
      if (!most) return most.error();
      at.peak_bytes = most.value();
    }
    if (const std::string refusal = refusal_of(at, before); !refusal.empty()) return bad_input(refusal);
    ranks.push_back(at);
    return {};
  });
  if (!status) return status.error();
  return ranks;
}

}  // namespace

Result<Ranks> read_measured_memory(std::string_view text, std::string_view file_name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  Result<Ranks> ranks = is_json ? read_json(text, file_name) : read_csv(text, file_name);
  if (!ranks) return ranks.error();
  if (ranks.value().empty())
    return bad_input(fmt::format("{}: holds no rank; one line or member per rank is needed", file_name));
  return ranks;
}

}  // namespace tidemark::formats
