#include "swap/transfer_engine.h"

namespace tidemark::swap {

DeviceCode TransferEngine::copy_out(std::span<const HostRange> to, Address from, std::int64_t id, Cause cause) {
  count(out_, to, cause);
  return copy(from, to, CopyKind::device_to_host, id);
}

DeviceCode TransferEngine::copy_in(Address to, std::span<const HostRange> from, std::int64_t id, Cause cause) {
  count(in_, from, cause);
  return copy(to, from, CopyKind::host_to_device, id);
}

DeviceCode TransferEngine::copy(Address device, std::span<const HostRange> host, CopyKind kind, std::int64_t id) {
  const bool out = kind == CopyKind::device_to_host;
  for (const HostRange& range : host) {
    const DeviceCode code = streams_.submit(out ? StreamRole::d2h : StreamRole::h2d, [&](StreamHandle stream) {
      return streams_.device().copy(stream, out ? range.address : device, out ? device : range.address, range.bytes,
                                    kind, id);
    });
    if (code != DeviceCode::ok) return code;
    device += static_cast<Address>(range.bytes);
  }
  return DeviceCode::ok;
}

void TransferEngine::count(CopyFigures& figures, std::span<const HostRange> host, Cause cause) {
  if (cause == Cause::outside_step) return;
  ++figures.copies;
  for (const HostRange& range : host) figures.bytes += range.bytes;
  figures.pieces += static_cast<std::int64_t>(host.size());
}

}  // namespace tidemark::swap
