#include "device/page_nodes.h"

#include <fmt/format.h>
#include <numaif.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tidemark {

std::int64_t PageNodes::known() const {
  std::int64_t sum = 0;
  for (const auto& [node, count] : pages) sum += count;
  return sum;
}

std::string PageNodes::misplaced(int node) const {
  std::string text;
  for (const auto& [where, count] : pages) {
    if (where == node) continue;
    text += text.empty() ? fmt::format("{} of {} pages looked at lie on node {}", count, known(), where)
                         : fmt::format(", {} on node {}", count, where);
  }
  return text;
}

PageNodes find_page_nodes(const void* data, Bytes bytes, std::int64_t most) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  const auto begin = reinterpret_cast<std::uintptr_t>(data) / static_cast<std::uintptr_t>(page);
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes) - 1) /
                   static_cast<std::uintptr_t>(page);
  const auto count = static_cast<std::int64_t>(end - begin + 1);
  const std::int64_t looked = std::min(count, std::max<std::int64_t>(most, 1));
  std::vector<void*> addresses;
  for (std::int64_t i = 0; i < looked; ++i) {
    // Quotient and remainder apart, so that no product leaves 64 bits. Of one page alone it is the first.
    const auto at = static_cast<std::uintptr_t>(
        looked == 1 ? 0 : (count - 1) / (looked - 1) * i + (count - 1) % (looked - 1) * i / (looked - 1));
    addresses.push_back(reinterpret_cast<void*>((begin + at) * static_cast<std::uintptr_t>(page)));
  }
  std::vector<int> status(addresses.size(), -1);
  PageNodes found;
  const long answer = move_pages(0, addresses.size(), addresses.data(), nullptr, status.data(), 0);
  for (const int node : status) {
    if (answer == 0 && node >= 0) {
      ++found.pages[node];
    } else {
      ++found.unknown;
    }
  }
  return found;
}

}  // namespace tidemark
