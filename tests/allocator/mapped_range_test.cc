// Memory behind granules when they are first needed, each once, and all of it back at the end.

#include "allocator/mapped_range.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

TEST(MappedRange, EveryGranuleIsMappedOnceWhenItIsTouched) {
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = kGiB});
    const Bytes granule = device->traits().granule_bytes;
    {
      MappedRange range(*device);
      const Bytes space = 40 * granule - static_cast<Bytes>(random() % 1000);
      ASSERT_EQ(range.reserve(space), DeviceCode::ok);
      EXPECT_EQ(range.mapped_bytes(), 0);
      std::set<Bytes> touched;
      for (int i = 0; i < 30; ++i) {
        const Bytes offset = static_cast<Bytes>(random()) % space;
        const Bytes bytes = i % 7 == 0 ? 0 : 1 + static_cast<Bytes>(random()) % std::min(space - offset, 6 * granule);
        for (Bytes g = offset / granule; bytes > 0 && g * granule < offset + bytes; ++g) touched.insert(g);
        ASSERT_EQ(range.map(offset, bytes), DeviceCode::ok) << device->last_error();
        ASSERT_EQ(range.mapped_bytes(), static_cast<Bytes>(touched.size()) * granule);
        ASSERT_EQ(device->statistics().mapped_bytes, range.mapped_bytes());
      }
    }
    EXPECT_EQ(device->leaks(), "");
  }
}

TEST(MappedRange, WhatTheDeviceRefusesMayBeAskedForAgain) {
  const std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = 8 * kMiB});
  {
    MappedRange range(*device), other(*device);
    ASSERT_EQ(range.reserve(20 * kMiB), DeviceCode::ok);
    ASSERT_EQ(range.map(4 * kMiB, 2 * kMiB), DeviceCode::ok);
    EXPECT_EQ(range.map(0, 20 * kMiB), DeviceCode::out_of_memory);
    EXPECT_EQ(range.map(0, 8 * kMiB), DeviceCode::ok);
    EXPECT_EQ(range.mapped_bytes(), 8 * kMiB);
    ASSERT_EQ(other.reserve(2 * kMiB), DeviceCode::ok);
    EXPECT_EQ(other.map(0, 1), DeviceCode::out_of_memory);
  }
  EXPECT_EQ(device->leaks(), "");
}

}  // namespace
}  // namespace tidemark::allocator
