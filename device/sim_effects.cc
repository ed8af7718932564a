#include "device/sim_effects.h"

#include <algorithm>
#include <vector>

namespace tidemark {
namespace {

void check_touch(const SimStream& stream, SimTouch& touch) {
  SimPort& port = *stream.port;
  if (touch.wrong || (touch.present && port.contents.holds(touch.memory, touch.bytes, touch.seed, touch.place))) return;
  touch.wrong = true;
  if (port.mismatches++ == 0)
    port.first_mismatch = {
        .work_id = stream.running.id, .address = touch.address, .bytes = touch.bytes, .expected_seed = touch.seed};
}

}  // namespace

// Reads look; what is going to be written holds nothing known until the end.
void begin_effects(const SimStream& stream, SimPayload& payload) {
  SimContents& contents = stream.port->contents;
  const bool copies = stream.running.kind == SimItemKind::copy;
  for (SimTouch& touch : payload.touches) {
    if (touch.is_write) continue;
    if (copies) {
      if (touch.present) contents.read(touch.memory, touch.bytes, touch.place, payload.carried);
    } else {
      check_touch(stream, touch);
    }
  }
  for (const SimTouch& touch : payload.touches)
    if (touch.is_write && touch.present) contents.forget(touch.memory, touch.bytes);
}

void end_effects(const SimStream& stream, SimPayload& payload) {
  SimContents& contents = stream.port->contents;
  if (stream.running.kind != SimItemKind::copy) {
    for (SimTouch& touch : payload.touches) {
      if (!touch.is_write && touch.look_again) check_touch(stream, touch);
      if (touch.is_write && touch.present && stream.running.fails_with == DeviceCode::ok)
        contents.set(touch.memory, touch.bytes, touch.seed, touch.place);
    }
    return;
  }
  if (stream.running.fails_with != DeviceCode::ok) return;
  std::vector<SimContent> now;
  for (const SimTouch& touch : payload.touches)
    if (!touch.is_write && touch.present) contents.read(touch.memory, touch.bytes, touch.place, now);
  for (const SimContent& part : now) {  // only what stood still under the copy arrives
    if (std::find(payload.carried.begin(), payload.carried.end(), part) == payload.carried.end()) continue;
    for (const SimTouch& touch : payload.touches) {
      if (!touch.is_write || !touch.present) continue;
      const Bytes from = std::max(part.offset, touch.place);
      const Bytes to = std::min(part.offset + part.bytes, touch.place + touch.bytes);
      if (from < to)
        contents.set(touch.memory + static_cast<Address>(from - touch.place), to - from, part.seed,
                     part.place + (from - part.offset));
    }
  }
}

}  // namespace tidemark
