#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/bytes.h"
#include "device/host_pages.h"
#include "integrations/cli/console.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/options.h"
#include "integrations/cli/time_devices.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"
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

class DoctorCommand final : public Command {
 public:
  void declare(CLI::App& app) override { add_format(app, format_); }

  Result<ExitStatus> run(Console& console) override {
    std::vector<Finding> findings = {{.what = "version", .value = version_number()}};
    for (const auto& [name, value] : build_facts()) findings.push_back({.what = name, .value = value});
    findings.push_back({.what = "cores", .value = fmt::format("{}", std::thread::hardware_concurrency())});
    findings.push_back(check_memory());
    findings.push_back(check_shares());
    findings.push_back(check_descriptions("devices", [](std::string_view text, std::string_view file) {
      return formats::read_machine(text, file, chips_for(std::filesystem::path(file)));
    }));
    findings.push_back(check_descriptions("models", formats::read_job));
    findings.push_back(check_reference_data());

    std::string text;
    auto json = nlohmann::ordered_json::array();
    bool healthy = true;
    for (const Finding& finding : findings) {
      healthy = healthy && finding.ok;
      text += fmt::format("{:<4}  {:<14}  {}\n", finding.ok ? "ok" : "BAD", finding.what, finding.value);
      json.push_back({{"what", finding.what}, {"value", formats::utf8_text(finding.value)}, {"ok", finding.ok}});
    }
    using Json = nlohmann::ordered_json;
    const Status status =
        console.print(format_ == Format::json ? Json({{"healthy", healthy}, {"findings", json}}).dump(2) + "\n" : text);
    if (!status) return status.error();
    return healthy ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdDoctor;
const Verb kCmdDoctor = {
    .name = "doctor",
    .summary = "Check this installation: versions, packages, devices and models found, cores, memory",
    .examples =
        "  tidemark doctor\n"
        "  tidemark doctor --format json\n",
    .statuses =
        "  0  everything is in place\n"
        "  1  something is missing or broken\n"
        "  2  bad usage; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<DoctorCommand>};

}  // namespace tidemark::cli
