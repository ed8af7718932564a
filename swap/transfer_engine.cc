#include "swap/transfer_engine.h"

namespace tidemark::swap {

DeviceCode TransferEngine::copy_out(std::span<const HostPiece> to, Address from, std::int64_t id, Cause cause) {
  count(out_, to, cause);
  return copy(from, to, CopyKind::device_to_host, id);
}

DeviceCode TransferEngine::copy_in(Address to, std::span<const HostPiece> from, std::int64_t id, Cause cause) {
  count(in_, from, cause);
  return copy(to, from, CopyKind::host_to_device, id);
}

DeviceCode TransferEngine::copy(Address device, std::span<const HostPiece> host, CopyKind kind, std::int64_t id) {
  const bool out = kind == CopyKind::device_to_host;
  const StreamRole role = out ? StreamRole::d2h : StreamRole::h2d;
  for (const HostPiece& piece : host) {
    for (Bytes done = 0; done < piece.bytes;) {
      const Bytes bytes = memory_.piece_bytes(piece.arena, piece.offset + done, piece.bytes - done);
      const Address pinned = memory_.at(piece.arena, piece.offset + done);
      const DeviceCode code = streams_.submit(role, [&](StreamHandle stream) {
        return streams_.device().copy(stream, out ? pinned : device, out ? device : pinned, bytes, kind, id);
      });
      if (code != DeviceCode::ok) return code;
      done += bytes;
      device += static_cast<Address>(bytes);
    }
  }
  return DeviceCode::ok;
}

void TransferEngine::count(CopyFigures& figures, std::span<const HostPiece> pieces, Cause cause) {
  if (cause == Cause::outside_step) return;
  const bool planned = cause == Cause::planned;
  ++(planned ? figures.copies : figures.extra_copies);
  for (const HostPiece& piece : pieces) (planned ? figures.bytes : figures.extra_bytes) += piece.bytes;
}

}  // namespace tidemark::swap
