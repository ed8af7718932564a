#pragma once
// What one command puts out: all of its files and its text on stdout, or no file. Each file is produced into a
// temporary one beside its target. Once every file is complete and synchronised, what goes elsewhere is written:
// outputs that are no regular files (a device, a pipe), then stdout. Only after stdout has taken everything are the
// files renamed over their targets. So a full disk behind stdout leaves no file, and a reader of stdout that ends early
// ends the command without one; what went into a device or a pipe by then has gone.
//
//   --out -    the file on stdout; the text for people goes to stderr in its place, and --format json is refused, since
//              both would be on stdout. `./-` is a file of that name. /dev/stdout means the same as `-`.

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/cli/options.h"

namespace tidemark::cli {

class Console;

class OutputSet {
 public:
  using Producer = std::function<Status(std::ostream&)>;

  /// `result`: what the command's own result on stdout is.
  explicit OutputSet(Format result) : result_(result) {}
  OutputSet(const OutputSet&) = delete;
  OutputSet& operator=(const OutputSet&) = delete;
  /// Removes temporary files that were not renamed.
  ~OutputSet();

  /// Looks at the target before any work is done, and opens it where it is a pipe or a device. An empty path adds
  /// nothing. Errors (bad_input): a directory, a directory that is missing or not writable, a file that is read-only, a
  /// link that leads nowhere (one that leads to a file is followed), a pipe that no process reads, the same file twice,
  /// one of `inputs`; stdout beside a result in JSON.
  [[nodiscard]] Status add(const std::filesystem::path& path, const std::vector<std::filesystem::path>& inputs,
                           Producer produce);

  /// Leaves out what was added for this path, if anything was.
  void drop(const std::filesystem::path& path);

  /// Everything, and `result` to stdout; or to stderr (unless quiet), where an output is stdout. Then a note to stderr
  /// for each file written. Errors (bad_input): `file: cannot write: why`; no file was touched.
  [[nodiscard]] Status write(const Console& console, std::string_view result);

 private:
  struct Output {
    std::filesystem::path path;       ///< as given
    std::filesystem::path target;     ///< links followed
    std::filesystem::path temporary;  ///< empty: none exists
    Producer produce;
    bool is_stdout = false;
    int fd = -1;  ///< of what is written in place; -1: a regular file
  };

  [[nodiscard]] Status refuse_shared(const std::filesystem::path& path, bool is_stdout,
                                     const std::vector<std::filesystem::path>& inputs) const;
  [[nodiscard]] static Status make_temporary(Output& output);
  [[nodiscard]] static Status produce_into(int fd, const Output& output);
  [[nodiscard]] Status rename_all(const Console& console);

  Format result_;
  std::vector<Output> outputs_;
};

}  // namespace tidemark::cli
