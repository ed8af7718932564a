// Memory of a device: mapped, plain and pinned, and what memory_info() says of it.
#include "device/pattern.h"
#include "tests/conformance/device_fixture.h"

namespace tidemark::conformance {
namespace {

class MemoryConformance : public DeviceConformance {
 protected:
  /// What work may touch of a granule with nothing mapped behind it.
  [[nodiscard]] Bytes usable() { return granule() - traits().tail_pad_bytes; }
  [[nodiscard]] Address at(Address base, Bytes granules) { return base + static_cast<Address>(granules * granule()); }
};

TEST_P(MemoryConformance, TraitsMakeSense) {
  EXPECT_FALSE(traits().name.empty());
  EXPECT_FALSE(traits().product.empty());
  EXPECT_GE(traits().alignment_bytes, 1);
  EXPECT_GE(traits().tail_pad_bytes, 0);
  EXPECT_TRUE(!traits().mapping || traits().granule_bytes > 0);
  EXPECT_TRUE(traits().mapping || !traits().aliasing);
  MemoryInfo info;
  ASSERT_OK(device().memory_info(info));
  EXPECT_GT(info.total_bytes, 0);
}

TEST_P(MemoryConformance, ReservedSpaceIsAlignedAndCostsNothing) {
  NEEDS(traits().mapping, "no mapped memory");
  const Bytes before = free_bytes();
  const Address base = reserved(8 * granule());
  EXPECT_NE(base, 0U);
  EXPECT_EQ(base % static_cast<Address>(granule()), 0U);
  expect_free(before);
}

TEST_P(MemoryConformance, MapAndUnmapAreCountedByTheGranule) {
  NEEDS(traits().mapping, "no mapped memory");
  const Bytes before = free_bytes();
  const Address base = reserved(8 * granule());
  ASSERT_OK(device().map(base, 3 * granule()));
  ASSERT_OK(device().map(at(base, 5), granule()));
  expect_free(before - 4 * granule());
  ASSERT_OK(device().unmap(at(base, 1), granule()));  // out of the middle
  expect_free(before - 3 * granule());
  ASSERT_OK(device().unmap(base, granule()));
  ASSERT_OK(device().unmap(at(base, 2), granule()));
  ASSERT_OK(device().unmap(at(base, 5), granule()));
  expect_free(before);
}

TEST_P(MemoryConformance, BadRangesAreRefusedWithoutEffect) {
  NEEDS(traits().mapping, "no mapped memory");
  const Address base = reserved(4 * granule());
  const Bytes before = free_bytes();
  Address unused = 0;
  EXPECT_EQ(device().reserve(granule() + 1, unused), DeviceCode::invalid);
  EXPECT_EQ(device().reserve(0, unused), DeviceCode::invalid);
  EXPECT_EQ(device().map(base + 1, granule()), DeviceCode::invalid);
  EXPECT_EQ(device().map(base, granule() / 2), DeviceCode::invalid);
  EXPECT_EQ(device().map(at(base, 3), 2 * granule()), DeviceCode::invalid) << "beyond the reservation";
  EXPECT_EQ(device().unmap(base, granule()), DeviceCode::invalid) << "never mapped";
  EXPECT_FALSE(device().last_error().empty());
  expect_free(before);
}

TEST_P(MemoryConformance, MapIsAllOrNothing) {
  NEEDS(traits().mapping, "no mapped memory");
  const Address base = reserved(4 * granule());
  ASSERT_OK(device().map(at(base, 2), granule()));
  const Bytes before = free_bytes();
  EXPECT_EQ(device().map(base, 4 * granule()), DeviceCode::invalid) << "the third granule is mapped already";
  expect_free(before);
  ASSERT_OK(device().map(base, 2 * granule())) << "nothing of the refused one may stay";
  EXPECT_EQ(device().unmap(base, 4 * granule()), DeviceCode::invalid) << "the fourth granule is not mapped";
  ASSERT_OK(device().unmap(base, 3 * granule()));
}

TEST_P(MemoryConformance, ReleaseNeedsUnmappedSpaceAsReserved) {
  NEEDS(traits().mapping, "no mapped memory");
  Address base = 0;
  ASSERT_OK(device().reserve(4 * granule(), base));
  ASSERT_OK(device().map(at(base, 1), granule()));
  EXPECT_EQ(device().release(base, 4 * granule()), DeviceCode::invalid);
  ASSERT_OK(device().unmap(at(base, 1), granule()));
  EXPECT_EQ(device().release(base, 2 * granule()), DeviceCode::invalid);
  ASSERT_OK(device().release(base, 4 * granule()));
  EXPECT_EQ(device().release(base, 4 * granule()), DeviceCode::invalid);
}

TEST_P(MemoryConformance, AliasShowsTheSameBytesUntilTheLastAddressGoes) {
  NEEDS(traits().aliasing, "no aliasing");
  const StreamHandle s = stream();
  const Address base = mapped(2 * granule()), other = reserved(4 * granule());
  const Bytes before = free_bytes();
  ASSERT_OK(fill(s, base, usable(), 1));
  ASSERT_OK(fill(s, at(base, 1), usable(), 2));
  ASSERT_OK(device().synchronize_stream(s));
  ASSERT_OK(device().alias(at(other, 1), base, 2 * granule()));
  remember_mapping(at(other, 1), 2 * granule());
  expect_free(before);
  ASSERT_OK(check(s, at(other, 1), usable(), 1));
  ASSERT_OK(fill(s, at(other, 2), usable(), 3));
  ASSERT_OK(check(s, at(base, 1), usable(), 3)) << "written through the other address";
  ASSERT_OK(device().synchronize_stream(s));
  ASSERT_OK(device().unmap(base, 2 * granule()));
  forget_mapping(base, 2 * granule());
  expect_free(before);  // another address still holds it
  ASSERT_OK(check(s, at(other, 2), usable(), 3));
  expect_no_mismatch();
}

TEST_P(MemoryConformance, RemapMovesTheBytes) {
  NEEDS(traits().mapping, "no mapped memory");
  const StreamHandle s = stream();
  const Address base = mapped(3 * granule()), other = reserved(4 * granule());
  const Bytes before = free_bytes();
  for (Bytes i = 0; i < 3; ++i) ASSERT_OK(fill(s, at(base, i), usable(), static_cast<std::uint64_t>(i)));
  ASSERT_OK(device().synchronize_stream(s));
  ASSERT_OK(device().remap(at(other, 2), at(base, 1), 2 * granule()));
  remember_mapping(at(other, 2), 2 * granule());
  forget_mapping(base, 3 * granule());
  remember_mapping(base, granule());
  expect_free(before);
  EXPECT_EQ(device().remap(other, at(base, 1), granule()), DeviceCode::invalid) << "nothing there any more";
  EXPECT_EQ(device().remap(at(other, 2), base, granule()), DeviceCode::invalid) << "something there already";
  ASSERT_OK(check(s, base, usable(), 0));
  ASSERT_OK(check(s, at(other, 2), usable(), 1));
  ASSERT_OK(check(s, at(other, 3), usable(), 2));
  ASSERT_OK(device().map(at(base, 1), 2 * granule())) << "the old place is free";
  remember_mapping(at(base, 1), 2 * granule());
  expect_no_mismatch();
}

TEST_P(MemoryConformance, PlainMemoryIsAlignedCountedAndFreedOnce) {
  const Bytes before = free_bytes();
  Address a = 0, b = 0;
  ASSERT_OK(device().allocate_plain(5 * kMiB + 13, a));
  ASSERT_OK(device().allocate_plain(1, b));
  EXPECT_EQ(a % static_cast<Address>(traits().alignment_bytes), 0U);
  EXPECT_EQ(b % static_cast<Address>(traits().alignment_bytes), 0U);
  EXPECT_TRUE(b < a || b >= a + 5 * kMiB + 13);
  if (backend().bounded) {
    EXPECT_LE(free_bytes(), before - 5 * kMiB - 14);
  }
  EXPECT_OK(device().free_plain(a));
  EXPECT_EQ(device().free_plain(a), DeviceCode::invalid);
  EXPECT_EQ(device().free_plain(b + 1), DeviceCode::invalid);
  EXPECT_OK(device().free_plain(b));
  EXPECT_EQ(device().allocate_plain(0, a), DeviceCode::invalid);
}

TEST_P(MemoryConformance, PinnedMemoryIsAlignedAndFreedOnce) {
  Address a = 0, b = 0;
  ASSERT_OK(device().allocate_pinned(3 * kMiB + 5, a));
  ASSERT_OK(device().allocate_pinned(1, b));
  EXPECT_EQ(a % 4096, 0U);
  EXPECT_EQ(b % 4096, 0U);
  EXPECT_TRUE(b < a || b >= a + 3 * kMiB + 5);
  const PinnedFacts facts = device().pinned_facts(a);
  const bool all_well = facts.registered && facts.numa_bound && facts.huge_pages && facts.locked;
  EXPECT_EQ(facts.explanation.empty(), all_well) << facts.explanation;
  EXPECT_OK(device().free_pinned(a));
  EXPECT_EQ(device().free_pinned(a), DeviceCode::invalid);
  EXPECT_OK(device().free_pinned(b));
  EXPECT_EQ(device().allocate_pinned(0, a), DeviceCode::invalid);
}

TEST_P(MemoryConformance, HostSeesItsPinnedMemory) {
  const Address a = pinned(kMiB + 3);
  fill_pattern(reinterpret_cast<void*>(a), kMiB + 3, 11);
  EXPECT_TRUE(holds_pattern(reinterpret_cast<void*>(a), kMiB + 3, 11));
}

TEST_P(MemoryConformance, TooLargeIsOutOfMemoryAndTheDeviceGoesOn) {
  MemoryInfo info;
  ASSERT_OK(device().memory_info(info));
  Address a = 0;
  EXPECT_EQ(device().allocate_plain(2 * info.total_bytes, a), DeviceCode::out_of_memory);
  EXPECT_FALSE(device().last_error().empty());
  EXPECT_TRUE(is_recoverable(DeviceCode::out_of_memory));
  const StreamHandle s = stream();
  const Address b = block(kMiB);
  ASSERT_OK(fill(s, b, kMiB, 1));
  ASSERT_OK(check(s, b, kMiB, 1));
  expect_no_mismatch();
}

TEST_P(MemoryConformance, SizesAtTheEndOfTheRangeAreRefused) {
  Address a = 0;
  EXPECT_NE(device().allocate_plain(INT64_MAX, a), DeviceCode::ok);
  EXPECT_NE(device().allocate_pinned(INT64_MAX, a), DeviceCode::ok);
  if (traits().mapping) {
    EXPECT_NE(device().reserve(INT64_MAX / granule() * granule(), a), DeviceCode::ok);
  }
  EXPECT_FALSE(device().last_error().empty());
}

TEST_P(MemoryConformance, FilledUpByMappingItRecovers) {
  NEEDS(traits().mapping, "no mapped memory");
  NEEDS(backend().bounded, "shared with others, not filled up");
  const Bytes granules = free_bytes() / granule();
  const Address base = reserved((granules + 2) * granule());
  EXPECT_EQ(device().map(base, (granules + 1) * granule()), DeviceCode::out_of_memory);
  EXPECT_EQ(free_bytes() / granule(), granules) << "all or nothing";
  for (Bytes i = 0; i < granules; ++i) ASSERT_OK(device().map(at(base, i), granule()));
  EXPECT_EQ(device().map(at(base, granules), granule()), DeviceCode::out_of_memory);
  Address a = 0;
  EXPECT_EQ(device().allocate_plain(granule(), a), DeviceCode::out_of_memory) << "one capacity for both";
  ASSERT_OK(device().unmap(at(base, 3), granule()));
  EXPECT_OK(device().map(at(base, granules), granule()));
  ASSERT_OK(device().unmap(base, 3 * granule()));
  ASSERT_OK(device().unmap(at(base, 4), (granules - 3) * granule()));
}

TEST_P(MemoryConformance, NewMemoryIsUsableAtEveryGranule) {
  NEEDS(traits().mapping, "no mapped memory");
  const StreamHandle s = stream();
  for (std::uint64_t round = 0; round < 3; ++round) {
    const Address base = reserved(6 * granule());
    ASSERT_OK(device().map(base, 6 * granule()));
    ASSERT_OK(fill(s, base, 5 * granule() + usable(), round));
    ASSERT_OK(check(s, base, 5 * granule() + usable(), round));
    ASSERT_OK(device().synchronize_stream(s));
    ASSERT_OK(device().unmap(base, 6 * granule()));
  }
  expect_no_mismatch();
}

TEST_P(MemoryConformance, ALostDeviceTakesEverythingBack) {
  NEEDS(backend().lose, "cannot be lost at will");
  const StreamHandle s = stream();
  const EventHandle e = event();
  const Address a = block(kMiB);
  Address host = 0, plain = 0, unused = 0;
  ASSERT_OK(device().allocate_plain(4096, plain));
  ASSERT_OK(device().allocate_pinned(kMiB, host));
  ASSERT_OK(occupy(s, 20 * kMillisecond));
  ASSERT_OK(fill(s, a, kMiB, 1));
  ASSERT_OK(device().copy(s, host, a, kMiB, CopyKind::device_to_host));
  lose_device();
  MemoryInfo info;
  EXPECT_EQ(device().memory_info(info), DeviceCode::lost);
  EXPECT_EQ(device().allocate_plain(4096, unused), DeviceCode::lost);
  EXPECT_EQ(device().allocate_pinned(4096, unused), DeviceCode::lost);
  EXPECT_EQ(device().copy(s, host, a, kMiB, CopyKind::device_to_host), DeviceCode::lost);
  EXPECT_EQ(occupy(s, 1), DeviceCode::lost);
  EXPECT_EQ(device().record_event(e, s), DeviceCode::lost);
  EXPECT_EQ(device().query_event(e), DeviceCode::lost);
  EXPECT_EQ(device().synchronize_stream(s), DeviceCode::lost);
  EXPECT_EQ(device().synchronize_device(), DeviceCode::lost);
  EXPECT_FALSE(device().last_error().empty());
  EXPECT_OK(device().free_pinned(host)) << "waits for the copy, if that still runs";
  EXPECT_OK(device().free_plain(plain));
  EXPECT_EQ(device().free_plain(plain), DeviceCode::invalid) << "once is enough";
}

INSTANTIATE_TEST_SUITE_P(, MemoryConformance, ::testing::ValuesIn(backends().begin(), backends().end()), backend_name);

}  // namespace
}  // namespace tidemark::conformance
