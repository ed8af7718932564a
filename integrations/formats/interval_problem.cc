#include "integrations/formats/interval_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "integrations/formats/shown.h"
#include "planner/layout/check_packing.h"
#include "planner/layout/order.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMostPairs = 20'000'000;

std::optional<Bytes> address_of(const IntervalTable::Row& row, const IntervalRules& rules) {
  if (row.fixed) return row.fixed;
  return rules.repack ? std::nullopt : row.offset;
}

/// Per group the row that says where it lies, or -1. Errors: two rows that say different addresses, even where one of
/// them is away all its life and holds no bytes.
Result<std::vector<std::int32_t>> fixed_groups(const IntervalTable& table, const IntervalRules& rules,
                                               std::string_view file_name) {
  std::vector<std::int32_t> fixed(table.groups.size(), -1);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const IntervalTable::Row& row = table.rows[r];
    const std::optional<Bytes> address = address_of(row, rules);
    if (row.group < 0 || !address) continue;
    std::int32_t& says = fixed[static_cast<std::size_t>(row.group)];
    if (says < 0) says = static_cast<std::int32_t>(r);
    const IntervalTable::Row& other = table.rows[static_cast<std::size_t>(says)];
    if (address_of(other, rules) != address)
      return bad_input(
          fmt::format("{}:{}: buffers {} (line {}) and {} (line {}) are fixed to different addresses of one group",
                      file_name, row.line, shown(other.id), other.line, shown(row.id), row.line));
  }
  return fixed;
}

/// Where the row must lie: as it says itself, or as another one of its group does.
std::optional<Bytes> bound_address(const IntervalTable& table, const IntervalTable::Row& row,
                                   const IntervalRules& rules, const std::vector<std::int32_t>& fixed) {
  const std::int32_t says = row.group < 0 ? -1 : fixed[static_cast<std::size_t>(row.group)];
  return says < 0 ? address_of(row, rules) : address_of(table.rows[static_cast<std::size_t>(says)], rules);
}

std::optional<Bytes> hint_of(const IntervalTable::Row& row, const IntervalRules& rules) {
  return rules.repack && row.offset ? row.offset : row.hint;
}

/// Per group the alignment that suits every row of it, even those away all their lives; 0: beyond what is packed, which
/// is found, and told, row by row.
std::vector<Bytes> group_alignments(const IntervalTable& table) {
  constexpr Bytes kMost = Bytes{1} << 40;
  std::vector<Bytes> alignments(table.groups.size(), 1);
  for (const IntervalTable::Row& row : table.rows) {
    if (row.group < 0) continue;
    Bytes& alignment = alignments[static_cast<std::size_t>(row.group)];
    if (alignment == 0) continue;
    const Bytes factor = row.alignment_bytes / std::gcd(alignment, row.alignment_bytes);
    alignment = alignment > kMost / factor ? 0 : alignment * factor;
  }
  return alignments;
}

/// Begins (even) and ends (odd) of the stays as ranks, and the time of every rank.
struct Ranks {
  std::vector<std::int32_t> of_moment;
  std::vector<std::int64_t> times;
};

Ranks ranks_of(const std::vector<IntervalStay>& stays) {
  std::vector<layout::SortKey> moments;
  moments.reserve(2 * stays.size());
  for (const IntervalStay& stay : stays)
    for (const std::int64_t time : {stay.begin, stay.end})
      moments.push_back({.first = time, .row = static_cast<std::uint32_t>(moments.size())});
  layout::sort_keys(moments);
  Ranks ranks{.of_moment = std::vector<std::int32_t>(moments.size())};
  for (const layout::SortKey& moment : moments) {
    if (ranks.times.empty() || ranks.times.back() != moment.first) ranks.times.push_back(moment.first);
    ranks.of_moment[moment.row] = static_cast<std::int32_t>(ranks.times.size()) - 1;
  }
  return ranks;
}

/// A column of the problem, with `value(row, stay)` for every item.
template <class Value, class Read>
std::vector<Value> column_of(const IntervalTable& table, const std::vector<IntervalStay>& stays, Read value) {
  std::vector<Value> column;
  column.reserve(stays.size());
  for (const IntervalStay& stay : stays) column.push_back(value(table.rows[static_cast<std::size_t>(stay.row)], stay));
  return column;
}

/// The part of the problem that most tables do without.
void add_needs(const IntervalTable& table, const std::vector<IntervalStay>& stays, const IntervalRules& rules,
               const std::vector<std::int32_t>& fixed, layout::PackProblem& problem) {
  using Row = IntervalTable::Row;
  const auto any = [&](auto has) { return std::ranges::any_of(table.rows, has); };
  const Bytes unit = rules.alignment_bytes;
  if (!table.gaps.empty() || !table.groups.empty()) {
    const auto rows = static_cast<std::int32_t>(table.rows.size());
    problem.block_of = column_of<std::int32_t>(table, stays, [rows](const Row& row, const IntervalStay& stay) {
      return row.group < 0 ? stay.row : rows + row.group;
    });
  }
  if (!table.gaps.empty())
    problem.shift = column_of<Bytes>(table, stays,
                                     [unit](const Row&, const IntervalStay& stay) { return stay.shift / unit * unit; });
  const auto shifted = [unit](std::optional<Bytes> address, const IntervalStay& stay) {
    return address ? *address + stay.shift / unit * unit : layout::kAnywhere;
  };
  if (any([](const Row& row) { return row.alignment_bytes != 1; })) {
    const std::vector<Bytes> of_group = group_alignments(table);
    problem.own_alignment = column_of<Bytes>(table, stays, [&](const Row& row, const IntervalStay&) {
      const Bytes group = row.group < 0 ? 0 : of_group[static_cast<std::size_t>(row.group)];
      return group > 0 ? group : row.alignment_bytes;
    });
  }
  if (any([&](const Row& row) { return address_of(row, rules).has_value(); }))
    problem.fixed_offset = column_of<Bytes>(table, stays, [&](const Row& row, const IntervalStay& stay) {
      return shifted(bound_address(table, row, rules, fixed), stay);
    });
  if (any([&](const Row& row) { return hint_of(row, rules).has_value(); }))
    problem.hint = column_of<Bytes>(
        table, stays, [&](const Row& row, const IntervalStay& stay) { return shifted(hint_of(row, rules), stay); });
}

/// Every stay of the one row with every stay of the other. False: more than anybody means.
[[nodiscard]] bool add_apart(const IntervalTable& table, const std::vector<std::int32_t>& row_of,
                             layout::PackProblem& problem) {
  if (table.apart.empty()) return true;
  const auto items_of = [&](std::int32_t row) {
    const auto [first, last] = std::equal_range(row_of.begin(), row_of.end(), row);
    return std::pair(static_cast<std::int32_t>(first - row_of.begin()),
                     static_cast<std::int32_t>(last - row_of.begin()));
  };
  for (const auto& [a, b] : table.apart) {
    const auto [first_a, last_a] = items_of(a);
    const auto [first_b, last_b] = items_of(b);
    for (std::int32_t i = first_a; i < last_a; ++i) {
      if (std::ssize(problem.apart) + (last_b - first_b) > kMostPairs) return false;
      for (std::int32_t j = first_b; j < last_b; ++j) problem.apart.emplace_back(i, j);
    }
  }
  return true;
}

/// A sentence about `item 3` or `items 3 and 7` said of the buffers, with its place. Packers know numbers only.
class Translation {
 public:
  Translation(const IntervalTable& table, const std::vector<std::int32_t>& row_of) : table_(table), row_of_(row_of) {}

  [[nodiscard]] Error error(std::string_view sentence, std::string_view file) {
    const std::string text = translate(sentence);
    return bad_input(fmt::format("{}:{}: {}", file, std::max(line_, 1), text));
  }

 private:
  std::string translate(std::string_view sentence) {
    std::string text;
    while (!sentence.empty()) {
      const std::size_t at = std::min(sentence.find("item"), sentence.size());
      text += sentence.substr(0, at);
      sentence.remove_prefix(at);
      const bool many = sentence.starts_with("items ");
      if (!many && !sentence.starts_with("item ")) {
        text += sentence.substr(0, 1);
        sentence.remove_prefix(std::min<std::size_t>(1, sentence.size()));
        continue;
      }
      std::string_view rest = sentence.substr(many ? 6 : 5);
      std::string names = name(rest);
      if (many && rest.starts_with(" and ")) {
        rest.remove_prefix(5);
        names += " and " + name(rest);
      }
      text += (many ? "buffers " : "buffer ") + names;
      sentence = rest;
    }
    return text;
  }

  /// The buffer whose item number `text` starts with; the number is taken off.
  std::string name(std::string_view& text) {
    std::size_t item = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), item);
    if (error != std::errc{} || item >= row_of_.size()) return "";
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const IntervalTable::Row& row = table_.rows[static_cast<std::size_t>(row_of_[item])];
    line_ = std::max(line_, row.line);
    return fmt::format("{} (line {})", shown(row.id), row.line);
  }

  const IntervalTable& table_;
  const std::vector<std::int32_t>& row_of_;
  int line_ = 0;
};

/// What no packing could meet, or nothing. Addresses of a whole table are checked as a packing, which takes n log n.
std::optional<std::string> contradiction_in(const IntervalProblem& problem) {
  const std::optional<layout::Packing> given = given_packing(problem);
  if (!given) return layout::find_contradiction(problem.problem);
  layout::PackProblem anywhere = problem.problem;
  anywhere.fixed_offset.clear();
  if (std::optional<std::string> found = layout::find_contradiction(anywhere)) return found;
  return layout::find_fault(problem.problem, *given);
}

}  // namespace

Result<IntervalProblem> problem_of(const IntervalTable& table, const IntervalRules& rules, std::string_view file_name) {
  for (const IntervalTable::Row& row : table.rows)
    if (!rules.repack && row.fixed && row.offset && row.fixed != row.offset)
      return bad_input(fmt::format("{}:{}: fixed is {} and offset {}; both say where {} must lie", file_name, row.line,
                                   *row.fixed, *row.offset, shown(row.id)));
  const Result<std::vector<std::int32_t>> fixed = fixed_groups(table, rules, file_name);
  if (!fixed) return fixed.error();
  const std::vector<IntervalStay> stays = stays_of(table);
  Ranks ranks = ranks_of(stays);
  IntervalProblem result{.times = std::move(ranks.times)};
  const Bytes unit = rules.alignment_bytes;
  result.problem.alignment = unit;
  result.problem.items.reserve(stays.size());
  result.row_of.reserve(stays.size());
  for (std::size_t i = 0; i < stays.size(); ++i) {
    result.problem.items.push_back({.begin = ranks.of_moment[2 * i],
                                    .end = ranks.of_moment[2 * i + 1],
                                    .bytes = stays[i].bytes + stays[i].shift % unit});
    result.row_of.push_back(stays[i].row);
  }
  add_needs(table, stays, rules, fixed.value(), result.problem);
  if (!add_apart(table, result.row_of, result.problem))
    return bad_input(fmt::format("{}:1: apart and gaps come to more than {} pairs", file_name, kMostPairs));
  if (const std::optional<std::string> found = contradiction_in(result))
    return Translation(table, result.row_of).error(*found, file_name);
  return result;
}

std::optional<layout::Packing> given_packing(const IntervalProblem& problem) {
  const layout::PackProblem& p = problem.problem;
  if (p.fixed_offset.empty() || std::ranges::find(p.fixed_offset, layout::kAnywhere) != p.fixed_offset.end())
    return std::nullopt;
  layout::Packing packing{.offsets = p.fixed_offset};
  for (std::size_t i = 0; i < p.items.size(); ++i)
    packing.height_bytes = std::max(packing.height_bytes, packing.offsets[i] + round_up(p.items[i].bytes, p.alignment));
  return packing;
}

std::vector<Bytes> addresses_of(const IntervalTable& table, const IntervalProblem& problem,
                                const layout::Packing& packing, const IntervalRules& rules) {
  constexpr Bytes kUnknown = -1;
  std::vector<Bytes> addresses(table.rows.size(), kUnknown);
  std::vector<Bytes> of_group(table.groups.size(), kUnknown);
  for (std::size_t i = 0; i < problem.row_of.size(); ++i) {
    const Bytes shift = problem.problem.shift_in_block(i);
    const auto row = static_cast<std::size_t>(problem.row_of[i]);
    addresses[row] = packing.offsets[i] - shift;
    if (table.rows[row].group >= 0) of_group[static_cast<std::size_t>(table.rows[row].group)] = addresses[row];
  }
  // What is away all its life holds no bytes; it lies where it says, or with its group.
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const IntervalTable::Row& row = table.rows[r];
    if (addresses[r] != kUnknown) continue;
    if (const std::optional<Bytes> own = address_of(row, rules)) addresses[r] = *own;
    if (addresses[r] == kUnknown && row.group >= 0) addresses[r] = of_group[static_cast<std::size_t>(row.group)];
    addresses[r] = std::max<Bytes>(addresses[r], 0);
  }
  return addresses;
}

}  // namespace tidemark::formats
