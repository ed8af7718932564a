#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/progress.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"
#include "integrations/formats/architecture_report.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_architectures.h"
#include "integrations/formats/search_log.h"
#include "integrations/formats/search_report.h"

namespace tidemark::cli {
namespace {

constexpr int kMostDevices = 1 << 24;
constexpr int kMostShown = 10'000;
constexpr int kMostPlanned = 1'000'000;
constexpr int kMostTokens = 1 << 27;
constexpr int kMostBatch = 1 << 30;

/// The file of --resume: what it knows, and where new lines go.
class ResumeFile {
 public:
  /// Errors (bad_input): it cannot be read or written, or is another search's.
  Status open(const std::filesystem::path& path, const std::string& header) {
    if (path.empty()) return {};
    if (path == "-") return bad_input("--resume: is read and appended to, so it must be a file, not stdout");
    path_ = path;
    std::string text;
    if (std::error_code error; std::filesystem::exists(path, error)) {
      Result<std::string> read = formats::read_file(path, formats::kMostMeasurementBytes);
      if (!read) return read.error();
      text = std::move(read).value();
    }
    Result<formats::SearchLog> log = formats::read_search_log(text, path.string(), header);
    if (!log) return log.error();
    known_ = std::move(log.value().known);
    if (log.value().whole_bytes < text.size()) {
      std::error_code error;
      std::filesystem::resize_file(path, log.value().whole_bytes, error);
      if (error) return bad_input(fmt::format("{}: cannot write: {}", path.string(), error.message()));
    }
    errno = 0;
    stream_.open(path, std::ios::binary | std::ios::app);
    write(log.value().whole_bytes == 0 ? header : "");
    return state();
  }

  void add(const search::SearchLayout& layout, const search::LayoutFigures& figures) {
    if (path_.empty() || known_.contains(search::layout_text(layout))) return;
    errno = 0;
    write(formats::search_line(layout, figures));
  }

  [[nodiscard]] const std::map<std::string, search::LayoutFigures>& known() const { return known_; }
  [[nodiscard]] Status state() const {
    if (path_.empty() || stream_.good()) return {};
    return bad_input(fmt::format("{}: cannot write: {}", path_.string(), std::strerror(error_)));
  }

 private:
  /// What went wrong first is kept; nothing is written behind it.
  void write(const std::string& text) {
    stream_ << text << std::flush;
    if (!stream_.good() && error_ == 0) error_ = errno != 0 ? errno : EIO;
  }

  std::filesystem::path path_;
  std::map<std::string, search::LayoutFigures> known_;
  std::ofstream stream_;
  int error_ = 0;  ///< errno of the first failure
};

class SearchCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app_ = &app;
    add_job_options(app, job_);
    for (const char* refused : {"--ranks", "--imbalance-from"}) app.get_option(refused)->group("");  // not in --help
    app.get_option("--imbalance")
        ->type_name("F")
        ->description(
            "expert load that every layer and micro-batch has memory for (rows on a device over the mean); default: "
            "the mean "
            "of the job's distribution");
    add_count(app, "--devices", devices_, 1, kMostDevices, "devices to lay the job out on; default: as many as it has");
    add_count(app, "--sequence", sequence_, 1, kMostTokens, "tokens of a sequence, instead of the model file's");
    add_count(app, "--global-batch", global_batch_, 1, kMostBatch, "sequences of a step, instead of the model file's");
    add_count(app, "--top", top_, 1, kMostShown, "layouts ranked (default 10)");
    add_count(
        app, "--most-planned", most_planned_, 1, kMostPlanned,
        "layouts looked at beyond their bounds, the most promising first (default 48), and on top of them the job's "
        "own where it is one of them; those are planned that may be among the fastest; the result never depends on the "
        "machine's speed");
    app.add_option(
           "--architectures", architectures_,
           "YAML of what varies in the model, its bounds and its layouts (docs/formats.md): ranks architectures, "
           "each on its best layout, in place of layouts of one")
        ->type_name("FILE");
    add_file(app, "--resume", resume_, "append finished layouts to this file, and take from it what it has");
  }

  Result<ExitStatus> run(Console& console) override {
    if (Status status = refuse_what_does_not_count(); !status) return status.error();
    job_.any_layout = true;
    Result<plan::PlanRequest> read = read_request(job_, &console);
    if (!read) return read.error();
    plan::PlanRequest& request = read.value();
    if (sequence_ > 0) request.job.model.sequence = sequence_;
    if (global_batch_ > 0) request.job.parallel.global_batch = global_batch_;
    const std::int64_t devices = devices_ > 0 ? devices_ : request.job.parallel.devices();
    if (!architectures_.empty()) return run_architectures(request, devices, console);
    const search::LayoutSpace space = search::enumerate_layouts(request.job, request.machine, devices);
    if (space.layouts.empty()) return bad_input(none_is_legal(space, devices));
    ResumeFile file;
    if (Status status = file.open(resume_, formats::search_header(request, version_text())); !status)
      return status.error();

    const Result<search::LayoutSearchResult> result = search(request, space, file, console);
    if (!result) return result.error();
    if (Status status = file.state(); !status) return status.error();
    const formats::SearchReport report{
        .request = request, .space = space, .result = result.value(), .devices = devices};
    const Status status =
        console.print(job_.format == Format::json ? formats::search_json(report) : formats::search_text(report));
    if (!status) return status.error();
    return result.value().best.empty() ? ExitStatus::answer_is_no : ExitStatus::done;
  }

 private:
  [[nodiscard]] Status refuse_what_does_not_count() const {
    if (Status status = refuse_given(*app_, {"--ranks"}, "a search plans every rank"); !status) return status;
    if (!architectures_.empty())
      if (Status status = refuse_given(*app_, {"--resume", "--most-planned"},
                                       "a search of architectures keeps no log and plans its Pareto set");
          !status)
        return status;
    if (Status status = refuse_given(*app_, {"--imbalance-from"}, "a search plans at one load, --imbalance F"); !status)
      return status;
    if (!job_.imbalance.quantile) return {};
    return bad_input("--imbalance: a search plans every layout at one load; give a number such as 1.2");
  }

  [[nodiscard]] std::string none_is_legal(const search::LayoutSpace& space, std::int64_t devices) const {
    std::string keys;
    for (const auto& [key, count] : space.refused)
      keys += fmt::format("{}{} ({})", keys.empty() ? "" : ", ", key, count);
    return fmt::format("{}: no legal layout on {} devices; rules broken: {}", subject_of(job_).string(), devices,
                       keys.empty() ? "no degrees divide them" : keys);
  }

  Result<ExitStatus> run_architectures(const plan::PlanRequest& request, std::int64_t devices, Console& console) const {
    const Result<std::string> text = formats::read_file(architectures_, formats::kMostDescriptionBytes);
    if (!text) return text.error();
    const Result<formats::ArchitectureQuery> query = formats::read_architectures(text.value(), architectures_.string());
    if (!query) return query.error();
    const search::ArchitectureSpace space =
        search::enumerate_architectures(request.job, query.value().ranges, query.value().bounds);
    Progress progress("pricing", console.draws_progress());
    const search::ArchitectureSearchRequest asked{
        .plan = request,
        .space = space,
        .devices = devices,
        .layouts = query.value().layouts,
        .bounds = query.value().bounds,
        .progress = [&](int done, int total) { progress.update(done, total); }};
    const Result<search::ArchitectureSearchResult> result = search::search_architectures(asked);
    if (!result) return result.error();
    const formats::ArchitectureReport report{
        .request = asked, .result = result.value(), .top = static_cast<std::size_t>(top_)};
    const Status status = console.print(job_.format == Format::json ? formats::architecture_search_json(report)
                                                                    : formats::architecture_search_text(report));
    if (!status) return status.error();
    return result.value().fitting.empty() ? ExitStatus::answer_is_no : ExitStatus::done;
  }

  [[nodiscard]] Result<search::LayoutSearchResult> search(const plan::PlanRequest& request,
                                                          const search::LayoutSpace& space, ResumeFile& file,
                                                          const Console& console) const {
    Progress progress("planning", console.draws_progress());
    return search::search_layouts(
        {.plan = request,
         .space = space,
         .top = static_cast<std::size_t>(top_),
         .most_planned = static_cast<std::size_t>(most_planned_),
         .place = true,
         .known = file.known(),
         .finished = [&](const search::SearchLayout& layout, const search::LayoutFigures& f) { file.add(layout, f); },
         .progress = [&](int done, int total) { progress.update(done, total); }});
  }

  const CLI::App* app_ = nullptr;
  JobOptions job_;
  int devices_ = 0, sequence_ = 0, global_batch_ = 0;
  int top_ = 10, most_planned_ = 48;
  std::filesystem::path resume_;
  std::filesystem::path architectures_;  ///< empty: layouts are searched
};

}  // namespace

extern const Verb kCmdSearch;
const Verb kCmdSearch = {
    .name = "search",
    .summary = "Rank layouts of a job on a number of devices by modelled step time, those that fit",
    .examples =
        "  tidemark search models/pangu-ultra-moe-718b.yaml --devices 6144\n"
        "  tidemark search models/pangu-ultra-moe-718b.yaml --devices 6144 --imbalance 1.15 --resume search.log\n"
        "  tidemark search models/llama-3-70b.yaml --devices 256 --global-batch 512 --top 20 --format json\n",
    .statuses =
        "  0  at least one layout fits; the fastest found are ranked\n"
        "  1  no layout that was planned fits\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<SearchCommand>};

}  // namespace tidemark::cli
