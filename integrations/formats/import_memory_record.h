#pragma once
// memory_record.csv of the torch_npu profiler and npu_module_mem.csv beside it: totals of components of a process on
// the device over time, one sample a row.
//
//   Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Stream Ptr,Device Type
//   PTA,1764246877074330.300,4304.95,10372.0,4304.95,2,NPU:0
//   APP,1764246877076314.140,,11893.5,,,NPU:0
//
// PTA is PyTorch's allocator, GE the graph engine's pool, PTA+GE their sum, APP all that the process has on the device
// (torch_npu's MemoryViewParser writes them; APP comes from the driver). Used are `Component`, `Timestamp(us)` and
// `Total Reserved(MB)`, and if they are there `Total Allocated(MB)`, `Device Type` or `Device`. CANN's own files have
// `(KB)` in the place of `(MB)`; a MB is of 1024 KB, a KB of 1024 bytes. Rows are in any order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tidemark::formats {

struct ComponentSample {
  std::int64_t time_ns = 0;
  Bytes reserved_bytes = 0;
  std::optional<Bytes> allocated_bytes;  ///< blank for APP
  friend bool operator==(const ComponentSample&, const ComponentSample&) = default;
};

struct MemoryRecord {
  struct Component {
    std::string name;
    std::vector<ComponentSample> samples;  ///< ascending by time; of equal times in the order of the file
  };
  std::vector<Component> components;  ///< by name
  std::vector<std::string> notes;
  [[nodiscard]] const Component* find(std::string_view name) const;
};

/// Of several devices the first is read and the others are noted. Rows whose total is negative (CANN: `only what was
/// released has been collected`) or blank are left out and noted. At least one sample. Errors (bad_input): `file:line:
/// what`.
[[nodiscard]] Result<MemoryRecord> read_memory_record(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
