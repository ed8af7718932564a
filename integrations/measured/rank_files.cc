#include "integrations/measured/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"

namespace tidemark::measured {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnown =
    "a memory snapshot (*.pickle), operator_memory.csv, memory_record.csv, npu_module_mem.csv or device samples";

std::string said(const fs::path& path) {
  return formats::printable(path.string());
}

/// What a folder is not asked about more than once.
using ProfilerRanks = std::map<fs::path, std::optional<std::int64_t>>;

struct FoundFile {
  MeasuredFile file;
  std::optional<std::int64_t> rank;
};

/// Of profiler_info_N.json in the folder.
Result<std::optional<std::int64_t>> profiler_rank(const fs::path& folder, ProfilerRanks& known) {
  const auto [place, is_new] = known.try_emplace(folder);
  if (!is_new) return place->second;
  std::map<std::int64_t, std::string> infos;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const auto rank = rank_of_profiler_info(name)) infos.try_emplace(*rank, name);
  }
  if (infos.size() > 1)
    return bad_input(
        fmt::format("{}: names another rank than {} beside it; a folder is of one rank, keep the file of "
                    "that one",
                    said(folder / infos.begin()->second), std::next(infos.begin())->second));
  if (!infos.empty()) place->second = infos.begin()->first;
  return place->second;
}

/// The rank of a file by the names of itself and its folders below `root`, or by its profiler's folder.
Result<std::optional<std::int64_t>> rank_of(const fs::path& path, const fs::path& root, ProfilerRanks& known) {
  std::optional<std::int64_t> rank = rank_in_name(path.filename().string());
  const fs::path below = path.lexically_relative(root);
  for (fs::path folder = below.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const auto of_folder = rank_in_name(folder.filename().string());
    if (of_folder && rank && *of_folder != *rank)
      return bad_input(fmt::format("{}: the file is named for rank {} and its folder {} for rank {}", said(path), *rank,
                                   formats::shown(folder.filename().string()), *of_folder));
    if (!rank) rank = of_folder;
  }
  if (!rank && path.parent_path().filename() == "ASCEND_PROFILER_OUTPUT")
    return profiler_rank(path.parent_path().parent_path(), known);
  return rank;
}

bool is_named_like_one(std::string_view name) {
  return kind_by_name(name) || (rank_in_name(name) && ending_of(name) != NameEnding::other);
}

/// What is named like a measurement and cannot be read as one would be a rank that nothing is said about.
Status refuse_other_than_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  const fs::path& path = entry.path();
  if (entry.is_directory(ignored)) {
    if (!entry.is_symlink(ignored) || !rank_in_name(path.filename().string())) return {};
    return bad_input(
        fmt::format("{}: is a link to a folder, which is not followed; put the folder of the rank here", said(path)));
  }
  if (entry.is_regular_file(ignored) || !is_named_like_one(path.filename().string())) return {};
  if (!entry.exists(ignored))
    return bad_input(fmt::format("{}: is a link that leads nowhere; give the file of the rank", said(path)));
  return bad_input(fmt::format("{}: is not a regular file; give a file", said(path)));
}

/// Every measurement below a folder, in the order of their paths.
Result<std::vector<FoundFile>> scan(const fs::path& root) {
  std::vector<FoundFile> found;
  ProfilerRanks known;
  std::error_code error;
  std::size_t entries = 0;
  fs::recursive_directory_iterator at(root, error), end;
  for (; !error && at != end; at.increment(error)) {
    if (++entries > kMostEntries)
      return bad_input(fmt::format("{}: the folder holds more than {} entries", said(root), kMostEntries));
    std::error_code ignored;
    const fs::path& path = at->path();
    if (Status status = refuse_other_than_file(*at); !status) return status.error();
    if (at->is_directory(ignored)) {
      if (is_left_alone(path)) at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file(ignored)) continue;
    const auto kind = kind_of_file(path, rank_in_path(path.lexically_relative(root)).has_value());
    if (!kind) return kind.error();
    if (!kind.value()) continue;
    const auto rank = rank_of(path, root, known);
    if (!rank) return rank.error();
    found.push_back({.file = {.path = path, .kind = *kind.value()}, .rank = rank.value()});
  }
  if (error) return bad_input(fmt::format("{}: cannot look into the folder: {}", said(root), error.message()));
  std::ranges::sort(found, {}, [](const FoundFile& one) -> const fs::path& { return one.file.path; });
  return found;
}

Error two_files(const MeasuredFile& one, const MeasuredFile& other, std::string_view what) {
  return bad_input(fmt::format("{}: {}; the other is {}", said(one.path), what, said(other.path)));
}

bool is_trace(MeasuredKind kind) {
  return kind == MeasuredKind::snapshot || kind == MeasuredKind::operator_memory;
}

/// Files of one rank, none of them for the same thing.
Status add_file(const MeasuredFile& file, RankFiles& rank) {
  for (const MeasuredFile& other : rank.files) {
    const bool both_traces = is_trace(file.kind) && is_trace(other.kind);
    if (file.kind != other.kind && !both_traces) continue;
    return two_files(other, file,
                     fmt::format("two files tell what rank {} held ({} and {}); give one of them", rank.rank,
                                 kMeasuredKindWords[static_cast<std::size_t>(other.kind)],
                                 kMeasuredKindWords[static_cast<std::size_t>(file.kind)]));
  }
  rank.files.push_back(file);
  std::ranges::sort(rank.files, {}, &MeasuredFile::kind);
  return {};
}

/// What is measured of one rank must be of all: else their peaks would not count the same things.
Status check_kinds(const std::vector<RankFiles>& ranks) {
  const RankFiles& first = ranks.front();
  for (const RankFiles& rank : ranks)
    if (!std::ranges::equal(rank.files, first.files, {}, &MeasuredFile::kind, &MeasuredFile::kind))
      return two_files(
          first.files.front(), rank.files.front(),
          fmt::format("ranks {} and {} are measured by different kinds of files; every rank needs the same", first.rank,
                      rank.rank));
  return {};
}

Result<std::vector<RankFiles>> by_rank(const std::vector<FoundFile>& found) {
  std::map<std::int64_t, RankFiles> ranks;
  const bool any_rank = std::ranges::any_of(found, [](const FoundFile& one) { return one.rank.has_value(); });
  for (const FoundFile& one : found) {
    if (any_rank && !one.rank)
      return bad_input(
          fmt::format("{}: no rank in its name or in that of a folder, as others have; right would be for "
                      "instance rank_3{}",
                      said(one.file.path), one.file.path.extension().string()));
    const std::int64_t number = one.rank.value_or(0);
    RankFiles& rank = ranks[number];
    rank.rank = number;
    if (Status status = add_file(one.file, rank); !status) return status.error();
    if (ranks.size() > kMostRanks)
      return bad_input(fmt::format("{}: there are more than {} ranks", said(one.file.path), kMostRanks));
  }
  std::vector<RankFiles> list;
  for (auto& [number, rank] : ranks) list.push_back(std::move(rank));
  if (Status status = check_kinds(list); !status) return status.error();
  return list;
}

/// A file alone is whatever its content says; only its own name and that of its folder tell its rank.
Result<std::vector<RankFiles>> one_file(const fs::path& path) {
  auto kind = kind_by_content(formats::read_head(path, kHeadBytes));
  if (!kind) kind = kind_by_name(path.filename().string());
  if (!kind) return bad_input(fmt::format("{}:1: is no measurement that is known: {}", said(path), kKnown));
  ProfilerRanks known;
  const auto rank = rank_of(path, path.parent_path().parent_path(), known);
  if (!rank) return rank.error();
  return std::vector<RankFiles>{{.rank = rank.value().value_or(0), .files = {{.path = path, .kind = *kind}}}};
}

}  // namespace

Result<std::vector<RankFiles>> find_rank_files(const fs::path& place) {
  std::error_code error;
  const fs::file_status status = fs::status(place, error);
  if (!fs::is_directory(status)) {
    // What cannot be opened says so in the words of every other file.
    if (auto file = formats::open_file(place); !file) return file.error();
    return one_file(place);
  }
  const Result<std::vector<FoundFile>> found = scan(place);
  if (!found) return found.error();
  if (found.value().empty())
    return bad_input(fmt::format("{}: the folder holds no measurement; right would be {}", said(place), kKnown));
  return by_rank(found.value());
}

Result<std::optional<MeasuredKind>> kind_of_file(const fs::path& path, bool is_of_rank) {
  const std::string name = path.filename().string();
  if (const auto kind = kind_by_name(name)) return kind;
  const NameEnding ending = ending_of(name);
  const bool is_own = rank_in_name(name).has_value();
  const bool is_open = ending == NameEnding::measurement && (is_own || path.has_extension());
  if (ending == NameEnding::packed || (!is_open && !is_own)) return std::optional<MeasuredKind>();
  const std::string head = formats::read_head(path, kHeadBytes);
  if (head.empty() && is_open && is_of_rank)
    if (auto file = formats::open_file(path); !file) return file.error();
  const auto kind = kind_by_content(head);
  // A checkpoint is a pickle as well.
  return kind == MeasuredKind::snapshot && !is_open ? std::optional<MeasuredKind>() : kind;
}

std::optional<std::int64_t> rank_in_path(const fs::path& below) {
  for (fs::path left = below; !left.empty(); left = left.parent_path())
    if (const auto rank = rank_in_name(left.filename().string())) return rank;
  return std::nullopt;
}

bool is_left_alone(const fs::path& folder) {
  return folder.filename().string().starts_with("PROF_");
}

}  // namespace tidemark::measured
