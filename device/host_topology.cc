#include "device/host_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "device/system_files.h"
#include "device/topology_check.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

Result<CpuList> list_of_file(const fs::path& path) {
  const std::optional<std::string> text = small_file_text(path);
  if (!text)
    return bad_input(fmt::format("{}: no such file; a list of numbers as '0-3,8' belongs there", path.string()));
  return read_cpu_list(*text, path.string() + ":1");
}

/// "10 21": a number for each node. No file: not said.
Result<std::vector<int>> distances_of_file(const fs::path& path, std::size_t nodes) {
  const std::optional<std::string> text = small_file_text(path);
  std::vector<int> distances;
  if (!text) return distances;
  std::string_view rest = first_line_of(*text);
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    int distance = 0;
    if (!reads_as_number(word, distance) || distance <= 0) distances.assign(nodes + 1, 0);
    if (distances.size() > nodes) break;
    distances.push_back(distance);
  }
  if (distances.size() == nodes) return distances;
  return bad_input(fmt::format("{}:1: not {} distances; one positive number for each node online would be right",
                               path.string(), nodes));
}

Result<HostNode> read_node(const fs::path& folder, int number, std::size_t nodes, const CpuList& online) {
  HostNode node;
  node.number = number;
  Result<CpuList> cpus = list_of_file(folder / "cpulist");
  if (!cpus) return cpus.error();
  node.cpus = in_both(cpus.value(), online);
  const fs::path meminfo = folder / "meminfo";
  const std::optional<std::string> text = small_file_text(meminfo);
  if (!text) return bad_input(fmt::format("{}: no such file; the node's MemTotal belongs there", meminfo.string()));
  const Result<Bytes> memory = read_node_memory(*text, meminfo.string());
  if (!memory) return memory.error();
  node.memory_bytes = memory.value();
  Result<std::vector<int>> distances = distances_of_file(folder / "distance", nodes);
  if (!distances) return distances.error();
  node.distances = std::move(distances).value();
  return node;
}

/// A kernel that knows no nodes has one that is everything. Its memory only has to be more than none.
Status read_nodes(const fs::path& system, const CpuList& online, HostTopology& host) {
  const fs::path folder = system / "node";
  if (!fs::exists(folder / "online")) {
    host.nodes = {{.number = 0, .cpus = online, .memory_bytes = 1, .distances = {}}};
    return {};
  }
  const Result<CpuList> numbers = list_of_file(folder / "online");
  if (!numbers) return numbers.error();
  for (const int number : numbers.value()) {
    Result<HostNode> node = read_node(folder / fmt::format("node{}", number), number, numbers.value().size(), online);
    if (!node) return node.error();
    host.nodes.push_back(std::move(node).value());
  }
  if (!host.nodes.empty()) return {};
  return bad_input(fmt::format("{}:1: no node; a list as '0-1' would be right", (folder / "online").string()));
}

int node_of_cpu(const HostTopology& host, int cpu) {
  for (const HostNode& node : host.nodes)
    if (holds(node.cpus, cpu)) return node.number;
  return -1;
}

/// The hardware threads of a CPU's core that are online: itself at least.
Result<CpuList> read_threads_of_core(const fs::path& topology, int cpu, const CpuList& online) {
  for (const char* const name : {"core_cpus_list", "thread_siblings_list"}) {
    const std::optional<std::string> text = small_file_text(topology / name);
    if (!text) continue;
    const std::string place = (topology / name).string() + ":1";
    const Result<CpuList> cpus = read_cpu_list(*text, place);
    if (!cpus) return cpus.error();
    if (holds(cpus.value(), cpu)) return in_both(cpus.value(), online);
    return bad_input(fmt::format("{}: CPU {} is not among its own core's; a list with it would be right", place, cpu));
  }
  return CpuList{cpu};
}

Status read_cores(const fs::path& system, const CpuList& online, HostTopology& host) {
  std::set<int> seen;
  for (const int cpu : online) {
    if (seen.contains(cpu)) continue;
    Result<CpuList> cpus = read_threads_of_core(system / "cpu" / fmt::format("cpu{}", cpu) / "topology", cpu, online);
    if (!cpus) return cpus.error();
    HostCore core{.cpus = {}, .node = node_of_cpu(host, cpu)};
    for (const int thread : cpus.value())
      if (seen.insert(thread).second) core.cpus.push_back(thread);
    host.cores.push_back(std::move(core));
  }
  return {};
}

// PCI Code and ID Assignment Specification: base class 12h computes, 03h displays. NVIDIA's data-centre GPUs are 0302h,
// its others 0300h; Ascend NPUs are 1200h. Displays of other vendors compute nothing here.
constexpr int kProcessingClass = 0x12, kDisplayClass = 0x03;

Result<int> hexadecimal_of_file(const fs::path& path) {
  const std::optional<std::string> text = small_file_text(path);
  std::string_view rest = text ? first_line_of(*text) : std::string_view();
  const std::string_view word = next_word(rest);
  int number = 0;
  if (word.starts_with("0x") && reads_as_number(word.substr(2), number, 16) && number >= 0) return number;
  return bad_input(fmt::format("{}:1: no hexadecimal number; one as '0x120000' would be right", path.string()));
}

Result<int> node_of_file(const fs::path& path) {
  const std::optional<std::string> text = small_file_text(path);
  if (!text) return -1;  // a kernel without NUMA
  std::string_view rest = first_line_of(*text);
  int node = 0;
  if (reads_as_number(next_word(rest), node) && node >= -1 && node <= kLargestNumber) return node;
  return bad_input(
      fmt::format("{}:1: no node; its number, or -1 where it is not known, would be right", path.string()));
}

Status read_pci_device(const fs::path& folder, HostTopology& host) {
  const Result<int> kind = hexadecimal_of_file(folder / "class");
  if (!kind) return kind.error();
  const int base = kind.value() >> 16;
  if (base != kProcessingClass && base != kDisplayClass) return {};
  const Result<int> vendor = hexadecimal_of_file(folder / "vendor");
  if (!vendor) return vendor.error();
  if (base == kDisplayClass && vendor.value() != kNvidiaVendor) return {};
  const Result<int> node = node_of_file(folder / "numa_node");
  if (!node) return node.error();
  host.accelerators.push_back(
      {.pci_address = folder.filename().string(), .vendor = vendor.value(), .node = node.value()});
  return {};
}

Status read_accelerators(const fs::path& devices, HostTopology& host) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at(devices, error), end; !error && at != end; at.increment(error))
    if (!plain_pci_address(at->path().filename().string()).empty()) folders.push_back(at->path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders)
    if (Status read = read_pci_device(folder, host); !read) return read;
  return {};
}

}  // namespace

const HostNode* HostTopology::find_node(int number) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const HostNode& n) { return n.number == number; });
  return found == nodes.end() ? nullptr : &*found;
}

const HostAccelerator* HostTopology::find_accelerator(std::string_view pci_address) const {
  const std::string plain = plain_pci_address(pci_address);
  const auto found = std::find_if(accelerators.begin(), accelerators.end(), [&](const HostAccelerator& a) {
    return !plain.empty() && plain_pci_address(a.pci_address) == plain;
  });
  return found == accelerators.end() ? nullptr : &*found;
}

int node_of_all(const HostTopology& host, int vendor) {
  int node = -1;
  for (const HostAccelerator& accelerator : host.accelerators) {
    if (vendor != 0 && accelerator.vendor != vendor) continue;
    if (accelerator.node < 0 || (node >= 0 && accelerator.node != node)) return -1;
    node = accelerator.node;
  }
  return node;
}

Result<HostTopology> read_host_topology(const std::string& root) {
  HostTopology host{.root = root, .nodes = {}, .cores = {}, .accelerators = {}};
  const fs::path sys = fs::path(root.empty() ? "/" : root) / "sys";
  const fs::path system = sys / "devices" / "system";
  const Result<CpuList> online = list_of_file(system / "cpu" / "online");
  if (!online) return online.error();
  if (online.value().empty())
    return bad_input(fmt::format("{}:1: no CPU; a list as '0-3' would be right", (system / "cpu" / "online").string()));
  if (Status read = read_nodes(system, online.value(), host); !read) return read.error();
  if (Status read = read_cores(system, online.value(), host); !read) return read.error();
  if (Status read = read_accelerators(sys / "bus" / "pci" / "devices", host); !read) return read.error();
  // Without nodes, what devices say of theirs means nothing.
  if (host.simulated() && fs::exists(system / "node" / "online"))
    if (Status check = check_topology(host); !check) return check.error();
  return host;
}

Result<Bytes> read_node_memory(std::string_view text, std::string_view place) {
  std::optional<Bytes> kib;
  int at = 0;
  each_line_of(text, [&](std::string_view line, int number) {
    const std::size_t found = line.find(" MemTotal:");
    if (found == std::string_view::npos) return true;
    at = number;
    std::string_view rest = line.substr(found + std::string_view(" MemTotal:").size());
    Bytes value = 0;
    // Above that, bytes leave 64 bits.
    if (reads_as_number(next_word(rest), value) && value >= 0 && value <= kTiB * 1024 && next_word(rest) == "kB")
      kib = value;
    return false;
  });
  if (kib) return *kib * kKiB;
  return bad_input(fmt::format("{}:{}: no MemTotal; a line as 'Node 0 MemTotal: 4679884 kB' would be right", place,
                               std::max(at, 1)));
}

std::string plain_pci_address(std::string_view address) {
  std::string name(address);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  const bool plain = name.find_first_not_of("0123456789abcdef:.") == std::string::npos;
  const auto colons = std::count(name.begin(), name.end(), ':');
  if (!plain || colons < 1 || colons > 2 || std::count(name.begin(), name.end(), '.') != 1) return "";
  if (colons == 1) name.insert(0, "0000:");
  // Drivers print domains of eight digits, sysfs names have four.
  while (name.find(':') > 4 && name.front() == '0') name.erase(0, 1);
  return name;
}

}  // namespace tidemark
