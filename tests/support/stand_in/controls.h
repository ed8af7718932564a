#pragma once
// What every stand-in library exports beside the vendor's functions, for tests: faults, settings, counts. A test gets
// them with dlsym from the library it opened.
//
// Settings: capacity_bytes, granule_bytes, event_limit, host_register (0: refused), mapping (0: unsupported),
// peer_access (cuda; 0: no device reaches another), capturing (cuda), delay_us (before every operation), chip (acl:
// 950), version (acl: major * 100 + minor), tail_pad_bytes (readable behind mapped memory that is touched; acl: 32).
// Counts (get only), of what is there: violations, blocks, reservations, mappings, physicals, streams, events,
// operations, device_bytes.
// Counts since the start or the last reset: pinned_allocations (made or registered); asynchronous copies between device
// and host: copies_out, copies_in, copied_out_bytes, copied_in_bytes, copy_streams_out, copy_streams_in (on how many
// streams), pageable_copies (of both directions, whose host side is not pinned: they block); synchronous_copies.

#include <cstdint>

extern "C" {
/// The call named `call` answers `code` once, after `skip` calls that go through.
void stand_in_fail_call(const char* call, std::int64_t skip, int code);
void stand_in_set(const char* key, std::int64_t value);
std::int64_t stand_in_get(const char* key);
/// Everything as at the start. REQUIRES: no device is open on the library.
void stand_in_reset();
}
