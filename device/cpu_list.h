#pragma once
// Lists of CPUs or of NUMA nodes by number, as Linux writes them: "0-3,8,10-11" (cpuset(7), "List format"). A CPU is
// what Linux counts as one: a hardware thread. Threads: any; everything here is a function of its arguments.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark {

/// Numbers from 0 to kLargestNumber, ascending, each once.
using CpuList = std::vector<int>;

/// Above the kernel's own largest: NR_CPUS is at most 8192 on x86-64 (arch/x86/Kconfig), MAX_NUMNODES 1024.
inline constexpr int kLargestNumber = 65'535;

/// `text` may end in a newline; blank: no numbers. `place`, "file" or "file:3", begins the text of an error.
/// Errors (bad_input): not such a list, a range that goes down, a number above kLargestNumber.
[[nodiscard]] Result<CpuList> read_cpu_list(std::string_view text, std::string_view place);

/// "0-3,8"; "none" where there are no numbers.
[[nodiscard]] std::string text_of_list(const CpuList& list);

[[nodiscard]] bool holds(const CpuList& list, int number);
[[nodiscard]] CpuList in_both(const CpuList& one, const CpuList& other);
[[nodiscard]] CpuList in_either(const CpuList& one, const CpuList& other);
/// Of `one` what is not in `other`.
[[nodiscard]] CpuList in_first_only(const CpuList& one, const CpuList& other);

}  // namespace tidemark
