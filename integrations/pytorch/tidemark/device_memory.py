"""What torch.cuda.memory refuses with a pluggable allocator, under the names it has there: statistics, snapshots,
resets of peaks. `device` is a number, a text such as "cuda:1", a torch.device, or None: the accelerator that Tidemark
serves, else the CPU."""

import ctypes
import json
import pickle

from . import allocator, library

_since = {}  # totals at the last reset_accumulated_memory_stats(), by handle
_ACCUMULATED = (".allocated", ".freed")


def _buffer_of(function, device):
    buffer = ctypes.c_void_p()
    library.call(function, allocator.handle_of(device), ctypes.byref(buffer))
    return library.take_buffer(buffer)


def _with_pools_of_sizes(stats):
    """PyTorch counts blocks above and below 1 MiB apart; here all are in one pool, said to be the large one."""
    for name, value in list(stats.items()):
        if ".all." in name:
            stats[name.replace(".all.", ".large_pool.")] = value
            stats[name.replace(".all.", ".small_pool.")] = 0
    return stats


def _is_accumulated(name):
    return name.endswith(_ACCUMULATED) or name.startswith("num_")


def memory_stats(device=None):
    """As torch.cuda.memory_stats(). Blocks of all pools count; their peaks are added."""
    stats = json.loads(_buffer_of("tidemark_allocator_memory_stats", device))
    stats.pop("pools")
    since = _since.get(allocator.handle_of(device).value, {})
    return {name: value - since.get(name, 0) for name, value in sorted(_with_pools_of_sizes(stats).items())}


def memory_pools(device=None):
    """One dict a pool: its tag or graph, whether it is plain or suspended, and its bytes."""
    return json.loads(_buffer_of("tidemark_allocator_memory_stats", device))["pools"]


def memory_snapshot(device=None):
    """The dict that torch.cuda.memory._snapshot() returns: pickled, it is a file for PyTorch's memory viewer. The
    history (`device_traces`) is as long as TIDEMARK_ALLOCATOR_TRACE_ENTRIES said when the process began; without it,
    empty."""
    return pickle.loads(_buffer_of("tidemark_allocator_snapshot", device))  # noqa: S301  written by our own library


def reset_peak_memory_stats(device=None):
    library.call("tidemark_allocator_reset_peaks", allocator.handle_of(device))


def reset_accumulated_memory_stats(device=None):
    key = allocator.handle_of(device).value
    _since.pop(key, None)
    _since[key] = {name: value for name, value in memory_stats(device).items() if _is_accumulated(name)}


def memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.peak"]


def memory_summary(device=None):
    """Who holds the memory, in one paragraph."""
    return _buffer_of("tidemark_allocator_report", device).decode()
