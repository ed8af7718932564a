"""Pools by tag, on the CPU's allocator, where tensors have bytes."""

import gc
import pickle
import threading

import pytest
import tidemark
import torch
from tidemark import allocator

MIB = 1 << 20


def pool_of(tag):
    return next(p for p in tidemark.memory_pools() if p.get("tag") == tag)


@pytest.fixture
def tag(request):
    """A pool of the test's own, gone afterwards."""
    yield request.node.name
    gc.collect()
    tidemark.drop_pool(request.node.name)


def test_a_released_pool_comes_back_where_it_was_with_what_it_held(tag):
    with tidemark.pool(tag):
        weights = torch.arange(6 * MIB, dtype=torch.float32)
        small = torch.full((1000,), 7)
    outside = torch.ones(1000)
    address, before = weights.data_ptr(), tidemark.memory_reserved()
    assert pool_of(tag)["allocations"] == 2 and pool_of(tag)["reserved_bytes"] >= 24 * MIB
    released = tidemark.release(tag, keep=True)
    assert released >= 24 * MIB and tidemark.memory_reserved() == before - released
    assert pool_of(tag)["suspended"] and pool_of(tag)["kept_host_bytes"] >= 24 * MIB
    assert outside.sum() == 1000, "other memory is untouched"
    assert tidemark.release(tag) == 0
    tidemark.restore(tag)
    assert weights.data_ptr() == address and not pool_of(tag)["suspended"]
    assert torch.equal(weights, torch.arange(6 * MIB, dtype=torch.float32)) and bool((small == 7).all())


def test_without_keeping_only_the_addresses_come_back(tag):
    with tidemark.pool(tag):
        cache = torch.ones(4 * MIB)
    address = cache.data_ptr()
    tidemark.release(tag)
    assert pool_of(tag)["kept_host_bytes"] == 0
    tidemark.restore(tag)
    assert cache.data_ptr() == address
    assert cache.fill_(3).sum() == 12 * MIB


def test_a_released_pool_serves_nothing_and_lets_tensors_go(tag):
    with tidemark.pool(tag):
        first, second = torch.ones(4 * MIB), torch.ones(4 * MIB)
    tidemark.release(tag, keep=True)
    with tidemark.pool(tag), pytest.raises(RuntimeError, match=r"is suspended.*\(tidemark\.restore\)"):
        torch.empty(1000)
    del first
    tidemark.restore(tag)
    assert second.sum() == 4 * MIB and pool_of(tag)["reserved_bytes"] < 20 * MIB


def test_restoring_into_too_little_memory_is_out_of_memory_and_may_be_tried_again(tag):
    with tidemark.pool(tag):
        held = torch.arange(8 * MIB)
    tidemark.release(tag, keep=True)
    allocator.empty_cache()
    with allocator.budget(tidemark.memory_reserved() + 16 * MIB):
        with pytest.raises(torch.OutOfMemoryError, match="stays suspended"):
            tidemark.restore(tag)
    tidemark.restore(tag)
    assert torch.equal(held, torch.arange(8 * MIB))


def test_a_limit_holds_for_all_pools_together(tag):
    allocator.empty_cache()
    with allocator.budget(tidemark.memory_reserved() + 32 * MIB):
        with tidemark.pool(tag):
            held = torch.ones(6 * MIB)
        with pytest.raises(torch.OutOfMemoryError, match=f"(?s)Pools beside it hold: .*'{tag}' 24.00 MiB"):
            torch.ones(6 * MIB)
        del held
        torch.ones(6 * MIB)  # what the pool holds idle is given back first


def test_plain_memory_cannot_be_released(tag):
    with tidemark.pool(tag, plain=True):
        buffer = torch.ones(MIB)
    assert pool_of(tag)["plain"] and buffer.sum() == MIB
    with pytest.raises(tidemark.TidemarkError, match="is plain"):
        tidemark.release(tag)
    with tidemark.pool(tag), pytest.raises(RuntimeError, match="is there already, and is plain"):
        torch.empty(10)


def test_pools_nest_and_are_the_threads_own(tag):
    def elsewhere():
        others.append(torch.ones(1000))

    others = []
    with tidemark.pool(tag):
        first = torch.ones(1000)
        with tidemark.pool("inner"):
            inner = torch.ones(1000)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert pool_of("inner")["allocations"] == 1
        assert pool_of(tag)["allocations"] == 1
        outer = torch.ones(1000)
        assert pool_of(tag)["allocations"] == 2
    assert first.sum() + outer.sum() + inner.sum() + others[0].sum() == 4000
    with pytest.raises(tidemark.TidemarkError, match="live blocks"):
        tidemark.drop_pool("inner")
    del inner
    tidemark.drop_pool("inner")
    with pytest.raises(tidemark.TidemarkError, match="no pool 'inner'"):
        tidemark.release("inner")


@pytest.mark.parametrize("use", [tidemark.pool, tidemark.release, tidemark.restore, tidemark.drop_pool])
def test_a_tag_that_is_none_is_refused_where_it_is_given(use):
    for tag in (None, 7, b"inference"):
        with pytest.raises(TypeError, match="a text for a tag, not"):
            use(tag)
    wrong = {"x" * 300: "1 to 255 bytes, not 300", "": "1 to 255 bytes", "a\0b": "no zero bytes", "\ud800": "UTF-8"}
    for tag, says in wrong.items():
        with pytest.raises(ValueError, match=says) as refused:
            use(tag)
        assert isinstance(refused.value, tidemark.TidemarkError)


def test_statistics_snapshots_and_peaks_have_pytorchs_names(tag):
    tidemark.reset_peak_memory_stats()
    tidemark.reset_accumulated_memory_stats()
    with tidemark.pool(tag):
        held = torch.ones(4 * MIB)
    stats = tidemark.memory_stats()
    for name in ("allocated_bytes.all.current", "active_bytes.large_pool.peak", "reserved_bytes.small_pool.freed",
                 "allocation.all.allocated", "segment.all.current", "inactive_split_bytes.all.peak",
                 "num_alloc_retries", "num_ooms"):
        assert name in stats, name
    assert stats["allocated_bytes.all.allocated"] < stats["allocated_bytes.all.current"] + 64 * MIB
    assert tidemark.memory_allocated() == stats["allocated_bytes.all.current"] >= held.nbytes
    snapshot = tidemark.memory_snapshot()
    assert set(snapshot) >= {"segments", "device_traces", "allocator_settings"}
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert held.data_ptr() in [block["address"] for s in snapshot["segments"] for block in s["blocks"]]
    assert tag in tidemark.memory_summary()
    peak = tidemark.max_memory_allocated()
    del held
    assert tidemark.max_memory_allocated() == peak
    tidemark.reset_peak_memory_stats()
    assert tidemark.max_memory_allocated() <= peak - 16 * MIB
    assert tidemark.max_memory_reserved() >= tidemark.memory_reserved()
