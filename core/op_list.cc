#include "core/op_list.h"

namespace tidemark {

std::vector<std::uint8_t> changed_storages(const OpList& list) {
  std::vector<std::uint8_t> versions(list.storages.size());  // 0, 1, or 2 for more than one
  for (const OpList::Op& op : list.ops) {
    for (const std::int32_t s : op.reads) {
      std::uint8_t& count = versions[static_cast<std::size_t>(s)];
      if (count == 0) count = 1;  // resident from the start
    }
    for (const std::int32_t s : op.writes) {
      std::uint8_t& count = versions[static_cast<std::size_t>(s)];
      if (count < 2) ++count;
    }
  }
  for (std::uint8_t& count : versions) count = count > 1 ? 1 : 0;
  return versions;
}

}  // namespace tidemark
