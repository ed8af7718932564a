#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/expert_counts.h"
#include "planner/graph_build/load_draws.h"

namespace tidemark::cli {
namespace {

constexpr int kMostSteps = 1'000'000;

std::vector<std::string> family_names() {
  return {graph_build::kLoadFamilyNames.begin(), graph_build::kLoadFamilyNames.end()};
}

/// `holders`: devices of the expert group, or experts.
void append_step(std::string& text, std::int64_t step, const graph_build::LoadShape& shape, std::int64_t holders,
                 const std::vector<std::int64_t>& rows) {
  auto next = rows.begin();
  for (const std::int64_t layer : shape.layers)
    for (std::int64_t m = 0; m < shape.micro_batches; ++m)
      for (std::int64_t d = 0; d < holders; ++d)
        fmt::format_to(std::back_inserter(text), "{},{},{},{},{}\n", step, layer, m, d, *next++);
}

class LoadsCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MODEL", options_.model, "model YAML of the job whose layers the loads are of")
        ->required()
        ->type_name("FILE");
    add_device(app, options_.device, "device in place of the model file's: a name or a file");
    add_word(app, "--family", family_, "family", family_names(),
             fmt::format("how rows fall on devices: {} (default {})", join_words(family_names()), family_));
    add_word(app, "--by", by_, "holder", {"device", "expert"},
             "whose rows a line is: device (default), or expert, of which those of a device sum to its rows");
    add_count(app, "--steps", steps_, 1, kMostSteps, "steps to draw (default 1)");
    add_count(app, "--first-step", first_step_, 0, kMostSteps, "number of the first (default 0)");
    add_count(app, "--seed", seed_, 0, std::numeric_limits<int>::max(), "of the draws (default 1)");
    add_file(app, "--out", out_, "write to this file in place of stdout");
  }

  Result<ExitStatus> run(Console& console) override {
    options_.places_layers = false;  // a device draws the same rows wherever its layers are
    const Result<plan::PlanRequest> request = read_request(options_);
    if (!request) return request.error();
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.value().job, request.value().machine);
    if (!shape) return bad_input(fmt::format("{}: {}", options_.model.string(), shape.error().message));
    const graph_build::LoadDraws draws(shape.value(), family(), request.value().job.expert_load,
                                       static_cast<std::uint64_t>(seed_));
    OutputSet outputs(Format::text);
    Status status = outputs.add(out_.empty() ? "-" : out_, {options_.model}, [&](std::ostream& stream) -> Status {
      return for_each_step(draws, shape.value(), [&](const std::string& text) -> Status {
        stream << text;
        return {};
      });
    });
    if (!status) return status.error();
    if (status = outputs.write(console, ""); !status) return status.error();
    return ExitStatus::done;
  }

 private:
  [[nodiscard]] graph_build::LoadFamily family() const {
    const auto& names = graph_build::kLoadFamilyNames;
    return static_cast<graph_build::LoadFamily>(std::ranges::find(names, family_) - names.begin());
  }

  /// The header, and the lines of one step after the other.
  template <class Take>
  [[nodiscard]] Status for_each_step(const graph_build::LoadDraws& draws, const graph_build::LoadShape& shape,
                                     Take take) const {
    const bool by_expert = by_ == "expert";
    std::string text = fmt::format("{}\n", by_expert ? formats::kCountHeaderOfExperts : formats::kExpertCountHeader);
    for (std::int64_t step = first_step_; step < std::int64_t{first_step_} + steps_; ++step) {
      if (by_expert)
        append_step(text, step, shape, shape.experts, draws.expert_rows(step));
      else
        append_step(text, step, shape, shape.devices, draws.rows(step));
      if (Status status = take(text); !status) return status;
      text.clear();
    }
    return {};
  }

  JobOptions options_;
  std::string family_ = "own", by_ = "device";
  int steps_ = 1, first_step_ = 0, seed_ = 1;
  std::filesystem::path out_;
};

}  // namespace

extern const Verb kCmdLoads;
const Verb kCmdLoads = {
    .name = "loads",
    .summary = "Draw rows per device, step by step, from a family of expert loads",
    .examples =
        "  tidemark loads models/pangu-ultra-moe-718b.yaml --steps 10 --out loads.csv\n"
        "  tidemark loads models/mixtral-8x7b.yaml --family hotspot --seed 7 --steps 100 --out hotspot.csv\n"
        "  tidemark loads models/mixtral-8x7b.yaml --family cold-start --by expert --out experts.csv\n"
        "  tidemark run plan.json --loads loads.csv\n",
    .statuses =
        "  0  drawn\n"
        "  2  bad usage or input; one line on stderr, nothing written\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<LoadsCommand>};

}  // namespace tidemark::cli
