#pragma once
// Whole files in and out: the rim. Nothing else in formats touches the file system.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "core/result.h"

namespace tidemark::formats {

/// The largest file that is read whole: above what a trace of a day has, below what fills a machine.
inline constexpr Bytes kMostFileBytes = 4 * kGiB;
/// The same of other kinds than traces and tables of a profiler: what people write by hand or a launcher starts with;
/// what was measured of runs or layouts; plans, and steps as graphs. A reader takes up to 70 times the file of memory.
inline constexpr Bytes kMostDescriptionBytes = kMiB, kMostMeasurementBytes = 256 * kMiB, kMostPlanFileBytes = kGiB;

/// The bytes of a regular file. Errors (bad_input): it cannot be opened or read; it is anything else (a directory, a
/// device, a pipe), which is refused before it is opened; it is larger than `most_bytes`, which is refused unread.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, Bytes most_bytes = kMostFileBytes);

/// A regular file to be read piece by piece. Errors (bad_input): as read_file, but for the size.
[[nodiscard]] Result<std::ifstream> open_file(const std::filesystem::path& path);

/// The first bytes of a regular file; empty where there is none to read.
[[nodiscard]] std::string read_head(const std::filesystem::path& path, Bytes most_bytes);

/// Replaces `path` by `bytes` at once: written to a temporary file in the same directory, synchronised, then renamed.
/// On any error (bad_input) an existing file keeps its old bytes and nothing half-written is left behind. What is not a
/// regular file (a device, a pipe) is written in place, since it cannot be renamed over; see open_in_place.
[[nodiscard]] Status write_file(const std::filesystem::path& path, std::string_view bytes);

/// Opens for writing what cannot be replaced by a rename: a device, a pipe. The descriptor, or -1 and errno; a pipe
/// that no process has open for reading is not waited for: ENXIO.
[[nodiscard]] int open_in_place(const std::filesystem::path& path);

/// Why a file cannot be written, as every error of this folder says it: `file: cannot write: why`. `error` is an errno;
/// ENXIO is explained by the pipe that it is about.
[[nodiscard]] Error cannot_write(const std::filesystem::path& path, int error);

/// A file that grows while something runs, so that what ended in the middle can be read to there. Threads: none.
class GrowingFile {
 public:
  /// Makes the file, or empties it. Errors (bad_input): it cannot be written; it is a pipe that no process reads.
  [[nodiscard]] static Result<std::unique_ptr<GrowingFile>> create(const std::filesystem::path& path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// Given to the system at once. Behind the first that fails nothing is written.
  void append(std::string_view bytes);
  /// Errors (bad_input): why something could not be written.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  GrowingFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::filesystem::path path_;
  const int fd_;
  Status status_;
};

/// A new empty file, open for writing, or `fd` -1 and errno.
struct Temporary {
  std::filesystem::path path;
  int fd = -1;
};

/// A temporary file beside `target`: same directory, so that a rename is atomic. Until `forget_temporary`, a signal
/// that ends the process unlinks it (see `remove_temporaries_on_signals`). SIGKILL cannot be caught: what it leaves is
/// told by its lock, which ended with the process, and unlinked when the next temporary is made in that directory.
[[nodiscard]] Temporary create_temporary(const std::filesystem::path& target);

/// The file was renamed or unlinked: signals leave its name alone.
void forget_temporary(const std::filesystem::path& path);

/// Unlinks the temporary files in use, for a process that ends without unwinding. Async-signal-safe.
void remove_temporaries() noexcept;

/// From now on the signals that ask a process to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU) unlink the
/// temporary files in use and then end it as they would have done. A signal that is ignored stays ignored. SIGXFSZ is
/// ignored: a write beyond the file size limit fails with its errno, like one to a full disk, and cleans up after
/// itself.
void remove_temporaries_on_signals();

}  // namespace tidemark::formats
