#include "integrations/cli/output_set.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "integrations/ci/plain_words.h"
#include "integrations/cli/console.h"
#include "integrations/cli/descriptor_stream.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;
using formats::cannot_write;

bool names_stdout(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kNames = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
  return std::ranges::find(kNames, path.native()) != kNames.end();
}

fs::path link_target(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

/// A live link is followed, so a dangling one is not replaced.
bool is_dangling(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(path, error) && !fs::exists(path, error);
}

/// The same file, whether or not it exists yet.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const bool is_there = fs::exists(a, error);
  if (is_there != fs::exists(b, error)) return false;
  if (is_there) return fs::equivalent(a, b, error) && !error;
  return fs::weakly_canonical(fs::absolute(a, error), error) == fs::weakly_canonical(fs::absolute(b, error), error);
}

/// The directory of a file that is to be made or replaced takes it. 0 or errno.
int find_obstacle(const fs::path& target, bool exists) {
  const fs::path directory = target.parent_path().empty() ? fs::path(".") : target.parent_path();
  std::error_code error;
  if (!fs::is_directory(directory, error)) return fs::exists(directory, error) ? ENOTDIR : ENOENT;
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return errno;
  return exists && ::access(target.c_str(), W_OK) != 0 ? errno : 0;
}

}  // namespace

OutputSet::~OutputSet() {
  for (const Output& output : outputs_) {
    if (output.fd >= 0 && !output.is_stdout) ::close(output.fd);
    if (output.temporary.empty()) continue;
    ::unlink(output.temporary.c_str());
    formats::forget_temporary(output.temporary);
  }
}

Status OutputSet::refuse_shared(const fs::path& path, bool is_stdout, const std::vector<fs::path>& inputs) const {
  const auto refused = [&](std::string_view why) {
    return bad_input(fmt::format("{}: cannot write: {}", is_stdout ? "stdout" : path.string(), why));
  };
  if (is_stdout && result_ == Format::json)
    return refused("--format json prints its result there, too; name a file or drop one of them");
  for (const fs::path& input : inputs)
    if (!is_stdout && same_file(path, input)) return refused("it is read by this command");
  for (const Output& other : outputs_)
    if (is_stdout ? other.is_stdout : !other.is_stdout && same_file(path, other.path))
      return refused("it is named for two outputs");
  return {};
}

Status OutputSet::add(const fs::path& path, const std::vector<fs::path>& inputs, Producer produce) {
  if (path.empty()) return {};
  Output output{
      .path = path, .target = link_target(path), .produce = std::move(produce), .is_stdout = names_stdout(path)};
  if (Status status = refuse_shared(path, output.is_stdout, inputs); !status) return status;
  if (output.is_stdout) {
    output.fd = STDOUT_FILENO;
    outputs_.push_back(std::move(output));
    return {};
  }
  if (is_dangling(path))
    return bad_input(fmt::format(
        "{}: cannot write: it is a link that leads nowhere; make the file it leads to, or remove it", path.string()));
  std::error_code error;
  const fs::file_status status = fs::status(output.target, error);
  if (fs::is_directory(status)) return cannot_write(path, EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    output.fd = formats::open_in_place(output.target);
    if (output.fd < 0) return cannot_write(path, errno);
  } else if (const int obstacle = find_obstacle(output.target, fs::exists(status)); obstacle != 0) {
    return cannot_write(path, obstacle);
  }
  outputs_.push_back(std::move(output));
  return {};
}

Status OutputSet::produce_into(int fd, const Output& output) {
  DescriptorStream stream(fd);
  const Status status = output.produce(stream);
  if (const int error = stream.finish(); error != 0)
    return cannot_write(output.is_stdout ? "stdout" : output.path, error);
  return status;
}

Status OutputSet::make_temporary(Output& output) {
  const formats::Temporary temporary = formats::create_temporary(output.target);
  if (temporary.fd < 0) return cannot_write(output.path, errno);
  output.temporary = temporary.path;
  Status status = produce_into(temporary.fd, output);
  struct stat replaced {};
  const bool replaces = ::stat(output.target.c_str(), &replaced) == 0;
  if (status && replaces && ::fchmod(temporary.fd, replaced.st_mode & 07777) != 0)
    status = cannot_write(output.path, errno);
  if (status && ::fsync(temporary.fd) != 0) status = cannot_write(output.path, errno);
  if (::close(temporary.fd) != 0 && status) status = cannot_write(output.path, errno);
  return status;
}

void OutputSet::drop(const fs::path& path) {
  const auto found = std::ranges::find(outputs_, path, &Output::path);
  if (found == outputs_.end()) return;
  if (found->fd >= 0 && !found->is_stdout) ::close(found->fd);
  outputs_.erase(found);
}

Status OutputSet::write(const Console& console, std::string_view result) {
  for (Output& output : outputs_)
    if (output.fd < 0)
      if (Status status = make_temporary(output); !status) return status;
  for (const bool is_stdout : {false, true})
    for (const Output& output : outputs_)
      if (output.fd >= 0 && output.is_stdout == is_stdout)
        if (Status status = produce_into(output.fd, output); !status) return status;
  if (std::ranges::any_of(outputs_, &Output::is_stdout)) {
    if (!console.quiet()) complain(ci::without_commands(result));
  } else if (Status status = console.print(result); !status) {
    return status;
  }
  return rename_all(console);
}

Status OutputSet::rename_all(const Console& console) {
  for (Output& output : outputs_) {
    if (output.fd >= 0) continue;
    if (::rename(output.temporary.c_str(), output.target.c_str()) != 0) return cannot_write(output.path, errno);
    formats::forget_temporary(output.temporary);
    output.temporary.clear();
  }
  for (const Output& output : outputs_)
    if (!output.is_stdout) console.note(fmt::format("wrote {}", output.path.string()));
  return {};
}

}  // namespace tidemark::cli
