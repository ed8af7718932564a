"""Tidemark's caching allocator under PyTorch.

On a machine without an accelerator it serves the CPU: install() before the model is built, and a budget is a limit that
memory cannot exceed; what does not fit is torch.OutOfMemoryError that names the holders. On CUDA and NPU the same
library is a pluggable allocator. Memory that can be released and restored: pools.py. Figures: device_memory.py.

Thread rule: any thread, install() and remove() while no thread allocates.
"""

import contextlib
import ctypes
import logging
import os

import torch

from . import library
from .errors import TidemarkError
from .sizes import parse_bytes

_handle = None


def _limit(limit_bytes):
    return 0 if limit_bytes == 0 and isinstance(limit_bytes, int) else parse_bytes(limit_bytes)


def install(limit_bytes=0):
    """Makes it PyTorch's CPU allocator. `limit_bytes`: most that may be reserved, as number or text such as "8GiB"; 0:
    what the machine has."""
    global _handle
    limit_bytes = _limit(limit_bytes)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    reason = ctypes.create_string_buffer(4096)
    handle = library.extension().tidemark_torch_install(memory, limit_bytes, reason, len(reason))
    if not handle:
        raise TidemarkError(f"the CPU allocator cannot be installed: {reason.value.decode()}")
    _handle = ctypes.c_void_p(handle)
    library.engine().count_phases(library.address(library.extension(), "tidemark_torch_set_phase"))


def remove():
    """PyTorch's own allocator serves again; what is in use stays where it is."""
    global _handle
    if _handle is not None:
        library.extension().tidemark_torch_remove()
    _handle = None


def ask_sessions_for_room():
    """Where memory runs out, on the CPU and on accelerators, the session that is active is asked to give some up."""
    library.extension().tidemark_torch_set_make_room(ctypes.c_void_p(library.engine().make_room_address()))


def installed():
    return _handle is not None


def serves_anything():
    """Whether tensors of some device may come from Tidemark."""
    return installed() or _family is not None


def serves(device):
    """Whether tensors of a kind of device come from Tidemark now."""
    return installed() if device == "cpu" else _family == device


def _required():
    if _handle is None:
        raise TidemarkError("the CPU allocator is not installed; call tidemark.allocator.install() first")
    return _handle


def set_limit(limit_bytes):
    """Most that may be reserved from now on; 0: what the machine has."""
    library.call("tidemark_allocator_set_limit", _required(), ctypes.c_int64(_limit(limit_bytes)))


def statistics(device="cpu"):
    """As PyTorch counts: see library.Statistics."""
    out = library.Statistics(struct_size=ctypes.sizeof(library.Statistics))
    library.call("tidemark_allocator_get_statistics", handle_of(device), ctypes.byref(out))
    return out


def block_bytes(address, device="cpu"):
    """Of the block that begins at `address`; 0: Tidemark's allocator of the device has none there."""
    out = ctypes.c_int64()
    library.core().tidemark_allocator_block_bytes(handle_of(device), ctypes.c_uint64(address), ctypes.byref(out), None)
    return out.value


def reset_peaks(device="cpu"):
    library.call("tidemark_allocator_reset_peaks", handle_of(device))
    library.extension().tidemark_torch_reset_phases()


PHASES = ("none", "forward", "backward", "optimizer")  # csrc/phase_bytes.h


def set_phase(name):
    """What is allocated from now on, by any thread, counts to this phase of a step."""
    if name not in PHASES:
        raise TidemarkError(f"{name!r} is no phase of a step; right would be one of {', '.join(PHASES)}")
    library.extension().tidemark_torch_set_phase(PHASES.index(name))


def phases_at_peak():
    """Bytes by the phase they were allocated in, as they were when their sum was largest since reset_peaks()."""
    bytes_ = (ctypes.c_int64 * len(PHASES))()
    library.extension().tidemark_torch_phases_at_peak(bytes_)
    return dict(zip(PHASES, bytes_, strict=True))


def watch_others(device, watch=True):
    """Counts, on a CPU, what other threads than the calling one hold from now on; or no more."""
    if device == "cpu" and installed():
        library.extension().tidemark_torch_watch_others(int(watch))


def take_others_peak(device):
    """The most of it that was there at once since the last call."""
    return library.extension().tidemark_torch_take_others_peak() if device == "cpu" and installed() else 0


@contextlib.contextmanager
def log(device):
    """Yields a list that is filled behind the block: (address, bytes) of what this thread asked for inside, and
    (address, 0) of what was released. Empty where the allocator does not serve the device."""
    events = []
    if not serves(device):
        yield events
        return
    handle = handle_of(device)
    library.call("tidemark_allocator_begin_log", handle)
    try:
        yield events
    finally:
        buffer = ctypes.c_void_p()
        library.call("tidemark_allocator_end_log", handle, ctypes.byref(buffer))
        rows = memoryview(library.take_buffer(buffer)).cast("q").tolist()
        events += zip(rows[::2], rows[1::2], strict=True)


def empty_cache():
    """Gives idle memory back; returns bytes."""
    given = ctypes.c_int64()
    library.call("tidemark_allocator_empty_cache", _required(), ctypes.byref(given))
    return given.value


def snapshot(path):
    """Writes the state for PyTorch's memory viewer."""
    buffer = ctypes.c_void_p()
    library.call("tidemark_allocator_snapshot", _required(), ctypes.byref(buffer))
    with open(path, "wb") as out:
        out.write(library.take_buffer(buffer))


def holders():
    """Who holds the memory now, in one paragraph."""
    buffer = ctypes.c_void_p()
    library.call("tidemark_allocator_report", _required(), ctypes.byref(buffer))
    return library.take_buffer(buffer).decode()


_owners = {None: 0}


def count_to(name):
    """What the calling thread allocates from now on counts to `name` in holders() and where memory runs out; None:
    to no module."""
    number = _owners.get(name)
    if number is None:
        number = _owners[name] = library.extension().tidemark_torch_add_owner(name.encode())
    library.extension().tidemark_torch_set_owner(number)


def budget(limit_bytes):
    """A limit for a while, above zero."""
    return _budget(parse_bytes(limit_bytes))


@contextlib.contextmanager
def _budget(limit_bytes):
    before = statistics().limit_bytes
    set_limit(limit_bytes)
    try:
        yield
    finally:
        set_limit(before)


_family = None  # whose plug-in was made last: "cuda" or "npu"

_REFUSED = (
    "PyTorch's wrapper of pluggable allocators refuses torch.cuda.memory_stats, memory_snapshot, "
    "reset_peak_memory_stats and memory history (the functions of the same names in tidemark answer), CUDA IPC "
    "(tensors sent to other processes), out-of-memory observers, torch.cuda.MemPool (tidemark.pool instead), "
    "get_per_process_memory_fraction, and checkpoints of graph pools "
    "(torch.compile(mode='reduce-overhead'); torch.cuda.graph and mode='default' work)"
)


def cuda():
    """What torch.cuda.memory.change_current_allocator() takes, before CUDA is first used. Captured graphs get pools of
    their own, and what does not fit is torch.OutOfMemoryError."""
    global _family
    pluggable = torch.cuda.memory.CUDAPluggableAllocator(
        library.extension()._name, "tidemark_torch_cuda_malloc", "tidemark_cuda_free"
    )
    hooks = pluggable.allocator()
    _set_hooks(hooks, "cuda", ("init", "reset", "memory_fraction", "base_alloc", "record_stream"))
    for setter, function in _POOL_SETTERS.items():
        getattr(hooks, setter)(library.address(library.extension(), f"tidemark_torch_cuda_{function}"))
    _family = "cuda"
    logging.getLogger("tidemark").warning(_REFUSED)
    return pluggable


def cuda_plain():
    """The allocator of a pool whose memory collectives or RDMA may register, beside PyTorch's own allocator:
    torch.cuda.MemPool(tidemark.allocator.cuda_plain().allocator()). Where Tidemark serves all of CUDA it is
    tidemark.pool(tag, plain=True)."""
    path = library.core()._name
    return torch.cuda.memory.CUDAPluggableAllocator(path, "tidemark_cuda_malloc_plain", "tidemark_cuda_free")


def npu():
    """The same for torch_npu, whose C++ hooks are in integrations/npu_shim."""
    import torch_npu

    global _family
    _family = "npu"
    shim = library.npu_shim()
    if shim is None:
        return _npu_without_shim(torch_npu)
    pluggable = torch_npu.npu.memory.NPUPluggableAllocator(shim._name, "tidemark_npu_shim_malloc", "tidemark_npu_free")
    hooks = pluggable.allocator()
    _set_hooks(hooks, "npu", ("init", "reset", "memory_fraction", "base_alloc"))
    for setter, function in _NPU_SETTERS.items():
        getattr(hooks, setter)(library.address(shim, f"tidemark_npu_shim_{function}"))
    library.core().tidemark_npu_set_submit_queued(ctypes.c_void_p(library.address(shim, _SUBMIT)), None)
    return pluggable


def _npu_without_shim(torch_npu):
    path = library.core()._name
    pluggable = torch_npu.npu.memory.NPUPluggableAllocator(path, "tidemark_npu_malloc", "tidemark_npu_free")
    _set_hooks(pluggable.allocator(), "npu", ("init", "reset", "memory_fraction", "base_alloc"))
    logging.getLogger("tidemark").warning(
        "without integrations/npu_shim (docs/c_api.md) torch_npu takes a failed allocation for memory, captured graphs "
        "share memory with eager work, and blocks used on several streams are reused too early"
    )
    return pluggable


_SETTERS = {
    "init": ("set_init_fn", "init"),
    "reset": ("set_reset_fn", "reset"),
    "memory_fraction": ("set_memory_fraction_fn", "set_memory_fraction"),
    "base_alloc": ("set_base_alloc_fn", "base_alloc"),
    "record_stream": ("set_record_stream_fn", "record_stream"),
}


_POOL_SETTERS = {
    "set_begin_allocate_to_pool": "begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "end_allocate_to_pool",
    "set_release_pool": "release_pool",
}


_SUBMIT = "tidemark_npu_shim_submit_for_allocator"
_NPU_SETTERS = {
    "set_record_stream_fn": "record_stream",
    "set_erase_stream_fn": "erase_stream",
    "set_get_device_stats_fn": "get_device_stats",
    "set_reset_peak_status_fn": "reset_peak_status",
    **_POOL_SETTERS,
}


def _set_hooks(allocator, family, names):
    for name in names:
        setter, function = _SETTERS[name]
        getattr(allocator, setter)(library.address(library.core(), f"tidemark_{family}_{function}"))


def _place(device):
    """Kind and index. None: the accelerator that Tidemark serves, if there is one, else the CPU; a number is one of that
    accelerator."""
    if isinstance(device, int):
        return _family or "cuda", device
    served = _family is not None and getattr(torch, _family).is_available()
    kind, index = _family if served else "cpu", None
    if device is not None:
        device = torch.device(device)
        kind, index = device.type, device.index
    if kind != "cpu" and index is None:
        index = getattr(torch, kind).current_device()
    return kind, index


def handle_of(device=None):
    """The allocator of a device, for functions of the C interface."""
    kind, index = _place(device)
    if kind == "cpu":
        return _required()
    if kind not in ("cuda", "npu"):
        raise TidemarkError(f"Tidemark serves no memory of {kind}; it does of cpu, cuda and npu")
    function = getattr(library.core(), f"tidemark_{kind}_allocator")
    function.restype = ctypes.c_void_p
    handle = function(ctypes.c_int(index))
    if not handle:
        raise TidemarkError(f"there is no allocator for {kind}:{index}; stderr says why")
    return ctypes.c_void_p(handle)
