// What a CUDA device gives our back end, each figure beside its bound or rival from the same run:
//  - copies between pinned memory and the device, each direction alone and both at once;
//  - making pinned memory, and mapping, moving and unmapping granules;
//  - an allocate and free pair: the caching allocator, cuMemAlloc/cuMemFree, cuMemAllocAsync/cuMemFreeAsync (keeping
//  its
//    memory: release threshold at the maximum).
// Exit status 1 without a CUDA device. An argument names another driver library; with the stand-in of tests/support
// only that the program runs is shown, its figures mean nothing and are labelled so.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/stream_order.h"
#include "device/cuda_device.h"
#include "device/cuda_driver.h"

namespace {

using namespace tidemark;

constexpr Bytes kCopyBytes = 512 * kMiB;
constexpr int kCopies = 8;
constexpr int kRepeats = 5;
constexpr int kPairs = 2000;

void require(DeviceCode code, Device& device, const char* what) {
  if (code == DeviceCode::ok) return;
  fmt::print(stderr, "{}: {}: {}\n", what, name_of(code), device.last_error());
  std::exit(1);
}

void require(cuda::Code code, const cuda::Driver& driver, const char* what) {
  if (code == cuda::kSuccess) return;
  fmt::print(stderr, "{}: {}\n", what, driver.text_of(code));
  std::exit(1);
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of(int repeats, const std::function<double()>& measure) {
  std::vector<double> all;
  for (int i = 0; i < repeats; ++i) all.push_back(measure());
  std::nth_element(all.begin(), all.begin() + repeats / 2, all.end());
  return all[static_cast<std::size_t>(repeats / 2)];
}

/// One direction of copying: a stream and a block on either side.
struct Link {
  CopyKind kind = CopyKind::device_to_host;
  StreamHandle stream = {};
  Address device = 0, host = 0;

  Link(Device& on, CopyKind direction, Bytes bytes) : kind(direction) {
    const bool out = direction == CopyKind::device_to_host;
    require(on.create_stream(out ? StreamRole::d2h : StreamRole::h2d, stream), on, "create_stream");
    require(on.allocate_plain(bytes, device), on, "allocate_plain");
    require(on.allocate_pinned(bytes, host), on, "allocate_pinned");
  }
  void submit(Device& on, Bytes bytes) const {
    const bool out = kind == CopyKind::device_to_host;
    for (int i = 0; i < kCopies; ++i) {
      require(on.copy(stream, out ? host : device, out ? device : host, bytes, kind), on, "copy");
    }
  }
};

double gigabytes_per_s(Device& device, const std::vector<const Link*>& links, Bytes bytes) {
  const double seconds = median_of(kRepeats, [&] {
    return seconds_of([&] {
      for (const Link* link : links) link->submit(device, bytes);
      require(device.synchronize_device(), device, "synchronize_device");
    });
  });
  return static_cast<double>(bytes) * kCopies * static_cast<double>(links.size()) / seconds / 1e9;
}

void report_copies(Device& device, Bytes bytes) {
  const Link out(device, CopyKind::device_to_host, bytes), in(device, CopyKind::host_to_device, bytes);
  const PinnedFacts facts = device.pinned_facts(out.host);
  fmt::print("Copies of {}, pinned memory{}{}\n", format_bytes(bytes), facts.explanation.empty() ? "" : ": ",
             facts.explanation);
  (void)gigabytes_per_s(device, {&out, &in}, bytes);  // warm up
  const double d2h = gigabytes_per_s(device, {&out}, bytes), h2d = gigabytes_per_s(device, {&in}, bytes);
  const double both = gigabytes_per_s(device, {&out, &in}, bytes);
  fmt::print("  {:<28} {:>8.2f} GB/s\n  {:<28} {:>8.2f} GB/s\n", "device to host alone", d2h, "host to device alone",
             h2d);
  fmt::print("  {:<28} {:>8.2f} GB/s, {:.1f} % of the sum of the links alone\n\n", "both at once", both,
             100 * both / (d2h + h2d));
}

void report_memory(Device& device, Bytes pinned_bytes) {
  Address host = 0, base = 0;
  const double pinned_s =
      seconds_of([&] { require(device.allocate_pinned(pinned_bytes, host), device, "allocate_pinned"); });
  require(device.free_pinned(host), device, "free_pinned");
  fmt::print("Pinned memory: {} in {:.3f} s, {:.2f} GB/s\n", format_bytes(pinned_bytes), pinned_s,
             static_cast<double>(pinned_bytes) / pinned_s / 1e9);
  const Bytes granule = device.traits().granule_bytes, bytes = 64 * granule;
  if (!device.traits().mapping) return;
  require(device.reserve(2 * bytes, base), device, "reserve");
  const Address other = base + static_cast<Address>(bytes);
  const double map_s = seconds_of([&] { require(device.map(base, bytes), device, "map"); });
  const double move_s = seconds_of([&] { require(device.remap(other, base, bytes), device, "remap"); });
  const double unmap_s = seconds_of([&] { require(device.unmap(other, bytes), device, "unmap"); });
  require(device.release(base, 2 * bytes), device, "release");
  fmt::print("Mapping granules of {}: map {:.1f} us, move {:.1f} us, unmap {:.1f} us each\n\n", format_bytes(granule),
             map_s / 64 * 1e6, move_s / 64 * 1e6, unmap_s / 64 * 1e6);
}

/// A way to allocate and free.
struct Way {
  const char* name;
  std::function<Address(Bytes)> allocate;
  std::function<void(Address)> free;
};

/// Nanoseconds of a pair: the same size over and over, or random sizes with 200 live.
double pair_ns(const Way& way, Bytes bytes) {
  return median_of(kRepeats, [&] {
    return seconds_of([&] {
             for (int i = 0; i < kPairs; ++i) way.free(way.allocate(bytes));
           }) /
           kPairs * 1e9;
  });
}

double mixed_pair_ns(const Way& way) {
  std::mt19937 random(1);
  std::vector<Address> live(200, 0);
  const auto round = [&] {
    for (int i = 0; i < kPairs; ++i) {
      Address& slot = live[random() % live.size()];
      if (slot != 0) way.free(slot);
      slot = way.allocate(static_cast<Bytes>(512) << (random() % 16));
    }
  };
  round();  // fill the caches
  const double ns = seconds_of(round) / kPairs * 1e9;
  for (const Address address : live) {
    if (address != 0) way.free(address);
  }
  return ns;
}

/// The driver's stream-ordered pool (CUDA 11.2), told to keep what it has. Empty functions where it is missing.
Way stream_ordered_way(const cuda::Driver& driver) {
  using Allocate = cuda::Code(cuda::Pointer*, std::size_t, cuda::Stream);
  using Free = cuda::Code(cuda::Pointer, cuda::Stream);
  Allocate* allocate = nullptr;
  Free* free = nullptr;
  cuda::Code (*default_pool)(void**, cuda::DeviceNumber) = nullptr;
  cuda::Code (*set_attribute)(void*, int, void*) = nullptr;
  SymbolReader symbols(driver.libraries);
  symbols.want(allocate, "cuMemAllocAsync");
  symbols.want(free, "cuMemFreeAsync");
  symbols.want(default_pool, "cuDeviceGetDefaultMemPool");
  symbols.want(set_attribute, "cuMemPoolSetAttribute");
  Way way{"cuMemAllocAsync/FreeAsync", {}, {}};
  if (allocate == nullptr || free == nullptr || default_pool == nullptr || set_attribute == nullptr) return way;
  void* pool = nullptr;
  std::uint64_t keep_all = ~std::uint64_t{0};
  require(default_pool(&pool, 0), driver, "cuDeviceGetDefaultMemPool");
  require(set_attribute(pool, 4, &keep_all), driver, "cuMemPoolSetAttribute");  // RELEASE_THRESHOLD
  way.allocate = [&driver, allocate](Bytes bytes) {
    cuda::Pointer pointer = 0;
    require(allocate(&pointer, static_cast<std::size_t>(bytes), nullptr), driver, "cuMemAllocAsync");
    return pointer;
  };
  way.free = [&driver, free](Address address) { require(free(address, nullptr), driver, "cuMemFreeAsync"); };
  return way;
}

Way driver_way(const cuda::Driver& driver) {
  return {"cuMemAlloc/Free",
          [&driver](Bytes bytes) {
            cuda::Pointer pointer = 0;
            require(driver.allocate(&pointer, static_cast<std::size_t>(bytes)), driver, "cuMemAlloc");
            return Address{pointer};
          },
          [&driver](Address address) { require(driver.free(address), driver, "cuMemFree"); }};
}

Way caching_way(allocator::CachingAllocator& allocator, Device& device, StreamHandle stream) {
  return {
      "caching allocator",
      [&allocator, &device, stream](Bytes bytes) {
        Address address = 0;
        require(allocator.allocate(bytes, stream, address), device, "CachingAllocator::allocate");
        return address;
      },
      [&allocator, &device](Address address) { require(allocator.free(address), device, "CachingAllocator::free"); }};
}

void report_allocation(Device& device, const cuda::Driver& driver) {
  StreamHandle stream{};
  require(device.create_stream(StreamRole::compute, stream), device, "create_stream");
  allocator::StreamOrder order;
  allocator::CachingAllocator allocator(device, order);
  const std::array<Way, 3> ways = {caching_way(allocator, device, stream), driver_way(driver),
                                   stream_ordered_way(driver)};
  const std::array<Bytes, 5> sizes = {512, 64 * kKiB, kMiB, 20 * kMiB, 256 * kMiB};
  fmt::print("An allocate and free pair, ns\n  {:<28}", "");
  for (const Bytes bytes : sizes) fmt::print(" {:>11}", format_bytes(bytes));
  fmt::print(" {:>11}\n", "mixed");
  for (const Way& way : ways) {
    fmt::print("  {:<28}", way.name);
    if (!way.allocate) {
      fmt::print(" not in this driver\n");
      continue;
    }
    for (const Bytes bytes : sizes) fmt::print(" {:>11.0f}", pair_ns(way, bytes));
    fmt::print(" {:>11.0f}\n", mixed_pair_ns(way));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CudaOptions options;
  if (argc > 1) options.library = argv[1];
  auto opened = open_cuda_device(options);
  if (!opened) {
    fmt::print("no CUDA device: {}\n", opened.error().message);
    return 1;
  }
  Device& device = *opened.value();
  const bool stand_in = device.traits().product.find("stand-in") != std::string::npos;
  fmt::print("{}: {}\n\n", device.traits().product,
             stand_in ? "no accelerator, the figures below mean nothing" : "measured on this machine");
  auto driver = cuda::load_driver(options.library);
  if (!driver) return 1;
  cuda::Context context = nullptr;
  require(driver.value().context_retain(&context, 0), driver.value(), "cuDevicePrimaryCtxRetain");
  require(driver.value().context_set(context), driver.value(), "cuCtxSetCurrent");
  report_copies(device, stand_in ? 8 * kMiB : kCopyBytes);
  report_memory(device, stand_in ? 8 * kMiB : 8 * kGiB);
  report_allocation(device, driver.value());
  opened.value().reset();
  require(driver.value().context_release(0), driver.value(), "cuDevicePrimaryCtxRelease");
  return 0;
}
