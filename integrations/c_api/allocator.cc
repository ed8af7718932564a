// The caching allocator of the C interface.

#include <array>
#include <memory>
#include <new>
#include <string>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/memory_report.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/export_snapshot.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::size_t kMostOwnerName = 256;
constexpr std::int32_t kMostDeviceIndex = 1023;  // a snapshot has a list for each index below

/// What only the C interface has limits for; the rest is the allocator's to judge.
Outcome check_options(const tidemark_allocator_options& o) {
  return check_numbers(
      "tidemark_allocator_options",
      {{.name = "limit_bytes", .value = o.limit_bytes, .least = 1, .most = kMostBytes},
       {.name = "unit_bytes", .value = o.unit_bytes, .least = 1, .most = kMostBytes},
       {.name = "threads", .value = o.threads, .least = 1, .most = allocator::AllocatorOptions::kMostShards},
       {.name = "kept_bytes", .value = o.kept_bytes, .least = 1, .most = kMostBytes},
       {.name = "trace_entries", .value = o.trace_entries, .least = 1, .most = kMostBytes},
       {.name = "device_index", .value = o.device_index, .least = 0, .most = kMostDeviceIndex}});
}

allocator::AllocatorOptions options_of(const tidemark_allocator_options& o) {
  allocator::AllocatorOptions options{
      .limit_bytes = o.limit_bytes,
      .address_space_bytes = o.address_space_bytes,
      .garbage_threshold = o.garbage_threshold,
      .pending_wait = o.wait_on_stream != 0 ? allocator::PendingWait::stream : allocator::PendingWait::host,
      .trace_entries = static_cast<std::size_t>(o.trace_entries),
      .device_index = o.device_index};
  if (o.unit_bytes > 0) options.unit_bytes = o.unit_bytes;
  if (o.threads > 0) options.shards = static_cast<std::size_t>(o.threads);
  if (o.kept_bytes > 0) options.front_cache_bytes = o.kept_bytes;
  if (o.owner_name != nullptr) {
    options.owner_name = [call = o.owner_name, user = o.user](std::uint32_t owner) {
      std::array<char, kMostOwnerName> name{};
      call(user, owner, name.data(), name.size());
      name.back() = '\0';
      return std::string(name.data());
    };
  }
  return options;
}

AllocatorGroup::Refused refused_of(const tidemark_allocator_options& o) {
  if (o.on_out_of_memory == nullptr) return {};
  return [call = o.on_out_of_memory, user = o.user](Bytes bytes, const std::string& text) {
    call(user, bytes, text.c_str());
  };
}

/// Runs `body(tidemark_allocator&)`, which returns an Outcome.
template <class Handle, class Body>
tidemark_status on_allocator(Handle* allocator, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (allocator == nullptr) return invalid("allocator is NULL");
    return body(*allocator);
  });
}

/// The text is only made where somebody asks for it.
Outcome answer(const AllocatorGroup& group, DeviceCode code, const char* what, const tidemark_error* const* error) {
  if (code == DeviceCode::ok) return {};
  if (error == nullptr) return {.status = status_of(code), .text = {}};
  if (code == DeviceCode::out_of_memory) return {.status = status_of(code), .text = group.error_text(code)};
  return outcome_of(code, what, group.error_text(code));
}

template <class Allocate>
tidemark_status allocate_with(tidemark_allocator* allocator, int64_t bytes, tidemark_address* address,
                              tidemark_error** error, Allocate allocate) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    if (address == nullptr) return invalid("address is NULL");
    if (bytes < 0) return invalid("bytes is negative");
    Address made = 0;
    const DeviceCode code = allocate(a.group, made);
    if (code == DeviceCode::ok) *address = made;
    return answer(a.group, code, "allocation", error);
  });
}

template <class Note>
tidemark_status note(tidemark_allocator* allocator, tidemark_error** error, Note note) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    try {
      note(a.group.order());
    } catch (const allocator::TooManyStreams& many) {
      return {.status = TIDEMARK_STATUS_NO_RESOURCE,
              .text = std::string(many.what()) + ", and note that they are (note_stream_destroyed)"};
    }
    return {};
  });
}

Outcome give(std::string bytes, tidemark_buffer** buffer) {
  *buffer = new tidemark_buffer{.bytes = std::move(bytes)};
  return {};
}

}  // namespace

namespace tidemark::c_api {

tidemark_allocator_statistics to_c(const allocator::AllocatorStatistics& s) {
  return {.struct_size = 0,
          .requested_bytes = s.requested_bytes.current,
          .requested_peak_bytes = s.requested_bytes.peak,
          .allocated_bytes = s.allocated_bytes.current,
          .allocated_peak_bytes = s.allocated_bytes.peak,
          .active_bytes = s.active_bytes.current,
          .active_peak_bytes = s.active_bytes.peak,
          .reserved_bytes = s.reserved_bytes.current,
          .reserved_peak_bytes = s.reserved_bytes.peak,
          .allocations = s.allocation.current,
          .allocations_total = s.allocation.total_up,
          .frees_total = s.allocation.total_down,
          .allocation_retries = s.num_alloc_retries,
          .out_of_memory_count = s.num_ooms,
          .limit_bytes = s.limit_bytes};
}

}  // namespace tidemark::c_api

extern "C" {

tidemark_status tidemark_allocator_create(tidemark_device* device, const tidemark_allocator_options* options,
                                          tidemark_allocator** allocator, tidemark_error** error) noexcept {
  if (allocator != nullptr) *allocator = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (device == nullptr) return invalid("device is NULL");
    if (allocator == nullptr) return invalid("allocator is NULL");
    tidemark_allocator_options known;
    if (Outcome o = read_options(options, "tidemark_allocator_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    allocator::AllocatorOptions checked = options_of(known);
    if (Status s = tidemark::allocator::check_options(checked, device->device->traits()); !s)
      return invalid("tidemark_allocator_options: " + s.error().message);
    *allocator = new tidemark_allocator(device->device, std::move(checked), refused_of(known));
    return {};
  });
}

void tidemark_allocator_free(tidemark_allocator* allocator) noexcept {
  if (allocator != nullptr && !allocator->of_process) delete allocator;
}

tidemark_status tidemark_allocator_allocate(tidemark_allocator* allocator, int64_t bytes, tidemark_stream stream,
                                            uint32_t owner, tidemark_address* address,
                                            tidemark_error** error) noexcept {
  return allocate_with(allocator, bytes, address, error, [&](AllocatorGroup& a, Address& made) {
    return a.allocate(bytes, static_cast<StreamHandle>(stream), made, owner);
  });
}

tidemark_status tidemark_allocator_allocate_plain(tidemark_allocator* allocator, int64_t bytes, tidemark_stream stream,
                                                  uint32_t owner, tidemark_address* address,
                                                  tidemark_error** error) noexcept {
  return allocate_with(allocator, bytes, address, error, [&](AllocatorGroup& a, Address& made) {
    return a.allocate_plain(bytes, static_cast<StreamHandle>(stream), made, owner);
  });
}

tidemark_status tidemark_allocator_release(tidemark_allocator* allocator, tidemark_address address,
                                           tidemark_error** error) noexcept {
  return on_allocator(allocator, error,
                      [&](tidemark_allocator& a) { return answer(a.group, a.group.free(address), "release", error); });
}

tidemark_status tidemark_allocator_release_on(tidemark_allocator* allocator, tidemark_address address,
                                              tidemark_stream stream, tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) {
    const auto last = static_cast<StreamHandle>(stream);
    return answer(a.group, a.group.free(address, &last), "release", error);
  });
}

tidemark_status tidemark_allocator_begin_log(tidemark_allocator* allocator, tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    a.group.begin_log();
    return {};
  });
}

tidemark_status tidemark_allocator_end_log(tidemark_allocator* allocator, tidemark_buffer** events,
                                           tidemark_error** error) noexcept {
  if (events != nullptr) *events = nullptr;
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    if (events == nullptr) return invalid("events is NULL");
    auto told = std::make_unique<tidemark_buffer>();
    for (const RequestLog::Event& event : a.group.end_log()) {
      const tidemark_allocator_event row{.address = event.address, .bytes = event.bytes};
      told->bytes.append(reinterpret_cast<const char*>(&row), sizeof(row));
    }
    *events = told.release();
    return {};
  });
}

tidemark_status tidemark_allocator_block_bytes(const tidemark_allocator* allocator, tidemark_address address,
                                               int64_t* bytes, tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](const tidemark_allocator& a) -> Outcome {
    if (bytes == nullptr) return invalid("bytes is NULL");
    const Bytes found = a.group.block_bytes(address);
    if (found == 0) return invalid("there is no live block at this address");
    *bytes = found;
    return {};
  });
}

tidemark_status tidemark_allocator_note_use(tidemark_allocator* allocator, tidemark_address address,
                                            tidemark_stream stream, tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) {
    return answer(a.group, a.group.note_use(address, static_cast<StreamHandle>(stream)), "note_use", error);
  });
}

tidemark_status tidemark_allocator_note_record(tidemark_allocator* allocator, tidemark_event event,
                                               tidemark_stream stream, tidemark_error** error) noexcept {
  return note(allocator, error, [&](allocator::StreamOrder& order) {
    order.note_record(static_cast<EventHandle>(event), static_cast<StreamHandle>(stream));
  });
}

tidemark_status tidemark_allocator_note_wait(tidemark_allocator* allocator, tidemark_stream stream,
                                             tidemark_event event, tidemark_error** error) noexcept {
  return note(allocator, error, [&](allocator::StreamOrder& order) {
    order.note_wait(static_cast<StreamHandle>(stream), static_cast<EventHandle>(event));
  });
}

tidemark_status tidemark_allocator_note_event_synchronized(tidemark_allocator* allocator, tidemark_event event,
                                                           tidemark_error** error) noexcept {
  return note(allocator, error,
              [&](allocator::StreamOrder& order) { order.note_synchronized(static_cast<EventHandle>(event)); });
}

tidemark_status tidemark_allocator_note_stream_synchronized(tidemark_allocator* allocator, tidemark_stream stream,
                                                            tidemark_error** error) noexcept {
  return note(allocator, error,
              [&](allocator::StreamOrder& order) { order.note_synchronized(static_cast<StreamHandle>(stream)); });
}

tidemark_status tidemark_allocator_note_device_synchronized(tidemark_allocator* allocator,
                                                            tidemark_error** error) noexcept {
  return note(allocator, error, [](allocator::StreamOrder& order) { order.note_device_synchronized(); });
}

tidemark_status tidemark_allocator_note_event_destroyed(tidemark_allocator* allocator, tidemark_event event,
                                                        tidemark_error** error) noexcept {
  return note(allocator, error,
              [&](allocator::StreamOrder& order) { order.note_event_destroyed(static_cast<EventHandle>(event)); });
}

tidemark_status tidemark_allocator_note_stream_destroyed(tidemark_allocator* allocator, tidemark_stream stream,
                                                         tidemark_error** error) noexcept {
  return note(allocator, error,
              [&](allocator::StreamOrder& order) { order.note_stream_destroyed(static_cast<StreamHandle>(stream)); });
}

tidemark_status tidemark_allocator_set_limit(tidemark_allocator* allocator, int64_t bytes,
                                             tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    if (bytes < 0) return invalid("bytes is negative");
    MemoryInfo info;
    if (bytes == 0) {
      const DeviceCode code = a.group.device().memory_info(info);
      if (code != DeviceCode::ok) return outcome_of(code, "memory of the device", a.group.device().last_error());
    }
    a.group.set_limit(bytes > 0 ? bytes : info.total_bytes);
    return {};
  });
}

tidemark_status tidemark_allocator_empty_cache(tidemark_allocator* allocator, int64_t* given_back_bytes,
                                               tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](tidemark_allocator& a) -> Outcome {
    const Bytes given_back = a.group.empty_cache();
    if (given_back_bytes != nullptr) *given_back_bytes = given_back;
    return {};
  });
}

tidemark_status tidemark_allocator_get_statistics(const tidemark_allocator* allocator,
                                                  tidemark_allocator_statistics* statistics,
                                                  tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [&](const tidemark_allocator& a) {
    return write_result(to_c(a.group.statistics()), "statistics", statistics);
  });
}

tidemark_status tidemark_allocator_memory_stats(const tidemark_allocator* allocator, tidemark_buffer** json,
                                                tidemark_error** error) noexcept {
  if (json != nullptr) *json = nullptr;
  return on_allocator(allocator, error, [&](const tidemark_allocator& a) -> Outcome {
    if (json == nullptr) return invalid("json is NULL");
    return give(memory_stats_json(a.group), json);
  });
}

tidemark_status tidemark_allocator_reset_peaks(tidemark_allocator* allocator, tidemark_error** error) noexcept {
  return on_allocator(allocator, error, [](tidemark_allocator& a) -> Outcome {
    a.group.reset_peaks();
    return {};
  });
}

tidemark_status tidemark_allocator_snapshot(const tidemark_allocator* allocator, tidemark_buffer** pickle,
                                            tidemark_error** error) noexcept {
  if (pickle != nullptr) *pickle = nullptr;
  return on_allocator(allocator, error, [&](const tidemark_allocator& a) -> Outcome {
    if (pickle == nullptr) return invalid("pickle is NULL");
    return give(formats::snapshot_pickle(a.group.snapshot(), {.owner_name = a.owner_name}), pickle);
  });
}

tidemark_status tidemark_allocator_report(const tidemark_allocator* allocator, tidemark_buffer** text,
                                          tidemark_error** error) noexcept {
  if (text != nullptr) *text = nullptr;
  return on_allocator(allocator, error, [&](const tidemark_allocator& a) -> Outcome {
    if (text == nullptr) return invalid("text is NULL");
    std::string words = memory_report(a.group.main().report());
    if (const std::string limit = a.group.describe_limit(); !limit.empty()) words += " " + limit;
    if (const std::string pools = a.group.describe_pools(); !pools.empty()) words += " Pools: " + pools + ".";
    return give(std::move(words), text);
  });
}

}  // extern "C"
