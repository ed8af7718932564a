#include <fmt/format.h>
#include <tbb/global_control.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/csv_table.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_minimalloc_csv.h"
#include "integrations/formats/interval_problem.h"
#include "integrations/formats/pack_picture.h"
#include "integrations/formats/pack_report.h"
#include "integrations/formats/utf8.h"
#include "planner/layout/check_packing.h"
#include "planner/layout/packer.h"

namespace tidemark::cli {
namespace {

constexpr int kDefaultWork = 10'000'000, kMostWork = 2'000'000'000;
constexpr std::int64_t kWorkUnderTimeLimit = 1'000'000'000'000'000;  // the clock decides
constexpr Bytes kMostCapacity = std::int64_t{1} << 50;               // as the sum of all sizes
constexpr Bytes kMostAlignment = kGiB;

std::vector<std::string> packer_names() {
  std::vector<std::string> names;
  for (const layout::Packer& packer : layout::packers()) names.emplace_back(packer.name);
  return names;
}

/// A table and what it comes to, for as long as the command runs.
struct Input {
  std::string text;
  formats::IntervalTable table;
  formats::IntervalProblem problem;
};

class PackCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("FILE", file_, "buffers with their life times, minimalloc CSV (docs/formats.md)")
        ->required()
        ->type_name("FILE");
    add_bytes(app, "--capacity", capacity_bytes_, 1, kMostCapacity,
              "what the packing must not be higher than; stops as soon as it is not (default: as low as possible)");
    add_duration(app, "--time-limit", time_limit_ns_,
                 "for packing, such as 10s or 500ms; results then vary with speed");
    add_count(app, "--work", work_, 1, kMostWork,
              fmt::format("effort instead of time, about a microsecond a unit (default {})", kDefaultWork));
    add_word(app, "--packer", packer_, "packer", packer_names(),
             fmt::format("who packs ({}; default {})", join_words(packer_names()), packer_));
    add_bytes(app, "--alignment", alignment_bytes_, 1, kMostAlignment,
              "of every address; sizes are rounded up to it (default 1, and the file's own)");
    app.add_flag("--repack", repack_, "the column 'offset' is where buffers might lie, not where they must");
    add_file(app, "--out", out_, "write the file again with the addresses in the column 'offset'");
    app.add_flag("--picture", picture_, "draw time x addresses as text");
    add_threads(app, threads_);
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    Input input;
    OutputSet outputs(format_);
    std::vector<Bytes> addresses;
    Status status = outputs.add(out_, {file_}, [&](std::ostream& stream) -> Status {
      stream << formats::with_column(input.text, "offset", addresses);
      return {};
    });
    if (!status) return status.error();
    if (status = read(input); !status) return status.error();
    for (const std::string& note : input.table.notes) console.note(fmt::format("{}: {}", file_.string(), note));

    const auto [answer, seconds] = pack(input.problem);
    if (const std::optional<std::string> fault = layout::find_fault(input.problem.problem, answer.packing))
      return internal_fault(fmt::format("{}: packer {}: {}", file_.string(), answer.packer, *fault));
    formats::PackReport report{.file = formats::utf8_text(file_.native()),
                               .table = &input.table,
                               .problem = &input.problem,
                               .answer = &answer,
                               .verdict = formats::judge(input.problem, answer, capacity_bytes_),
                               .capacity_bytes = capacity_bytes_,
                               .seconds = seconds};
    if (picture_) report.picture = formats::pack_picture(input.table, input.problem, answer.packing);
    if (report.verdict.fits) {
      addresses = formats::addresses_of(input.table, input.problem, answer.packing, rules());
    } else if (!out_.empty()) {
      outputs.drop(out_);
      console.note(fmt::format("{} is not written, since the packing is higher than --capacity", out_.string()));
    }
    status = outputs.write(console, format_ == Format::json ? formats::pack_json(report) : formats::pack_text(report));
    if (!status) return status.error();
    return report.verdict.fits ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  struct Packed {
    layout::PackAnswer answer;
    double seconds = 0;
  };

  [[nodiscard]] formats::IntervalRules rules() const {
    return {.alignment_bytes = alignment_bytes_.value_or(1), .repack = repack_};
  }

  Status read(Input& input) const {
    Result<std::string> text = formats::read_file(file_);
    if (!text) return text.error();
    input.text = std::move(text).value();
    Result<formats::IntervalTable> table = formats::read_minimalloc_csv(input.text, file_.string());
    if (!table) return table.error();
    input.table = std::move(table).value();
    if (input.table.rows.empty())
      return bad_input(fmt::format("{}:1: there is no buffer; every line below the header is one", file_.string()));
    Result<formats::IntervalProblem> problem = formats::problem_of(input.table, rules(), file_.string());
    if (!problem) return problem.error();
    input.problem = std::move(problem).value();
    return {};
  }

  [[nodiscard]] Packed pack(const formats::IntervalProblem& problem) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const auto seconds = [begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    if (std::optional<layout::Packing> given = formats::given_packing(problem)) {
      layout::PackAnswer answer = layout::answer_of(problem.problem, *std::move(given), "the file's own offsets");
      return {.answer = std::move(answer), .seconds = seconds()};
    }
    layout::PackLimits limits{.work = work_ > 0 ? work_ : kDefaultWork, .enough_bytes = capacity_bytes_.value_or(0)};
    if (time_limit_ns_) {
      if (work_ == 0) limits.work = kWorkUnderTimeLimit;
      limits.should_stop = [end = begin + std::chrono::nanoseconds(*time_limit_ns_)] { return Clock::now() >= end; };
    }
    std::optional<tbb::global_control> threads;
    if (threads_ > 0) threads.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads_));
    layout::PackAnswer answer = layout::find_packer(packer_)->pack(problem.problem, limits);
    return {.answer = std::move(answer), .seconds = seconds()};
  }

  std::filesystem::path file_, out_;
  std::optional<Bytes> capacity_bytes_, alignment_bytes_;
  std::optional<std::int64_t> time_limit_ns_;
  int work_ = 0, threads_ = 0;  // work 0: the default, or as much as the time limit allows
  std::string packer_ = "auto";
  bool repack_ = false, picture_ = false;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdPack;
const Verb kCmdPack = {
    .name = "pack",
    .summary = "Pack buffers with known life times into as few bytes as possible, with a proof of how few",
    .examples =
        "  tidemark pack buffers.csv\n"
        "  tidemark pack buffers.csv --capacity 1MiB --time-limit 10s --out packed.csv\n"
        "  tidemark pack buffers.csv --alignment 512 --picture --format json\n",
    .statuses =
        "  0  packed, within --capacity where it is given\n"
        "  1  no packing within --capacity was found, or there is none: the output says which buffers cannot fit\n"
        "  2  bad usage or input; one line on stderr, nothing written\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<PackCommand>};

}  // namespace tidemark::cli
