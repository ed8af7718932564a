#pragma once
// A measured run as budget::Holdings: what a job held, from the files it left.

#include <filesystem>
#include <functional>
#include <string_view>

#include "core/result.h"
#include "planner/budget/holdings.h"

namespace tidemark::measured {

/// Called with all bytes of each file as they were read, once a file, by rank and then by kind.
using SeeFile = std::function<void(std::string_view bytes)>;

/// A file, or a folder of ranks (rank_files.h). Basis measured, no band; a rank's place is its file below the folder.
/// Not understood where a rank's peak may have been higher than its files show, or where a part of the folder that may
/// hold measurements is not read (unread_files.h): its notes say why.
/// One file is in memory at a time, and read once. Errors (bad_input): of find_rank_files and of the readers; a rank of
/// which nothing of the device was measured, or that held more than 2^50 bytes of it or of the host; samples of another
/// rank than their file's name says.
[[nodiscard]] Result<budget::Holdings> read_measured(const std::filesystem::path& place, const SeeFile& see = {});

}  // namespace tidemark::measured
