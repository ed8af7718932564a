#pragma once
// A step that runs as captured graphs, as far as memory is concerned: its pieces, the storages they touch, and the gaps
// in which a storage is away in host memory.
//
// A piece is one captured graph, launched whole. A graph has its addresses written into it, and while it runs the host
// can neither copy nor map; between two pieces it can. So a storage has one address for good, and what changes between
// pieces is whether memory stands behind that address:
//
//   piece       0     1     2     3     4     5
//   touches     w                 .     r
//   away              '-----'                      no memory while pieces 1 and 2 run
//   memory     |===|             |===========|     back from piece 3 on, so that the copy in has piece 3 to hide behind
//
// Which gaps are used is decided before (by a plan, or by the caller); nothing here chooses.

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "core/result.h"

namespace tidemark::swap {

enum class PieceId : std::int32_t {};  ///< position in the order of launches of a step

/// Pieces first .. last, both included.
struct PieceSpan {
  PieceId first{}, last{};
  friend bool operator==(const PieceSpan&, const PieceSpan&) = default;
};

/// What one piece does to a storage. A write in part, or in place, is a read as well.
struct PieceTouch {
  PieceId piece{};
  bool reads = false;   ///< needs the content from before the piece
  bool writes = false;  ///< leaves other content behind
};

/// Where a storage's content is between two steps.
enum class BetweenSteps : std::uint8_t {
  nowhere,    ///< it has none: memory from the first touch to the last, gaps excepted
  on_device,  ///< memory all the time, gaps excepted
  in_host,    ///< copied in once a step at least; memory in every piece but those of its gaps
};

struct PieceStorage {
  Bytes bytes = 0;
  BetweenSteps between = BetweenSteps::nowhere;
  std::vector<PieceTouch> touches;  ///< by piece, one a piece
  std::vector<PieceSpan> away;      ///< by piece, apart: pieces that run while it has no memory
};

struct CapturedPieces {
  std::int32_t pieces = 0;
  std::vector<PieceStorage> storages;  ///< by StorageId
};

/// The spans of pieces in which a storage has memory, in order. REQUIRES: find_problem() finds none.
[[nodiscard]] std::vector<PieceSpan> spans_with_memory(const PieceStorage& storage, std::int32_t pieces);

/// Error (bad_input): the first rule that is broken, by which storage, and what would be right.
[[nodiscard]] Status find_problem(const CapturedPieces& step);

}  // namespace tidemark::swap
