#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_trace.h"
#include "integrations/formats/utf8.h"
#include "integrations/replay/replay.h"
#include "integrations/replay/replay_report.h"

namespace tidemark::cli {
namespace {

class ReplayCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("TRACE", trace_, "operator_memory.csv, a pickled memory snapshot, minimalloc CSV or an RMM log")
        ->required()
        ->type_name("FILE");
    add_word(app, "--allocator", allocator_, "allocator", {"caching", "planned", "baseline"},
             "only this one: caching, planned, or baseline, a model of PyTorch's (default: all side by side)");
    app.add_flag("--expandable", expandable_, "baseline with expandable segments (default: both ways)");
    add_word(app, "--device", device_, "device", {"sim"}, "sim: simulated, the only one and the default");
    add_size(app, "--capacity", capacity_bytes_, "memory of the simulated device (default: ample)");
    add_size(app, "--tail-pad", tail_pad_bytes_,
             "what the device wants behind every block, 32B on Ascend (default 0B)");
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    if (expandable_ && !allocator_.empty() && allocator_ != "baseline")
      return bad_input(fmt::format("--expandable: only the baseline has it, not {}", allocator_));
    if (capacity_bytes_ && (*capacity_bytes_ <= 0 || *capacity_bytes_ > 4 * kTiB))
      return bad_input("--capacity: must be above 0 and at most 4TiB");
    if (tail_pad_bytes_.value_or(0) > kMiB) return bad_input("--tail-pad: must be at most 1MiB");
    const Result<std::string> bytes = formats::read_file(trace_);
    if (!bytes) return bytes.error();
    const Result<formats::AllocationTrace> trace = formats::read_trace(bytes.value(), trace_.string());
    if (!trace) return trace.error();
    replay::ReplayReport report{.file = formats::utf8_text(trace_.native()), .trace = &trace.value()};
    for (const replay::ReplayRequest& request : requests()) {
      Result<replay::ReplayFigures> figures = replay::replay(trace.value(), request);
      if (!figures)
        return figures.error().code == Error::Code::bad_input
                   ? bad_input(trace_.string() + ": " + figures.error().message)
                   : figures.error();
      report.replays.push_back(std::move(figures).value());
    }
    const Status status =
        console.print(format_ == Format::json ? replay::replay_json(report) : replay::replay_text(report));
    if (!status) return status.error();
    return fits(report) ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  /// Side by side, what the model of another allocator cannot do is a figure, not a refusal.
  [[nodiscard]] bool fits(const replay::ReplayReport& report) const {
    return std::all_of(report.replays.begin(), report.replays.end(), [this](const replay::ReplayFigures& replay) {
      return replay.no_room.empty() || (allocator_.empty() && replay.allocator.starts_with("baseline"));
    });
  }

  [[nodiscard]] std::vector<replay::ReplayRequest> requests() const {
    std::vector<replay::ReplayRequest> list;
    const auto add = [&](std::string_view name, replay::ReplayAllocator allocator, bool expandable) {
      if (allocator_.empty() || allocator_ == name)
        list.push_back({.allocator = allocator,
                        .expandable = expandable,
                        .capacity_bytes = capacity_bytes_.value_or(0),
                        .tail_pad_bytes = tail_pad_bytes_.value_or(0)});
    };
    add("caching", replay::ReplayAllocator::caching, false);
    add("planned", replay::ReplayAllocator::planned, false);
    if (!expandable_) add("baseline", replay::ReplayAllocator::baseline, false);
    add("baseline", replay::ReplayAllocator::baseline, true);
    return list;
  }

  std::filesystem::path trace_;
  std::string allocator_;
  bool expandable_ = false;
  std::string device_ = "sim";
  std::optional<Bytes> capacity_bytes_, tail_pad_bytes_;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdReplay;
const Verb kCmdReplay = {
    .name = "replay",
    .summary = "Replay a memory trace through an allocator: peak reserved beside peak live, and ns per operation",
    .examples =
        "  tidemark replay rank_0_operator_memory.csv\n"
        "  tidemark replay snapshot.pkl --allocator caching --format json\n"
        "  tidemark replay snapshot.pkl --allocator baseline --expandable --capacity 1GiB\n",
    .statuses =
        "  0  replayed\n"
        "  1  the trace does not fit in --capacity; side by side: through caching or planned\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark, such as overlapping blocks\n",
    .make = make_command<ReplayCommand>};

}  // namespace tidemark::cli
