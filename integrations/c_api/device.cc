// Devices of the C interface.

#include <memory>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/open_device.h"
#include "integrations/c_api/structs.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

/// Runs `body(Device&)`, which returns a DeviceCode.
template <class Body>
tidemark_status on_device(tidemark_device* device, const char* what, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (device == nullptr) return invalid("device is NULL");
    const DeviceCode code = body(*device->device);
    if (code == DeviceCode::ok) return {};
    return outcome_of(code, what, device->device->last_error());
  });
}

constexpr std::int64_t kMostCapacity = std::int64_t{1} << 46;  // of which allocators can reserve addresses
constexpr std::int64_t kLeastRate = 1'000'000;                 // below, times of large copies leave 64 bits
constexpr std::int64_t kMostRate = 1'000'000'000'000'000;
constexpr std::int32_t kMostOrdinal = 1023;

Outcome check_options(const tidemark_device_options& o) {
  return check_numbers(
      "tidemark_device_options",
      {{.name = "ordinal", .value = o.ordinal, .least = 0, .most = kMostOrdinal},
       {.name = "capacity_bytes", .value = o.capacity_bytes, .least = 1, .most = kMostCapacity},
       {.name = "d2h_bytes_per_s", .value = o.d2h_bytes_per_s, .least = kLeastRate, .most = kMostRate},
       {.name = "h2d_bytes_per_s", .value = o.h2d_bytes_per_s, .least = kLeastRate, .most = kMostRate}});
}

}  // namespace

extern "C" {

tidemark_status tidemark_device_open(const char* name, const tidemark_device_options* options, tidemark_device** device,
                                     tidemark_error** error) noexcept {
  if (device != nullptr) *device = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (name == nullptr) return invalid("name is NULL");
    if (device == nullptr) return invalid("device is NULL");
    tidemark_device_options known;
    if (Outcome o = read_options(options, "tidemark_device_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    Result<std::unique_ptr<Device>> opened = open_device(name, known);
    if (!opened) return outcome_of(opened.error());
    *device = new tidemark_device{.device = std::move(opened).value()};
    return {};
  });
}

void tidemark_device_close(tidemark_device* device) noexcept {
  delete device;
}

tidemark_status tidemark_device_get_traits(const tidemark_device* device, tidemark_device_traits* traits,
                                           tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (device == nullptr) return invalid("device is NULL");
    const DeviceTraits& t = device->device->traits();
    return write_result(tidemark_device_traits{.struct_size = 0,
                                               .name = t.name.c_str(),
                                               .product = t.product.c_str(),
                                               .granule_bytes = t.mapping ? t.granule_bytes : 0,
                                               .alignment_bytes = t.alignment_bytes,
                                               .tail_pad_bytes = t.tail_pad_bytes,
                                               .simulated = t.simulated ? 1 : 0,
                                               .has_bytes = t.has_bytes ? 1 : 0,
                                               .numa_node = t.numa_node,
                                               .reserved = 0},
                        "traits", traits);
  });
}

tidemark_status tidemark_device_memory(tidemark_device* device, int64_t* total_bytes, int64_t* free_bytes,
                                       tidemark_error** error) noexcept {
  if (total_bytes == nullptr || free_bytes == nullptr)
    return guarded(error, [] { return invalid("total_bytes or free_bytes is NULL"); });
  return on_device(device, "memory of the device", error, [&](Device& d) {
    MemoryInfo info;
    const DeviceCode code = d.memory_info(info);
    if (code == DeviceCode::ok) {
      *total_bytes = info.total_bytes;
      *free_bytes = info.free_bytes;
    }
    return code;
  });
}

tidemark_status tidemark_device_create_stream(tidemark_device* device, tidemark_stream* stream,
                                              tidemark_error** error) noexcept {
  if (stream == nullptr) return guarded(error, [] { return invalid("stream is NULL"); });
  return on_device(device, "a new stream", error, [&](Device& d) {
    StreamHandle made{};
    const DeviceCode code = d.create_stream(StreamRole::compute, made);
    if (code == DeviceCode::ok) *stream = static_cast<tidemark_stream>(made);
    return code;
  });
}

tidemark_status tidemark_device_destroy_stream(tidemark_device* device, tidemark_stream stream,
                                               tidemark_error** error) noexcept {
  return on_device(device, "destroying a stream", error,
                   [&](Device& d) { return d.destroy_stream(static_cast<StreamHandle>(stream)); });
}

tidemark_status tidemark_device_create_event(tidemark_device* device, tidemark_event* event,
                                             tidemark_error** error) noexcept {
  if (event == nullptr) return guarded(error, [] { return invalid("event is NULL"); });
  return on_device(device, "a new event", error, [&](Device& d) {
    EventHandle made{};
    const DeviceCode code = d.create_event(made);
    if (code == DeviceCode::ok) *event = static_cast<tidemark_event>(made);
    return code;
  });
}

tidemark_status tidemark_device_destroy_event(tidemark_device* device, tidemark_event event,
                                              tidemark_error** error) noexcept {
  return on_device(device, "destroying an event", error,
                   [&](Device& d) { return d.destroy_event(static_cast<EventHandle>(event)); });
}

tidemark_status tidemark_device_synchronize(tidemark_device* device, tidemark_error** error) noexcept {
  return on_device(device, "waiting for the device", error, [](Device& d) { return d.synchronize_device(); });
}

}  // extern "C"
