"""What the device and the machine report of a process, beside what its allocator holds: one JSON line a sample, which
`tidemark check` reads (docs/schemas/device_sample.schema.json).

    tidemark.device_sample("run/rank_{rank}/device_sample.jsonl")                # behind a step
    with tidemark.host_peak("run/rank_{rank}/device_sample.jsonl") as peak:     # around torch.save()
        save_checkpoint()

What a device has in use beyond what the allocator reserved is held by others: the context, libraries, communicators,
other processes. How much is measured; who of them, nothing here tells.

Imports no PyTorch itself: where none is loaded a sample is of host memory alone. Thread rule: any thread; of host_peak()
one at a time in a process, since the highest resident size is the process's.
"""

import contextlib
import json
import os
import sys
import threading

from .errors import TidemarkError

VERSION = 1
_STATUS, _CLEAR = "/proc/self/status", "/proc/self/clear_refs"
_RESET_PEAK = "5"  # proc(5), clear_refs: sets VmHWM to what is resident now
_SAMPLED_EVERY_S = 0.01


def device_sample(path, device=None, rank=None, label=None):
    """Appends one line to `path`, where `{rank}` stands for the rank, and returns it as a dict.

    `device`: as PyTorch names it; by default the current one of CUDA or NPU. `rank`: by default that of
    torch.distributed or of the variable RANK; 0 where neither says one. Raises TidemarkError where a device is named that
    PyTorch does not have."""
    return _append(path, _rank(rank), label, {**_device_figures(device), **_host_figures()})


class HostPeak:
    """Most resident host memory of the process within the block. `is_sampled`: the kernel would not reset its own mark, and
    the size was looked at every 10 ms; what came and went between is not in it."""

    def __init__(self):
        self.before_bytes = resident_bytes()
        self.bytes = self.before_bytes
        self.is_sampled = not _reset_peak()

    @property
    def added_bytes(self):
        return self.bytes - self.before_bytes


@contextlib.contextmanager
def host_peak(path=None, rank=None, label="checkpoint"):
    """Measures the block, as one that saves a checkpoint, and yields a HostPeak that is whole behind it. With `path` a
    line is appended there, with the pinned pools' highest beside it. Resets VmHWM of the process."""
    peak = HostPeak()
    with _watched(peak) if peak.is_sampled else contextlib.nullcontext():
        yield peak
    if not peak.is_sampled:
        peak.bytes = peak_bytes()
    if path is not None:
        _append(path, _rank(rank), label, {"host_peak_bytes": peak.bytes, **_pinned_figures()})


def resident_bytes():
    return _status("VmRSS")


def peak_bytes():
    """Most that was resident since the process began or since the last host_peak() did."""
    return _status("VmHWM")


def _status(name):
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    except OSError as error:
        raise TidemarkError(f"{_STATUS} cannot be read ({error.strerror}); host memory is measured on Linux only") from error
    raise TidemarkError(f"{_STATUS} has no line {name}; host memory is measured on Linux only")


def _reset_peak():
    """Whether the kernel let it."""
    try:
        with open(_CLEAR, "w", encoding="ascii") as clear:
            clear.write(_RESET_PEAK)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _watched(peak):
    done = threading.Event()

    def watch():
        while not done.wait(_SAMPLED_EVERY_S):
            peak.bytes = max(peak.bytes, resident_bytes())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        peak.bytes = max(peak.bytes, resident_bytes())


def _append(path, rank, label, figures):
    line = {"tidemark_device_sample": VERSION, "rank": rank}
    if label is not None:
        line["label"] = str(label)
    line |= figures
    path = os.fspath(path).replace("{rank}", str(rank))
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    # One write: lines of two threads do not mix.
    with open(path, "ab", buffering=0) as out:
        out.write((json.dumps(line) + "\n").encode())
    return line


def _rank(rank):
    if rank is None:
        torch = sys.modules.get("torch")
        distributed = getattr(torch, "distributed", None)
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        rank = os.environ.get("RANK", "0")
    try:
        rank = int(rank)
    except (TypeError, ValueError):
        raise TidemarkError(f"rank is {rank!r}; right would be a whole number from 0") from None
    if rank < 0:
        raise TidemarkError(f"rank is {rank}; right would be a whole number from 0")
    return rank


def _host_figures():
    return {"host_peak_bytes": peak_bytes(), **_pinned_figures()}


def _pinned_figures():
    """Highest of the pools that are there: PyTorch's, and that of Tidemark's session. Nothing where there is none."""
    pools = [pool for pool in (_pinned_by_torch(), _pinned_by_session()) if pool is not None]
    return {"host_pinned_bytes": sum(pools)} if pools else {}


def _pinned_by_torch():
    """torch.cuda.host_memory_stats(): blocks that PyTorch's pinned allocator owns, in use and cached."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not hasattr(cuda, "host_memory_stats") or not cuda.is_initialized():
        return None
    return cuda.host_memory_stats().get("allocated_bytes.peak")


def _pinned_by_session():
    running = sys.modules.get(f"{__package__}.running")
    session = getattr(running, "_active", None)
    return None if session is None else session.counters.copies.get("pinned_peak_bytes")


def _device_figures(device):
    """Of the device and of the allocator at one moment; nothing where there is no device."""
    torch = sys.modules.get("torch")
    if torch is None:
        if device is not None:
            raise TidemarkError(f"device is {device!r}, and PyTorch is not loaded; import torch first")
        return {}
    module, device = _module_of(torch, device)
    if module is None:
        return {}
    free_bytes, total_bytes = module.mem_get_info(device)
    memory = _memory_functions(module, device)
    return {
        "device": str(device),
        "device_total_bytes": total_bytes,
        "device_used_bytes": total_bytes - free_bytes,
        "allocator_reserved_bytes": memory.memory_reserved(device),
        "allocator_allocated_bytes": memory.memory_allocated(device),
        "allocator_reserved_peak_bytes": memory.max_memory_reserved(device),
        "allocator_allocated_peak_bytes": memory.max_memory_allocated(device),
    }


def _module_of(torch, device):
    """torch.cuda or torch.npu and the device on it; (None, None): a machine without one."""
    if device is not None:
        device = torch.device(device)
        module = getattr(torch, device.type, None)
        if not hasattr(module, "mem_get_info"):
            raise TidemarkError(f"device is {str(device)!r}, which reports no memory; right would be one of CUDA or NPU")
        return module, device
    for kind in ("npu", "cuda"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            return module, torch.device(kind, module.current_device())
    return None, None


def _memory_functions(module, device):
    """PyTorch's own refuse with a pluggable allocator; Tidemark's stand in for them."""
    allocator = sys.modules.get(f"{__package__}.allocator")
    if allocator is not None and allocator.serves(device.type):
        return sys.modules[f"{__package__}.device_memory"]
    return module
