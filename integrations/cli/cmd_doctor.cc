#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/bytes.h"
#include "device/host_pages.h"
#include "device/topology_check.h"
#include "integrations/cli/console.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/options.h"
#include "integrations/cli/time_devices.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"
#include "integrations/formats/binding_report.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/utf8.h"

namespace tidemark::cli {
namespace {

struct Finding {
  std::string what, value;
  bool ok = true;
};

/// Reads every description of a kind; the first that is refused is named.
/// `read`: of a text and the name of its file.
template <class Read>
Finding check_descriptions(std::string_view kind, const Read& read) {
  const std::vector<Description> found = list_descriptions(kind, share_directories());
  Finding finding{.what = std::string(kind), .value = fmt::format("{} found", found.size()), .ok = !found.empty()};
  for (const Description& description : found) {
    const Result<std::string> text = formats::read_file(description.path, formats::kMostDescriptionBytes);
    const Status status = text ? [&]() -> Status {
      const auto value = read(text.value(), description.path.string());
      return value ? Status() : Status(value.error());
    }()
        : Status(text.error());
    if (!status) return {.what = finding.what, .value = status.error().message, .ok = false};
    finding.value += (&description == &found.front() ? ": " : ", ") + description.name;
  }
  return finding;
}

Finding check_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  const std::string total = pages <= 0 || page <= 0 ? "unknown" : format_bytes(Bytes{pages} * page);
  return {.what = "memory", .value = total + ", " + available_host_memory().text()};
}

Finding check_shares() {
  Finding finding{.what = "data directory", .ok = false};
  for (const auto& share : share_directories()) {
    finding.value += (finding.ok ? ", " : "") + share.string();
    finding.ok = true;
  }
  if (!finding.ok) finding.value = "none with devices/ and models/ found";
  return finding;
}

/// Reference data is for the test suites alone: missing is no fault, pointing nowhere is.
Finding check_reference_data() {
  const char* given = std::getenv("TIDEMARK_DATA");
  if (given == nullptr || *given == '\0')
    return {.what = "reference data", .value = "TIDEMARK_DATA is not set (tests only)"};
  std::error_code error;
  const bool exists = std::filesystem::is_directory(given, error);
  return {
      .what = "reference data", .value = exists ? given : fmt::format("{}: no such directory", given), .ok = exists};
}

constexpr int kMostProcess = 1 << 22;  ///< PID_MAX_LIMIT of Linux (include/linux/threads.h)

/// How this process, or the one asked about, lies to the devices of this host, or of a simulated one.
struct BindingRequest {
  std::filesystem::path topology;  ///< empty: this machine
  std::string local_devices;       ///< empty: every accelerator, of which some are used
  int process = 0;                 ///< 0: this one
};

Result<formats::BindingReport> look_at_binding(const BindingRequest& request) {
  const std::string root = request.topology.string();
  Result<HostTopology> host = read_host_topology(root);
  if (!host) return host.error();
  Result<ProcessPlaces> places =
      request.process == 0 ? read_own_places(root) : read_process_places(request.process, root);
  if (!places) return places.error();
  Result<std::vector<RankDevice>> devices = request.local_devices.empty()
                                                ? all_accelerators(host.value())
                                                : read_rank_devices(request.local_devices, host.value());
  if (!devices) return devices.error();
  // On a machine, several ranks have parts of one GPU, and a device may hang on a node of memory alone.
  if (host.value().simulated())
    if (Status check = check_rank_devices(host.value(), devices.value()); !check) return check.error();
  return formats::make_binding_report(std::move(host).value(), std::move(places).value(), std::move(devices).value(),
                                      request.local_devices.empty() ? DevicesMeant::any : DevicesMeant::all);
}

void add_binding(const formats::BindingReport& report, std::vector<Finding>& findings) {
  for (auto& [what, value] : formats::binding_rows(report)) findings.push_back({.what = what, .value = value});
  for (const BindingProblem& problem : report.problems)
    findings.push_back({.what = "binding", .value = formats::text_of_problem(problem), .ok = false});
}

/// torch_npu binds its own threads by this; two that bind would narrow each other.
void add_npu_binding(std::vector<Finding>& findings) {
  const char* const given = std::getenv("CPU_AFFINITY_CONF");
  if (given == nullptr || *given == '\0' || std::string_view(given).starts_with("0")) return;
  findings.push_back(
      {.what = "CPU_AFFINITY_CONF",
       .value = fmt::format("{}: torch_npu binds its own threads, so tidemark.bind_process() is refused", given)});
}

class DoctorCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    add_format(app, format_);
    add_file(app, "--topology", binding_.topology,
             "look at a simulated host: a folder that stands for /, with sys and proc of it");
    app.add_option("--local-devices", binding_.local_devices,
                   "devices of the ranks on this host in rank order: PCI addresses, node0 and so on, unknown or none, "
                   "with commas")
        ->type_name("LIST");
    add_count(app, "--process", binding_.process, 1, kMostProcess, "look at where this process and its threads run");
  }

  Result<ExitStatus> run(Console& console) override {
    std::vector<Finding> findings = {{.what = "version", .value = version_number()}};
    for (const auto& [name, value] : build_facts()) findings.push_back({.what = name, .value = value});
    findings.push_back({.what = "cores", .value = fmt::format("{}", std::thread::hardware_concurrency())});
    findings.push_back(check_memory());
    findings.push_back(check_shares());
    findings.push_back(check_descriptions("devices", [](std::string_view text, std::string_view file) {
      return formats::read_machine(text, file, chips_for(std::filesystem::path(file)));
    }));
    findings.push_back(check_descriptions("models", formats::read_described_job));
    findings.push_back(check_reference_data());
    const Result<formats::BindingReport> binding = look_at_binding(binding_);
    // A kernel that hides its files is no fault where nothing was asked about them.
    const bool asked = !binding_.topology.empty() || !binding_.local_devices.empty() || binding_.process != 0;
    if (!binding && asked) return binding.error();
    if (binding) {
      add_binding(binding.value(), findings);
    } else {
      findings.push_back({.what = "topology", .value = "not known: " + binding.error().message});
    }
    add_npu_binding(findings);

    std::string text;
    auto json = nlohmann::ordered_json::array();
    bool healthy = true;
    for (const Finding& finding : findings) {
      healthy = healthy && finding.ok;
      text += fmt::format("{:<4}  {:<14}  {}\n", finding.ok ? "ok" : "BAD", finding.what, finding.value);
      json.push_back({{"what", finding.what}, {"value", formats::utf8_text(finding.value)}, {"ok", finding.ok}});
    }
    using Json = nlohmann::ordered_json;
    Json whole = {{"healthy", healthy}, {"findings", json}};
    if (binding) whole["binding"] = formats::binding_json(binding.value());
    const Status status = console.print(format_ == Format::json ? whole.dump(2) + "\n" : text);
    if (!status) return status.error();
    return healthy ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  Format format_ = Format::text;
  BindingRequest binding_;
};

}  // namespace

extern const Verb kCmdDoctor;
const Verb kCmdDoctor = {
    .name = "doctor",
    .summary = "Check this installation and host: versions, packages, devices and models, memory, CPUs near devices",
    .examples =
        "  tidemark doctor\n"
        "  tidemark doctor --format json\n"
        "  tidemark doctor --local-devices 0000:3b:00.0,0000:af:00.0   (one a rank)\n"
        "  tidemark doctor --process 4711                              (where a job's threads run)\n",
    .statuses =
        "  0  everything is in place\n"
        "  1  something is missing, broken or bound to the wrong place\n"
        "  2  bad usage or a host that cannot be read; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<DoctorCommand>};

}  // namespace tidemark::cli
