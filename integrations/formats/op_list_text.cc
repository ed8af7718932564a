#include "integrations/formats/op_list_text.h"

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

namespace tidemark {
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

  Result<OpList> finish() {
    CostColumn column;
    for (const Costs& costs : costs_)
      for (const double cost : {costs.run, costs.page_in, costs.page_out}) column.add(cost);
    list_.cost_quantum = column.quantum();
    if (swaps_) list_.cost_unit = energy() ? OpList::CostUnit::joule : OpList::CostUnit::ns;
    if (swaps_ && !energy()) list_.cost_quantum *= 1e9;  // the file's seconds
    for (std::size_t v = 0; v < costs_.size(); ++v) {
      list_.ops[v].cost = CostColumn::quanta(costs_[v].run, column.quantum());
      list_.storages[v].page_in_cost = CostColumn::quanta(costs_[v].page_in, column.quantum());
      list_.storages[v].page_out_cost = CostColumn::quanta(costs_[v].page_out, column.quantum());
    }
    for (OpList::Op& op : list_.ops) {
      std::ranges::sort(op.reads);
      op.reads.erase(std::unique(op.reads.begin(), op.reads.end()), op.reads.end());
    }
    return std::move(list_);
  }

 private:
  struct Costs {
    double run = 0, page_in = 0, page_out = 0;
  };
  [[nodiscard]] bool energy() const { return objective_ != StepObjective::time; }

  Status read_line(const std::vector<std::string_view>& words) {
    if (words.front() == "G") return read_counts(words);
    if (words.front() != "N" && words.front() != "E")
      return bad_input(fmt::format("the line begins with {}; it must be G, N or E", shown(words.front())));
    if (nodes_ < 0) return bad_input("there is no line `G nodes edges` before it");
    return words.front() == "N" ? read_node(words) : read_edge(words);
  }

  Status read_counts(const std::vector<std::string_view>& words) {
    if (nodes_ >= 0) return bad_input("a second line G; there must be one");
    if (words.size() != 3) return bad_input("a line G has two numbers, `G nodes edges`");
    const Result<std::int64_t> nodes = read_whole("the count of nodes", words[1], 1, kMostNodes);
    if (!nodes) return nodes.error();
    const Result<std::int64_t> edges = read_whole("the count of edges", words[2], 0, kMostEdges);
    if (!edges) return edges.error();
    nodes_ = nodes.value();
    edges_ = edges.value();
    return {};
  }

  Status read_node(const std::vector<std::string_view>& words) {
    const auto next = static_cast<std::int64_t>(list_.ops.size());
    if (next >= nodes_) return bad_input(fmt::format("more than the {} nodes that line G states", nodes_));
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
    Costs costs{.run = cost.value()};
    if (swaps_) {
      constexpr std::array<std::string_view, 3> kNames = {"compute_J", "pagein_J", "pageout_J"};
      double* const joules[] = {&costs.run, &costs.page_in, &costs.page_out};
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        const Result<double> value = read_cost(kNames[i], words[kGraphFields + i]);
        if (!value) return value.error();
        if (energy()) *joules[i] = value.value();  // refused where it is none, whatever is asked for
      }
    }
    std::string name(words[5]);
    list_.storages.push_back({.name = name, .bytes = bytes.value(), .swappable = swaps_ && energy()});
    list_.ops.push_back({.name = std::move(name),
                         .phase = backward.value() != 0 ? OpList::Phase::backward : OpList::Phase::forward,
                         .writes = {static_cast<std::int32_t>(list_.ops.size())}});
    costs_.push_back(costs);
    sum_bytes_ += bytes.value();
    if (sum_bytes_ > kMostPlanBytes) return bad_input("the bytes up to here are more than a plan can hold");
    return {};
  }

  Status read_edge(const std::vector<std::string_view>& words) {
    if (words.size() != 3) return bad_input("a line E has two node numbers, `E src dst`");
    if (read_edges_ == edges_) return bad_input(fmt::format("more than the {} edges that line G states", edges_));
    const Result<std::int64_t> src = read_whole("src", words[1], 0, nodes_ - 1);
    if (!src) return src.error();
    const Result<std::int64_t> dst = read_whole("dst", words[2], 0, nodes_ - 1);
    if (!dst) return dst.error();
    if (src.value() >= dst.value())
      return bad_input(
          fmt::format("src is {}, dst is {}; it must be src < dst: edges point forward in the execution order",
                      src.value(), dst.value()));
    if (dst.value() >= std::ssize(list_.ops))
      return bad_input(
          fmt::format("dst is {}, and there is no node {} yet; nodes stand before the edges that name them",
                      dst.value(), dst.value()));
    list_.ops[static_cast<std::size_t>(dst.value())].reads.push_back(static_cast<std::int32_t>(src.value()));
    ++read_edges_;
    return {};
  }

  [[nodiscard]] Status check_counts() const {
    const auto wrong = [&](std::string_view what, std::int64_t stated, std::int64_t found) {
      return bad_input(fmt::format("{}:{}: line G states {} {}, the file has {}; is it cut short?", file_, last_line_,
                                   stated, what, found));
    };
    if (nodes_ < 0) return bad_input(fmt::format("{}:1: there is no line `G nodes edges`, nor is it JSON", file_));
    if (std::ssize(list_.ops) != nodes_) return wrong("nodes", nodes_, std::ssize(list_.ops));
    if (read_edges_ != edges_) return wrong("edges", edges_, read_edges_);
    return {};
  }

  std::string_view file_;
  StepObjective objective_;
  OpList list_;
  std::vector<Costs> costs_;
  bool swaps_ = false;
  std::int64_t nodes_ = -1, edges_ = 0, read_edges_ = 0;
  Bytes sum_bytes_ = 0;
  int last_line_ = 1;
};

}  // namespace

Result<OpList> read_op_list_text(std::string_view text, std::string_view file_name, StepObjective objective) {
  TextReader reader(file_name, objective);
  if (Status status = reader.read(text); !status) return status.error();
  return reader.finish();
}

}  // namespace tidemark
