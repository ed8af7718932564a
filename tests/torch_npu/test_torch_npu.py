"""torch_npu's own wheel, with Tidemark plugged in, over stubs of CANN and the stand-in for ACL: no NPU takes part. Its queue of launches is
the real one: kernels (stand_in_kernels.cc) go through it, by a thread of torch_npu's that is far behind the one that calls them."""

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from stand_in_model import NUMBERS, S, build, same, train

tidemark = pytest.importorskip("tidemark", reason="the package is not built for this PyTorch")
from tidemark import allocator, engine, library  # noqa: E402
from tidemark.graph import HostLink  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parents[1] / "pytorch"))
from random_plans import random_plan  # noqa: E402

QUEUES = os.environ.get("TASK_QUEUE_ENABLE", "1") != "0"


def test_the_allocator_serves(machine):
    before = allocator.statistics("npu").allocated_bytes
    x = torch.empty(NUMBERS, device="npu")
    held = allocator.statistics("npu").allocated_bytes - before
    assert NUMBERS * 4 <= held < NUMBERS * 4 + 4096
    assert torch.npu.memory_allocated() == allocator.statistics("npu").allocated_bytes
    assert torch.npu.max_memory_allocated() == allocator.statistics("npu").allocated_peak_bytes
    assert x.data_ptr() % 512 == 0
    del x
    assert allocator.statistics("npu").allocated_bytes == before
    with pytest.raises(torch.OutOfMemoryError, match="tidemark: "):
        torch.empty(1 << 40, dtype=torch.uint8, device="npu")
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()
    torch.npu.empty_cache()


def _take_all_that_is_reserved(make):
    handle = allocator.handle_of("npu")
    reserved = allocator.statistics("npu").reserved_bytes
    library.call("tidemark_allocator_set_limit", handle, ctypes.c_int64(reserved))
    taken = []
    try:
        while True:
            taken.append(make())
    except torch.OutOfMemoryError:
        return taken
    finally:
        library.call("tidemark_allocator_set_limit", handle, ctypes.c_int64(0))


def _read_on_a_side_stream(machine):
    """Whether a kernel that was called on a side stream reads what its input was when it was called: the input is freed, and the next
    tensors of its size are written on the default stream. And whether one of those got the input's memory."""
    torch.npu.empty_cache()
    values = torch.rand(NUMBERS)
    ones = torch.ones(NUMBERS).to("npu")
    x = values.to("npu")
    torch.npu.synchronize()
    side = torch.npu.Stream()
    machine["delay_us"] = 10_000
    with torch.npu.stream(side):
        for _ in range(3):
            busy = S.scale(ones, ones)
        read = S.scale(x, ones)
    x.record_stream(side)
    address = x.data_ptr()
    del x, busy
    written = _take_all_that_is_reserved(lambda: S.scale(ones, ones))
    torch.npu.synchronize()
    machine["delay_us"] = 0
    taken = address in [tensor.data_ptr() for tensor in written]
    return torch.equal(read.cpu(), S.scale(values, torch.ones(NUMBERS))), taken


def test_what_a_side_stream_reads_is_not_given_away(machine):
    for _ in range(3):
        assert _read_on_a_side_stream(machine) == (True, True)  # given away once it was read


@pytest.mark.skipif(not QUEUES, reason="nothing is queued")
def test_without_the_order_of_the_queue_it_would_be(machine):
    """What the test above guards against."""
    library.core().tidemark_npu_set_submit_queued(None, None)
    try:
        assert _read_on_a_side_stream(machine) == (False, True)
    finally:
        function = library.address(library.npu_shim(), "tidemark_npu_shim_submit_for_allocator")
        library.core().tidemark_npu_set_submit_queued(ctypes.c_void_p(function), None)


def _plan():
    model, inputs = build("npu")
    plan = random_plan(tidemark.capture(model, (inputs,), S.total), 1, share=0.9, link=HostLink(1e15, 1e15, 0))
    assert plan.swaps
    return plan


def _session(plan, sessions):
    def context(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    return context


def test_a_step_swaps_with_the_same_bits(machine):
    reference = train("cpu")
    assert same(train("npu"), reference)
    sessions = []
    copies = machine["copies_out"]
    assert same(train("npu", _session(_plan(), sessions)), reference)
    counters = sessions[0].counters
    assert counters.swapped > 0 and counters.off_plan == 0
    assert machine["copies_out"] >= copies + counters.swapped and machine["pageable_copies"] == 0
    print(f"\n{counters.swapped} swapped, {counters.recomputed} recomputed, {counters.copies['copied_out_bytes']} bytes out")


@pytest.mark.skipif(not QUEUES, reason="nothing is queued")
def test_without_the_order_of_the_queue_the_bits_are_others(machine, monkeypatch):
    """What the test above guards against: copies that come before kernels."""
    monkeypatch.setattr(engine, "_submit_queued", lambda device: 0)
    assert not same(train("npu", _session(_plan(), [])), train("cpu"))


_FAILING = """
import ctypes
import conftest
import torch
from tidemark import library
x = torch.empty(16, device="npu")
torch.npu.synchronize()
why = ctypes.create_string_buffer(512)
submit = library.npu_shim().tidemark_npu_shim_submit_queued
print(submit(None, 0, why, len(why)), why.value)
try:
    torch.ops.stand_in.fail(x)
    print(submit(None, 0, why, len(why)), why.value.splitlines()[0])
except RuntimeError as error:  # the queue was as quick as the call, which then is told
    print(2, str(error).splitlines()[0].encode())
import os, sys
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(not QUEUES, reason="nothing is queued")
def test_a_queue_that_has_failed_is_told():
    """In a process of its own, which torch_npu means to end."""
    folder = pathlib.Path(__file__).parent
    said = subprocess.run([sys.executable, "-c", _FAILING], cwd=folder, capture_output=True, text=True, check=True).stdout
    well, failed = said.strip().splitlines()[-2:]
    assert well == "0 b''"
    assert failed.startswith("2 b'The Inner error is reported as above") and "StandInFail" in failed


def test_threads_that_must_not_wait_are_told_to_come_later():
    """One with Python's lock, and one that Python does not know: torch_npu's own are such."""
    later = 1
    why = ctypes.create_string_buffer(512)
    shim = library.npu_shim()
    submit = shim.tidemark_npu_shim_submit_for_allocator
    assert submit(None, 0, why, len(why)) == 0
    with_lock = ctypes.PyDLL(shim._name).tidemark_npu_shim_submit_for_allocator
    assert with_lock(None, 0, why, len(why)) == later and b"Python's lock" in why.value
    create, join = ctypes.CDLL(None).pthread_create, ctypes.CDLL(None).pthread_join
    name = "tidemark_npu_shim_submit_for_allocator"
    thread = ctypes.c_void_p()
    # pthread_create(&thread, NULL, submit, NULL): what it returns is the low half of what join gives.
    assert create(ctypes.byref(thread), None, ctypes.c_void_p(library.address(shim, name)), None) == 0
    result = ctypes.c_void_p()
    assert join(thread, ctypes.byref(result)) == 0
    assert (result.value or 0) & 0xFFFFFFFF == later
