#pragma once
// What verifying work does to simulated memory: reads are checked and writes set contents, symbolically
// (device/sim_contents.h). A read must hold from beginning to end; a write is unknown until the end, and stays so if
// the work fails. A copy carries over what its source held both at its beginning and at its end.
// Threads: the caller serialises.

#include "device/sim_stream.h"

namespace tidemark {

/// Of the work that `stream` is running; counts mismatches at the port. Adds to payload.carried.
void begin_effects(const SimStream& stream, SimPayload& payload);
/// REQUIRES: begin_effects() was called for this work.
void end_effects(const SimStream& stream, SimPayload& payload);

}  // namespace tidemark
