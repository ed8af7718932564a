#include "integrations/formats/captured_step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "integrations/formats/cost_column.h"
#include "integrations/formats/csv_table.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"
#include "planner/graph_build/captured_graph.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMostNodes = 2'000'000, kMostEdges = 50'000'000;
constexpr double kMostCost = 1e18;
constexpr std::size_t kGraphFields = 6, kSwapFields = 9;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(" \t\r")));
    line.remove_prefix(words.back().size());
  }
}

Result<double> read_cost(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0 ||
      value > kMostCost)
    return bad_input(fmt::format("{} is {}; it must be a number from 0 to {:.0e}", name, shown(text), kMostCost));
  return value;
}

class TextReader {
 public:
  TextReader(std::string_view file, StepObjective objective) : file_(file), objective_(objective) {}

  Status read(std::string_view text) {
    for (int line = 1; !text.empty(); ++line) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string_view> words = words_of(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      last_line_ = line;
      if (words.empty() || words.front().front() == '#') continue;
      if (Status status = read_line(words); !status)
        return bad_input(fmt::format("{}:{}: {}", file_, line, status.error().message));
    }
    return check_counts();
  }

  Result<CapturedStep> finish() {
    CostColumn column;
    for (const Node& node : nodes_)
      for (const double cost : {node.run, node.page_in, node.page_out}) column.add(cost);
    GivenCosts costs{.unit = GivenCosts::Unit::one, .quantum = column.quantum()};
    if (swaps_) costs.unit = energy() ? GivenCosts::Unit::joule : GivenCosts::Unit::ns;
    if (swaps_ && !energy()) costs.quantum *= 1e9;  // the file's seconds
    const auto quanta = [&](double cost) { return CostColumn::quanta(cost, column.quantum()); };
    graph_build::CapturedGraphBuilder builder(costs);
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      Node& node = nodes_[v];
      std::ranges::sort(node.reads);
      node.reads.erase(std::unique(node.reads.begin(), node.reads.end()), node.reads.end());
      const bool swappable = swaps_ && energy();
      // A copy costs joules and no time: the file says nothing of how long one takes.
      const GivenCopies copies{.out = {.compute = quanta(node.page_out)}, .in = {.compute = quanta(node.page_in)}};
      builder.add({.name = node.name,
                   .bytes = node.bytes,
                   .swappable = swappable,
                   .copies = swappable ? std::optional(copies) : std::nullopt});
      builder.add({.name = std::move(node.name),
                   .cost = quanta(node.run),
                   .phase = node.backward ? OpPhase::backward : OpPhase::forward,
                   .reads = std::move(node.reads),
                   .writes = {static_cast<std::int32_t>(v)}});
    }
    return CapturedStep{.graph = std::move(builder).build()};
  }

 private:
  struct Node {
    std::string name;
    Bytes bytes = 0;
    bool backward = false;
    double run = 0, page_in = 0, page_out = 0;
    std::vector<std::int32_t> reads;
  };
  [[nodiscard]] bool energy() const { return objective_ != StepObjective::time; }

  Status read_line(const std::vector<std::string_view>& words) {
    if (words.front() == "G") return read_counts(words);
    if (words.front() != "N" && words.front() != "E")
      return bad_input(fmt::format("the line begins with {}; it must be G, N or E", shown(words.front())));
    if (stated_nodes_ < 0) return bad_input("there is no line `G nodes edges` before it");
    return words.front() == "N" ? read_node(words) : read_edge(words);
  }

  Status read_counts(const std::vector<std::string_view>& words) {
    if (stated_nodes_ >= 0) return bad_input("a second line G; there must be one");
    if (words.size() != 3) return bad_input("a line G has two numbers, `G nodes edges`");
    const Result<std::int64_t> nodes = read_whole("the count of nodes", words[1], 1, kMostNodes);
    if (!nodes) return nodes.error();
    const Result<std::int64_t> edges = read_whole("the count of edges", words[2], 0, kMostEdges);
    if (!edges) return edges.error();
    stated_nodes_ = nodes.value();
    edges_ = edges.value();
    return {};
  }

  Status read_node(const std::vector<std::string_view>& words) {
    const auto next = static_cast<std::int64_t>(nodes_.size());
    if (next >= stated_nodes_)
      return bad_input(fmt::format("more than the {} nodes that line G states", stated_nodes_));
    if (next == 0) swaps_ = words.size() == kSwapFields;  // the first node tells for the file
    if (words.size() != (swaps_ ? kSwapFields : kGraphFields))
      return bad_input(
          fmt::format("a node of a {} has {} columns, `N idx cost bytes backward name{}`; here are {}, and a "
                      "name has no blanks",
                      swaps_ ? ".swapgraph" : ".graph", swaps_ ? kSwapFields : kGraphFields,
                      swaps_ ? " compute_J pagein_J pageout_J" : "", words.size()));
    if (const Result<std::int64_t> index = read_whole("idx", words[1], next, next); !index) return index.error();
    if (!swaps_ && objective_ != StepObjective::cost)
      return bad_input("nodes have a cost without a unit; --objective time or energy needs a .swapgraph or JSON");
    return add_node(words);
  }

  Status add_node(const std::vector<std::string_view>& words) {
    const Result<double> cost = read_cost(swaps_ ? "runtime_s" : "cost", words[2]);
    if (!cost) return cost.error();
    const Result<std::int64_t> bytes = read_whole("bytes", words[3], 0, kMostPlanBytes);
    if (!bytes) return bytes.error();
    const Result<std::int64_t> backward = read_whole("backward", words[4], 0, 1);
    if (!backward) return backward.error();
    Node node{
        .name = std::string(words[5]), .bytes = bytes.value(), .backward = backward.value() != 0, .run = cost.value()};
    if (swaps_) {
      constexpr std::array<std::string_view, 3> kNames = {"compute_J", "pagein_J", "pageout_J"};
      double* const joules[] = {&node.run, &node.page_in, &node.page_out};
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        const Result<double> value = read_cost(kNames[i], words[kGraphFields + i]);
        if (!value) return value.error();
        if (energy()) *joules[i] = value.value();  // refused where it is none, whatever is asked for
      }
    }
    nodes_.push_back(std::move(node));
    sum_bytes_ += bytes.value();
    if (sum_bytes_ > kMostPlanBytes) return bad_input("the bytes up to here are more than a plan can hold");
    return {};
  }

  Status read_edge(const std::vector<std::string_view>& words) {
    if (words.size() != 3) return bad_input("a line E has two node numbers, `E src dst`");
    if (read_edges_ == edges_) return bad_input(fmt::format("more than the {} edges that line G states", edges_));
    const Result<std::int64_t> src = read_whole("src", words[1], 0, stated_nodes_ - 1);
    if (!src) return src.error();
    const Result<std::int64_t> dst = read_whole("dst", words[2], 0, stated_nodes_ - 1);
    if (!dst) return dst.error();
    if (src.value() >= dst.value())
      return bad_input(
          fmt::format("src is {}, dst is {}; it must be src < dst: edges point forward in the execution order",
                      src.value(), dst.value()));
    if (dst.value() >= std::ssize(nodes_))
      return bad_input(
          fmt::format("dst is {}, and there is no node {} yet; nodes stand before the edges that name them",
                      dst.value(), dst.value()));
    nodes_[static_cast<std::size_t>(dst.value())].reads.push_back(static_cast<std::int32_t>(src.value()));
    ++read_edges_;
    return {};
  }

  [[nodiscard]] Status check_counts() const {
    const auto wrong = [&](std::string_view what, std::int64_t stated, std::int64_t found) {
      return bad_input(fmt::format("{}:{}: line G states {} {}, the file has {}; is it cut short?", file_, last_line_,
                                   stated, what, found));
    };
    if (stated_nodes_ < 0)
      return bad_input(fmt::format("{}:1: there is no line `G nodes edges`, nor is it JSON", file_));
    if (std::ssize(nodes_) != stated_nodes_) return wrong("nodes", stated_nodes_, std::ssize(nodes_));
    if (read_edges_ != edges_) return wrong("edges", edges_, read_edges_);
    return {};
  }

  std::string_view file_;
  StepObjective objective_;
  std::vector<Node> nodes_;
  bool swaps_ = false;
  std::int64_t stated_nodes_ = -1, edges_ = 0, read_edges_ = 0;
  Bytes sum_bytes_ = 0;
  int last_line_ = 1;
};

}  // namespace

Result<CapturedStep> read_captured_step_text(std::string_view text, std::string_view file_name,
                                             StepObjective objective) {
  if (Status status = require_utf8(text, file_name); !status) return status.error();
  TextReader reader(file_name, objective);
  if (Status status = reader.read(text); !status) return status.error();
  return reader.finish();
}

}  // namespace tidemark::formats
