#pragma once
// What the folder of a measured run may hold of its ranks and is not read: so that no rank is lost without a word.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "integrations/measured/rank_files.h"

namespace tidemark::measured {

/// A folder or a file that is named for a rank of which nothing was found.
struct EmptyRank {
  std::int64_t rank = 0;
  std::filesystem::path place;
  std::string why;  ///< `the folder rank_2 holds no measurement`
};

struct Unread {
  std::vector<EmptyRank> ranks;     ///< ascending by rank, each rank once
  std::vector<std::string> places;  ///< ascending: `node1 is a link to a folder, which is not followed, ...`
};

/// Of a rank that was not found: its folder; a file that is named for it and holds nothing, the beginning of a first
/// line or what is no measurement, or that is packed; one in a folder PROF_*. A whole table or object of another kind
/// is none of the run's measurements, nor are logs. Places: links to folders outside this one that hold measurements,
/// and links without an ending that lead nowhere. Empty where `place` is a file. `ranks`: of the same place, as
/// find_rank_files gives them. What cannot be looked into is left out.
[[nodiscard]] Unread find_unread(const std::filesystem::path& place, const std::vector<RankFiles>& ranks);

}  // namespace tidemark::measured
