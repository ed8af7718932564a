#pragma once
// The files of one command: all of them are written, or none is. Each is produced into a temporary file beside its
// target; only when every one is complete and synchronised are they renamed over their targets. What is not a regular
// file (/dev/stdout, a pipe) is written in place, after the others are complete.

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/result.h"

namespace tidemark::cli {

class OutputSet {
 public:
  using Producer = std::function<Status(std::ostream&)>;

  OutputSet() = default;
  OutputSet(const OutputSet&) = delete;
  OutputSet& operator=(const OutputSet&) = delete;
  /// Removes temporary files that were not renamed.
  ~OutputSet();

  /// Looks at the target before any work is done. An empty path adds nothing. Errors (bad_input): a directory, a
  /// directory that is missing or not writable, a file that is read-only, the same file twice, or one of `inputs`.
  [[nodiscard]] Status add(const std::filesystem::path& path, const std::vector<std::filesystem::path>& inputs,
                           Producer produce);

  /// Leaves out what was added for this path, if anything was.
  void drop(const std::filesystem::path& path);

  /// Errors (bad_input): `file: cannot write: why`; no target was touched.
  [[nodiscard]] Status write();

  /// Targets in the order added.
  [[nodiscard]] std::vector<std::filesystem::path> paths() const;

 private:
  struct Output {
    std::filesystem::path path;       ///< as given
    std::filesystem::path target;     ///< links followed
    std::filesystem::path temporary;  ///< empty: none exists
    Producer produce;
    bool in_place = false;
  };
  [[nodiscard]] static Status produce_into(const std::filesystem::path& file, const Output& output);
  std::vector<Output> outputs_;
};

}  // namespace tidemark::cli
