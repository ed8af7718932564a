#pragma once
// The files of a measured run by rank: one file, or a folder of ranks.
//
//   run/rank_0/snapshot.pickle           run/rank3.pickle      run/host_77_2026_ascend_pt/profiler_info_3.json
//   run/rank_0/device_sample.jsonl       run/rank4.pickle      run/host_77_2026_ascend_pt/ASCEND_PROFILER_OUTPUT/...csv
//
// A rank is told by the name of a file or of a folder it is in, or by profiler_info_N.json beside torch_npu's output.
// Files that are no measurement are left alone, as are folders named PROF_*, which hold what torch_npu's output was
// made from, and links to folders. What they may have of ranks that are found nowhere else, unread_files.h tells. This
// looks into folders and at first bytes; it reads nothing else.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/measured/measured_file.h"

namespace tidemark::measured {

inline constexpr std::size_t kMostRanks = 65'536;
inline constexpr std::size_t kMostEntries = 1'000'000;  ///< of all folders together

/// Of the beginning of a file, so that its content says what it is.
inline constexpr Bytes kHeadBytes = 4 * kKiB;

struct MeasuredFile {
  std::filesystem::path path;
  MeasuredKind kind = MeasuredKind::snapshot;
};

struct RankFiles {
  std::int64_t rank = 0;
  std::vector<MeasuredFile> files;  ///< by kind; no kind twice, and not both of snapshot and operator_memory
};

/// Ascending by rank; at least one, each with the same kinds. One rank whose files do not tell it is rank 0. Errors
/// (bad_input): nothing there to read; two files of one kind for one rank, two traces of one rank, ranks measured by
/// different kinds (both files are named); a file that says another rank than its folder; a file without a rank among
/// those with one; several profiler_info_N.json of different ranks in a folder; a file named for a rank, or in a folder
/// that is, that might be a measurement and cannot be opened; a link that leads nowhere, a pipe or a device that is
/// named like a measurement or for a rank; a link to a folder that is named for a rank; more than kMostRanks ranks or
/// kMostEntries entries.
[[nodiscard]] Result<std::vector<RankFiles>> find_rank_files(const std::filesystem::path& place);

/// What the file is, by its name or its content. Nothing: no measurement. `is_of_rank`: it or a folder it is in is
/// named for a rank. Errors (bad_input): it may be one of a rank, and cannot be opened. REQUIRES: a regular file.
[[nodiscard]] Result<std::optional<MeasuredKind>> kind_of_file(const std::filesystem::path& path, bool is_of_rank);

/// By one of the names of a path within the folder of the run, the innermost first. Nothing: none of them tells it.
[[nodiscard]] std::optional<std::int64_t> rank_in_path(const std::filesystem::path& below);

/// It holds what torch_npu's output was made from.
[[nodiscard]] bool is_left_alone(const std::filesystem::path& folder);

}  // namespace tidemark::measured
