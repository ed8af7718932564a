#include "integrations/formats/program_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace tidemark::formats {
namespace {

struct End {
  std::int32_t from = 0, to = 0;
  std::int64_t tag = 0;
  bool receives = false;
  std::size_t rank_row = 0, row = 0;  ///< where it stands in the file
  [[nodiscard]] auto message() const { return std::tie(from, to, tag); }
  [[nodiscard]] auto order() const { return std::tie(from, to, tag, receives, row); }
};

std::string_view word(bool receives) {
  return receives ? "receives" : "sends";
}

JsonNode column_of(const JsonNode& root, const End& end, std::string_view column) {
  return root.at("ranks").item(end.rank_row).at("program").at(word(end.receives)).at(column);
}

std::vector<End> ends_of(const JsonNode& root, const PlanFile& file) {
  std::vector<End> ends;
  for (std::size_t r = 0; r < file.ranks.size() && root.clean(); ++r) {
    const std::int32_t rank = file.ranks[r].figures.rank;
    const auto add = [&](const auto& rows, bool receives) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int32_t peer = rows[i].peer_rank;
        ends.push_back({.from = receives ? peer : rank,
                        .to = receives ? rank : peer,
                        .tag = rows[i].tag,
                        .receives = receives,
                        .rank_row = r,
                        .row = i});
        if (peer == rank || peer >= file.job.parallel.pipeline)
          column_of(root, ends.back(), "peer_rank")
              .wrong(fmt::format("row {} is {}; it must be another of the pipeline ranks 0 to {}", i, peer,
                                 file.job.parallel.pipeline - 1));
      }
    };
    add(file.ranks[r].program.sends, false);
    add(file.ranks[r].program.receives, true);
  }
  std::ranges::sort(ends, [](const End& a, const End& b) { return a.order() < b.order(); });
  return ends;
}

bool holds(const PlanFile& file, std::int32_t rank) {
  return std::ranges::binary_search(file.ranks, rank, {}, [](const PlanFile::Rank& r) { return r.figures.rank; });
}

}  // namespace

void check_messages(const JsonNode& root, const PlanFile& file) {
  const std::vector<End> ends = ends_of(root, file);
  for (std::size_t i = 0; i < ends.size() && root.clean();) {
    const End& end = ends[i];
    const bool paired = i + 1 < ends.size() && ends[i + 1].message() == end.message();
    if (paired && ends[i + 1].receives == end.receives)
      column_of(root, ends[i + 1], "tag")
          .wrong(fmt::format("row {} is {}, the tag of another message from rank {} to rank {}", ends[i + 1].row,
                             end.tag, end.from, end.to));
    const std::int32_t peer = end.receives ? end.from : end.to;
    if (!paired && holds(file, peer))
      column_of(root, end, "tag")
          .wrong(fmt::format("row {} is {}, which rank {} never {}", end.row, end.tag, peer, word(!end.receives)));
    i += paired ? 2 : 1;
  }
}

}  // namespace tidemark::formats
