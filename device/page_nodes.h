#pragma once
// On which NUMA nodes pages really lie, as the kernel says it (move_pages(2) without a target moves nothing and answers
// where each page is). Threads: any. Cost: about a microsecond a page looked at.

#include <cstdint>
#include <map>
#include <string>

#include "core/bytes.h"

namespace tidemark {

struct PageNodes {
  std::map<int, std::int64_t> pages;  ///< that were looked at, by node
  std::int64_t unknown = 0;           ///< not in memory, or a driver's own, of which the kernel does not say it
  [[nodiscard]] std::int64_t known() const;
  /// "12 of 512 pages looked at lie on node 1"; empty: all that is known lies on `node`.
  [[nodiscard]] std::string misplaced(int node) const;
};

/// Of at most `most` pages of [data, data + bytes), evenly spread, the first and the last among them.
[[nodiscard]] PageNodes find_page_nodes(const void* data, Bytes bytes, std::int64_t most = 512);

}  // namespace tidemark
