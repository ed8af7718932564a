#pragma once
// Small snapshots and folders for the tests of integrations/measured.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidemark::measured {

using Frame = std::pair<std::string, std::string>;  // file, function

struct PickledEntry {
  std::string action;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::vector<Frame> frames = {};
  std::string metadata = {}, category = {};
};

struct PickledBlock {
  std::int64_t bytes = 0;
  std::string state = "active_allocated";
  std::vector<Frame> frames = {};
};

struct PickledSegment {
  std::uint64_t address = 0;
  std::vector<PickledBlock> blocks = {};
};

inline std::string pickled_text(std::string_view text) {
  return "V" + std::string(text) + "\n";
}
inline std::string pickled_number(std::int64_t number) {
  return "I" + std::to_string(number) + "\n";
}

inline std::string pickled_list(const std::vector<std::string>& items) {
  std::string list = "(l";
  for (const std::string& item : items) list += item + "a";
  return list;
}

inline std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string dict = "(d";
  for (const auto& [key, value] : members) dict += pickled_text(key) + value + "s";
  return dict;
}

inline std::string pickled_frames(const std::vector<Frame>& frames) {
  std::vector<std::string> items;
  for (const auto& [file, function] : frames)
    items.push_back(pickled_dict(
        {{"filename", pickled_text(file)}, {"name", pickled_text(function)}, {"line", pickled_number(7)}}));
  return pickled_list(items);
}

inline std::string pickled_entry(const PickledEntry& entry) {
  std::vector<std::pair<std::string, std::string>> members = {
      {"action", pickled_text(entry.action)},
      {"addr", pickled_number(static_cast<std::int64_t>(entry.address))},
      {"size", pickled_number(entry.bytes)},
      {"frames", pickled_frames(entry.frames)}};
  if (!entry.metadata.empty()) members.emplace_back("user_metadata", pickled_text(entry.metadata));
  if (!entry.category.empty()) members.emplace_back("category", pickled_text(entry.category));
  return pickled_dict(members);
}

inline std::string pickled_segment(const PickledSegment& segment) {
  std::vector<std::string> blocks;
  for (const PickledBlock& block : segment.blocks)
    blocks.push_back(pickled_dict({{"size", pickled_number(block.bytes)},
                                   {"state", pickled_text(block.state)},
                                   {"frames", pickled_frames(block.frames)}}));
  return pickled_dict({{"device", pickled_number(0)},
                       {"address", pickled_number(static_cast<std::int64_t>(segment.address))},
                       {"blocks", pickled_list(blocks)}});
}

/// A pickle of protocol 0, as torch.cuda.memory._snapshot() is laid out.
inline std::string pickled_snapshot(const std::vector<PickledSegment>& segments,
                                    const std::vector<PickledEntry>& entries) {
  std::vector<std::string> segment_items, entry_items;
  for (const PickledSegment& segment : segments) segment_items.push_back(pickled_segment(segment));
  for (const PickledEntry& entry : entries) entry_items.push_back(pickled_entry(entry));
  return pickled_dict({{"segments", pickled_list(segment_items)},
                       {"device_traces", pickled_list({pickled_list(entry_items)})}}) +
         ".";
}

/// One rank that allocates `bytes` in `function` and holds a segment of `reserved` at the end.
inline std::string small_snapshot(std::int64_t bytes, std::int64_t reserved, const std::string& function = "step") {
  return pickled_snapshot(
      {{.address = 4096, .blocks = {{.bytes = bytes}, {.bytes = reserved - bytes, .state = "inactive"}}}},
      {{.action = "segment_alloc", .address = 4096, .bytes = reserved},
       {.action = "alloc", .address = 4096, .bytes = bytes, .frames = {{"run/train.py", function}}}});
}

/// An empty folder of this process, removed when it goes out of scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tidemark_measured_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  /// `text` without this folder's own name, which no two runs share.
  [[nodiscard]] std::string without_folder(std::string text) const {
    const std::string own = path_.string() + "/";
    for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own)) text.erase(at, own.size());
    for (std::size_t at = text.find(path_.string()); at != std::string::npos; at = text.find(path_.string()))
      text.replace(at, path_.string().size(), "FOLDER");
    return text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tidemark::measured
