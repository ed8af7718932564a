#include "integrations/cli/output_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "integrations/formats/file.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;

Error failed(const fs::path& path, int error) {
  return bad_input(fmt::format("{}: cannot write: {}", path.string(), std::strerror(error)));
}

fs::path link_target(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

/// The same file, whether or not it exists yet.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  return fs::weakly_canonical(fs::absolute(a, error), error) == fs::weakly_canonical(fs::absolute(b, error), error);
}

/// 0 or errno.
int synchronise(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

OutputSet::~OutputSet() {
  for (const Output& output : outputs_) {
    if (output.temporary.empty()) continue;
    ::unlink(output.temporary.c_str());
    formats::forget_temporary(output.temporary);
  }
}

Status OutputSet::add(const fs::path& path, const std::vector<fs::path>& inputs, Producer produce) {
  if (path.empty()) return {};
  for (const fs::path& input : inputs)
    if (same_file(path, input))
      return bad_input(fmt::format("{}: cannot write: it is read by this command", path.string()));
  for (const Output& other : outputs_)
    if (same_file(path, other.path))
      return bad_input(fmt::format("{}: cannot write: it is named for two outputs", path.string()));

  Output output{.path = path, .target = link_target(path), .produce = std::move(produce)};
  std::error_code error;
  const fs::file_status status = fs::status(output.target, error);
  if (fs::is_directory(status)) return failed(path, EISDIR);
  output.in_place = fs::exists(status) && !fs::is_regular_file(status);
  const fs::path directory = output.target.parent_path().empty() ? fs::path(".") : output.target.parent_path();
  if (!output.in_place && !fs::is_directory(directory, error))
    return failed(path, fs::exists(directory, error) ? ENOTDIR : ENOENT);
  if (!output.in_place && ::access(directory.c_str(), W_OK | X_OK) != 0) return failed(path, errno);
  if (fs::exists(status) && ::access(output.target.c_str(), W_OK) != 0) return failed(path, errno);
  outputs_.push_back(std::move(output));
  return {};
}

Status OutputSet::produce_into(const fs::path& file, const Output& output) {
  errno = 0;
  std::ofstream stream(file, std::ios::binary);
  if (Status status = output.produce(stream); !status && stream) return status;
  stream.flush();
  stream.close();
  if (!stream) return failed(output.path, errno != 0 ? errno : EIO);
  return {};
}

void OutputSet::drop(const std::filesystem::path& path) {
  std::erase_if(outputs_, [&](const Output& output) { return output.path == path; });
}

Status OutputSet::write() {
  for (Output& output : outputs_) {
    if (output.in_place) continue;
    formats::Temporary temporary = formats::create_temporary(output.target);
    if (temporary.fd < 0) return failed(output.path, errno);
    ::close(temporary.fd);
    output.temporary = std::move(temporary.path);
    if (Status status = produce_into(output.temporary, output); !status) return status;
    if (const int error = synchronise(output.temporary); error != 0) return failed(output.path, error);
    std::error_code error;
    const fs::file_status replaced = fs::status(output.target, error);
    if (fs::exists(replaced)) fs::permissions(output.temporary, replaced.permissions(), error);
  }
  for (const Output& output : outputs_)
    if (output.in_place)
      if (Status status = produce_into(output.path, output); !status) return status;
  for (Output& output : outputs_) {
    if (output.in_place) continue;
    if (::rename(output.temporary.c_str(), output.target.c_str()) != 0) return failed(output.path, errno);
    formats::forget_temporary(output.temporary);
    output.temporary.clear();
  }
  return {};
}

std::vector<fs::path> OutputSet::paths() const {
  std::vector<fs::path> list;
  for (const Output& output : outputs_) list.push_back(output.path);
  return list;
}

}  // namespace tidemark::cli
