#pragma once
// Our allocator's snapshot as PyTorch pickles its own: the file that its memory viewer, its scripts and
// import_snapshot.h read. Protocol 2, builtins only.
//
// Owners, which PyTorch does not know, appear as the one frame of a block or event, so that viewers group by them.

#include <functional>
#include <string>

#include "allocator/snapshot.h"

namespace tidemark::formats {

struct SnapshotExport {
  /// Name of an owner tag for people; without it `owner N`. 0 is nobody and gets no frame.
  std::function<std::string(std::uint32_t)> owner_name;
};

/// The bytes of the pickle. Deterministic.
[[nodiscard]] std::string snapshot_pickle(const allocator::Snapshot& snapshot, const SnapshotExport& options = {});

}  // namespace tidemark::formats
