#include "integrations/measured/unread_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"
#include "integrations/measured/measured_file.h"

namespace tidemark::measured {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlank(" \t\r\n\0", 5);

std::string lower_ending(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return ending;
}

/// A whole table or object of another kind. A process that was killed, or a machine that lost its power, leaves a file
/// without content: empty, of blanks or zeros, or with the beginning of a first line.
bool is_of_another_kind(const fs::path& path) {
  const std::string head = formats::read_head(path, kHeadBytes);
  const std::size_t begin = head.find_first_not_of(kBlank);
  if (begin == std::string::npos) return false;
  const std::string ending = lower_ending(path);
  if (ending == ".csv") return head.find(',') < head.find('\n') && head.find('\n') != std::string::npos;
  if (ending != ".json" || (head[begin] != '{' && head[begin] != '[')) return false;
  const char last = head[head.find_last_not_of(kBlank)];
  return std::ssize(head) == kHeadBytes || last == '}' || last == ']';
}

/// Looks at every entry below a folder.
class UnreadSearch {
 public:
  UnreadSearch(const fs::path& root, const std::vector<RankFiles>& ranks) : root_(root), ranks_(ranks) {
    std::error_code ignored;
    real_root_ = fs::weakly_canonical(root, ignored);
  }

  Unread run() && {
    std::error_code error;
    fs::recursive_directory_iterator at(root_, error), end;
    for (std::size_t entries = 0; !error && at != end && entries < kMostEntries; at.increment(error), ++entries)
      look_at(*at);
    Unread unread;
    for (auto& [rank, one] : empty_) unread.ranks.push_back(std::move(one));
    unread.places.assign(places_.begin(), places_.end());
    return unread;
  }

 private:
  void look_at(const fs::directory_entry& entry) {
    std::error_code ignored;
    const fs::path& path = entry.path();
    const fs::path below = path.lexically_relative(root_);
    const bool is_raw = std::any_of(below.begin(), below.end(), is_left_alone);
    if (entry.is_directory(ignored)) {
      if (entry.is_symlink(ignored)) return look_at_link(path);
      if (!is_raw) add(rank_in_name(path.filename().string()), path, "the folder {} holds no measurement");
    } else if (entry.is_regular_file(ignored)) {
      look_at_file(path, below, is_raw);
    } else if (entry.is_symlink(ignored) && !path.has_extension() && !is_raw) {
      places_.insert(said(path) + " is a link that leads nowhere; remove it, or give what it led to");
    }
  }

  void look_at_file(const fs::path& path, const fs::path& below, bool is_raw) {
    const std::string name = path.filename().string();
    if (is_raw) {
      const auto kind = kind_of_file(path, true);
      const bool is_one = !kind || kind.value();
      return add(is_one ? rank_in_path(below) : std::nullopt, path,
                 "the file {} is in a folder PROF_*: it is not read");
    }
    const std::optional<std::int64_t> rank = rank_in_name(name);
    if (!rank || has(*rank)) return;
    const NameEnding ending = ending_of(name);
    if (ending == NameEnding::packed) return add(rank, path, "the file {} is packed or was cut off: it is not read");
    if (ending == NameEnding::measurement && !is_of_another_kind(path))
      add(rank, path, "the file {} holds no measurement");
  }

  /// A link to a folder that is not one of the run's own.
  void look_at_link(const fs::path& link) {
    std::error_code ignored;
    std::set<fs::path> seen;
    if (!is_new_folder(link, seen)) return;
    std::string first;
    std::error_code error;
    fs::recursive_directory_iterator at(link, fs::directory_options::follow_directory_symlink, error), end;
    for (; !error && at != end; at.increment(error)) {
      if (++linked_entries_ > kMostEntries) return add_link(link, "more than can be looked at");
      const fs::path& path = at->path();
      if (at->is_directory(ignored)) {
        if (is_left_alone(path) || !is_new_folder(path, seen)) at.disable_recursion_pending();
      } else if (at->is_regular_file(ignored) && is_measurement(path, link)) {
        const std::string name = formats::printable(path.lexically_relative(link).generic_string());
        if (first.empty() || name < first) first = name;
      }
    }
    if (error) return add_link(link, "what cannot be looked at: " + error.message());
    if (!first.empty()) add_link(link, first);
  }

  void add_link(const fs::path& link, const std::string& what) {
    places_.insert(
        fmt::format("{} is a link to a folder, which is not followed, and holds {}; put the folder in its place",
                    said(link), what));
  }

  /// Neither in the folder of the run nor seen before.
  bool is_new_folder(const fs::path& folder, std::set<fs::path>& seen) const {
    std::error_code error;
    fs::path real = fs::canonical(folder, error);
    if (error) return false;
    const fs::path below = real.lexically_relative(real_root_);
    const bool is_inside = !below.empty() && *below.begin() != "..";
    return !is_inside && seen.insert(std::move(real)).second;
  }

  static bool is_measurement(const fs::path& path, const fs::path& link) {
    const fs::path below = path.lexically_relative(link);
    const bool is_packed =
        rank_in_name(path.filename().string()) && ending_of(path.filename().string()) == NameEnding::packed;
    const auto kind = kind_of_file(path, rank_in_path(below).has_value());
    return is_packed || !kind || kind.value();
  }

  [[nodiscard]] bool has(std::int64_t rank) const {
    return std::ranges::binary_search(ranks_, rank, {}, &RankFiles::rank);
  }

  /// Folders give their entries in no order: of one rank the first path counts.
  void add(std::optional<std::int64_t> rank, const fs::path& path, fmt::format_string<std::string> why) {
    if (!rank || has(*rank)) return;
    const auto [known, is_new] = empty_.try_emplace(*rank);
    if (!is_new && known->second.place <= path) return;
    known->second = {.rank = *rank, .place = path, .why = fmt::format(why, said(path))};
  }

  [[nodiscard]] std::string said(const fs::path& path) const {
    return formats::printable(path.lexically_relative(root_).generic_string());
  }

  const fs::path& root_;
  const std::vector<RankFiles>& ranks_;
  fs::path real_root_;
  std::map<std::int64_t, EmptyRank> empty_;
  std::set<std::string> places_;
  std::size_t linked_entries_ = 0;
};

}  // namespace

Unread find_unread(const fs::path& place, const std::vector<RankFiles>& ranks) {
  std::error_code ignored;
  if (!fs::is_directory(place, ignored)) return {};
  return UnreadSearch(place, ranks).run();
}

}  // namespace tidemark::measured
