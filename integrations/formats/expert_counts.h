#pragma once
// Rows of routed tokens per device as CSV, read one step at a time: what trainers log, what `tidemark loads` writes.
//
//   step,layer,micro_batch,device,rows
//   0,3,0,0,16380
//   0,3,0,1,16412
//
// A line is one device's share of one (layer, micro-batch) of a step; devices number the expert group. With the column
// `expert` in place of `device` it is one expert's; experts stand on the devices in order, as many on each. Lines of
// one step stand together, steps ascend, the order inside a step is free. Without the column `step` all lines are of
// step 0. Blank lines and lines that begin with `#` are skipped. A byte order mark of UTF-8 is, too.

#include <compare>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark::formats {

/// The first line, whose column `step` may be left out.
inline constexpr std::string_view kExpertCountHeader = "step,layer,micro_batch,device,rows";
/// The same of experts.
inline constexpr std::string_view kCountHeaderOfExperts = "step,layer,micro_batch,expert,rows";

struct ExpertCount {
  int line = 0;  ///< of the file, from 1
  /// `device`: or the expert, where the file counts those.
  std::int64_t layer = 0, micro_batch = 0, device = 0, rows = 0;
};

/// What a count is of; ascends as files that are written in order do.
struct CountPlace {
  std::int64_t layer = 0, micro_batch = 0, device = 0;
  friend auto operator<=>(const CountPlace&, const CountPlace&) = default;
};

[[nodiscard]] constexpr CountPlace place_of(const ExpertCount& count) {
  return {.layer = count.layer, .micro_batch = count.micro_batch, .device = count.device};
}

/// All lines of one step. Not empty.
struct CountedStep {
  std::int64_t step = 0;
  std::vector<ExpertCount> counts;
};

/// Threads: one at a time. Memory: one step.
class ExpertCountReader {
 public:
  /// The stream must outlive the reader. `file` names the input in errors.
  ExpertCountReader(std::istream& in, std::string file);

  /// The next step; nothing at the end. Errors (bad_input, `file:line: what`): another header, a line that is not its
  /// numbers, a step below the one before, no line at all. After an error nothing more may be asked.
  [[nodiscard]] Result<std::optional<CountedStep>> next();

  /// Lines are of experts. Known once a step was read.
  [[nodiscard]] bool is_by_expert() const { return is_by_expert_; }
  /// `device` or `expert`.
  [[nodiscard]] std::string_view holder() const { return is_by_expert_ ? "expert" : "device"; }

  /// bad_input with `file:line: what`.
  [[nodiscard]] Error wrong(int line, const std::string& what) const;

  /// The step that was read last does not name `place`: wrong() at the line before which it would stand, of a step
  /// whose lines are in order, else at the last of its lines. `rule` says why it should. Reads the file on: where steps
  /// are out of order further down, parts of one stand in two places, and that is what is said.
  [[nodiscard]] Error lacks(const CountedStep& step, const CountPlace& place, std::string_view rule);
  /// The step that was read last names at `line` what it should not: wrong(), or as lacks() what is out of order.
  [[nodiscard]] Error has(int line, const std::string& what);
  /// The error, or that steps are out of order from here on: as lacks().
  [[nodiscard]] Error unless_out_of_order(Error error);

 private:
  struct Line {
    std::int64_t step = 0;
    ExpertCount count;
  };
  /// The next line that says something; nothing at the end.
  [[nodiscard]] Result<std::optional<Line>> read_line();
  [[nodiscard]] Status read_header();
  /// As the file has it.
  [[nodiscard]] std::string_view header() const;
  [[nodiscard]] Status skip_mark();
  [[nodiscard]] Result<Line> parse(std::string_view text) const;

  std::istream& in_;
  std::string file_, text_;
  int number_ = 0;
  std::size_t fields_ = 0;
  bool is_by_expert_ = false;
  bool is_out_of_order_ = false;  ///< the error was that of a step below the one before
  std::optional<Line> ahead_;     ///< first line of the next step
};

/// The step that `reader` read last, by device: as it is, or rows of experts added up to those of the devices that they
/// are on. Errors (bad_input, `file:line: what`): an expert that there is not, one named twice, or not at all of a
/// device that another is named of. REQUIRES: experts is a multiple of devices.
[[nodiscard]] Result<CountedStep> by_device(const CountedStep& step, ExpertCountReader& reader, std::int64_t experts,
                                            std::int64_t devices);

}  // namespace tidemark::formats
