#include "device/process_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "device/system_files.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// Numbers in the names of a folder's entries: "node" -> those of node0, node1. No folder: none.
CpuList numbers_in(const fs::path& folder, std::string_view prefix) {
  CpuList numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int number = 0;
    if (name.starts_with(prefix) && reads_as_number(std::string_view(name).substr(prefix.size()), number) &&
        number >= 0)
      numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// The value of "Name:\tvalue", and in which line it is; 0: nowhere.
std::string_view value_of_line(std::string_view text, std::string_view name, int& line_number) {
  std::string_view value;
  line_number = 0;
  each_line_of(text, [&](std::string_view line, int number) {
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(":")) return true;
    value = line.substr(name.size() + 1);
    line_number = number;
    return false;
  });
  return value;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty() && (text.front() == '\t' || text.front() == ' ')) text.remove_prefix(1);
  for (const char c : text.substr(0, 64)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown;
}

/// False where the parent may not be looked at.
bool parent_may_use_more(std::string_view status, const fs::path& proc, const CpuList& cpus) {
  int line = 0, parent = 0;
  std::string_view rest = value_of_line(status, "PPid", line);
  while (!rest.empty() && rest.front() == '\t') rest.remove_prefix(1);
  if (!reads_as_number(next_word(rest), parent) || parent <= 0) return false;
  const std::string path = (proc / fmt::format("{}", parent) / "status").string();
  const std::optional<std::string> text = small_file_text(path);
  if (!text) return false;
  const Result<ProcessPlaces> places = read_status(*text, path);
  return places && places.value().cpus != cpus && in_both(places.value().cpus, cpus) == cpus;
}

/// Of one thread's, or one process's, folder in proc.
Result<ProcessPlaces> read_places(const fs::path& folder) {
  const fs::path status = folder / "status";
  const std::optional<std::string> text = small_file_text(status);
  if (!text || text->empty())
    return bad_input(fmt::format("{}: no such process, or it may not be looked at", status.string()));
  Result<ProcessPlaces> places = read_status(*text, status.string());
  if (!places) return places;
  places.value().cpus_are_own = parent_may_use_more(*text, folder.parent_path(), places.value().cpus);
  std::ifstream maps(folder / "numa_maps");
  std::string line;
  if (std::getline(maps, line)) places.value().policy = read_policy(line);
  return places;
}

}  // namespace

Result<ProcessPlaces> read_own_places(const std::string& root) {
  const fs::path proc = fs::path(root.empty() ? "/" : root) / "proc";
  std::error_code error;
  const bool by_thread = fs::exists(proc / "thread-self" / "status", error);
  return read_places(proc / (by_thread ? "thread-self" : "self"));
}

Result<ProcessPlaces> read_process_places(int process, const std::string& root) {
  const fs::path folder = fs::path(root.empty() ? "/" : root) / "proc" / fmt::format("{}", process);
  Result<ProcessPlaces> places = read_places(folder);
  if (!places) return places;
  std::ifstream maps(folder / "numa_maps");
  for (std::string line; std::getline(maps, line);) {
    for (const auto& [node, bytes] : read_mapped_pages(line)) places.value().memory_bytes[node] += bytes;
  }
  for (const int id : numbers_in(folder / "task", "")) {
    const fs::path path = folder / "task" / fmt::format("{}", id) / "status";
    const std::optional<std::string> text = small_file_text(path);
    if (!text || text->empty()) continue;  // it has ended: the file is gone, or, opened before, has nothing to read
    Result<ProcessPlaces> thread = read_status(*text, path.string());
    if (!thread) return thread.error();
    int line = 0;
    places.value().threads.push_back(
        {.id = id, .name = printable(value_of_line(*text, "Name", line)), .cpus = std::move(thread.value().cpus)});
  }
  return places;
}

Result<ProcessPlaces> read_status(std::string_view text, std::string_view place) {
  ProcessPlaces places;
  int line = 0;
  const std::string_view cpus = value_of_line(text, "Cpus_allowed_list", line);
  if (line == 0)
    return bad_input(fmt::format("{}:1: no line 'Cpus_allowed_list:'; with it, it would be a status file", place));
  Result<CpuList> list = read_cpu_list(cpus, fmt::format("{}:{}", place, line));
  if (!list) return list.error();
  places.cpus = std::move(list).value();
  const std::string_view nodes = value_of_line(text, "Mems_allowed_list", line);
  if (line == 0) return places;
  list = read_cpu_list(nodes, fmt::format("{}:{}", place, line));
  if (!list) return list.error();
  places.memory_nodes = std::move(list).value();
  return places;
}

std::map<int, Bytes> read_mapped_pages(std::string_view line) {
  std::map<int, Bytes> pages;
  Bytes page_kib = 0;
  constexpr Bytes kMost = Bytes{1} << 40;  // pages, and KiB of a page: sums of their products stay in 64 bits
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, equals);
    Bytes value = 0;
    if (!reads_as_number(word.substr(equals + 1), value) || value < 0 || value > kMost) continue;
    int node = 0;
    if (name == "kernelpagesize_kB") page_kib = value;
    if (name.starts_with("N") && reads_as_number(name.substr(1), node) && node >= 0) pages[node] = value;
  }
  if (page_kib <= 0 || page_kib > 1024 * 1024) return {};  // pages of up to 1 GiB
  for (auto& [node, bytes] : pages) bytes = std::min(bytes, kMost / page_kib) * page_kib * kKiB;
  return pages;
}

/// Words of mpol_to_str() in the kernel's mm/mempolicy.c; flags may stand behind them: "bind=static:0-1".
MemoryPolicy read_policy(std::string_view text) {
  using Kind = MemoryPolicy::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 7> kWords = {{{"default", Kind::local},
                                                                        {"local", Kind::local},
                                                                        {"prefer", Kind::preferred},
                                                                        {"prefer (many)", Kind::preferred},
                                                                        {"bind", Kind::bound},
                                                                        {"interleave", Kind::interleaved},
                                                                        {"weighted interleave", Kind::interleaved}}};
  std::string_view rest = first_line_of(text);
  static_cast<void>(next_word(rest));  // the address
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  for (const auto& [word, kind] : kWords) {
    if (!rest.starts_with(word)) continue;
    std::string_view tail = rest.substr(word.size());
    if (!tail.empty() && tail.front() != '=' && tail.front() != ':' && tail.front() != ' ') continue;
    if (tail.starts_with(" (") && word == "prefer") continue;
    if (kind == Kind::local) return {.kind = kind, .nodes = {}};
    const std::size_t colon = tail.find(':'), blank = tail.find(' ');
    if (colon == std::string_view::npos || (blank != std::string_view::npos && blank < colon)) return {};
    std::string_view listed = tail.substr(colon + 1);
    Result<CpuList> nodes = read_cpu_list(next_word(listed), "numa_maps:1");
    if (!nodes) return {};
    return {.kind = kind, .nodes = std::move(nodes).value()};
  }
  return {};
}

}  // namespace tidemark
