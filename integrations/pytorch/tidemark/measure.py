"""Times and workspaces of kernels, measured: every distinct call of a step is made for real, one at a time, on made-up
values. Needs memory for one call, not for the step.

Workspaces are seen through Tidemark's allocator; without it installed they count as none.
"""

import time

import torch

from . import allocator, kernels
from .errors import CaptureError
from .graph import HostLink
from .geometry import Geometry, replace_tensors, storage_of
from .kernel_requests import requests_of
from .sizes import block_bytes

_REPEATS = 2


class Clock:
    """Nanoseconds of what a device does between begin() and end(). An accelerator runs behind the processor that asks it:
    its own events tell the time."""

    def __init__(self, device):
        kind = torch.device(device).type
        self._device = None if kind == "cpu" else getattr(torch, kind)
        self._begin = None

    def begin(self):
        if self._device is None:
            self._begin = time.perf_counter_ns()
        else:
            self._begin = self._event()

    def end(self):
        if self._device is None:
            return time.perf_counter_ns() - self._begin
        end = self._event()
        end.synchronize()
        return round(1e6 * self._begin.elapsed_time(end))

    def check(self, func, failure):
        """After a kernel that failed: some take the device with them."""
        try:
            if self._device is not None:
                self._device.synchronize()
        except RuntimeError as error:
            raise CaptureError(
                f"{func} failed on made-up values ({failure}), and the device with it; begin a new process and capture "
                f"with measured=False"
            ) from error

    def _event(self):
        event = self._device.Event(enable_timing=True)
        event.record()
        return event


def generators(device):
    """Whose random generators, beside the CPU's, what runs on `device` may draw from; see torch.random.fork_rng()."""
    kind = torch.device(device).type
    if kind == "cpu":
        return {"devices": []}
    return {"devices": [getattr(torch, kind).current_device()], "device_type": kind}


def describe(func, args, kwargs):
    """What tells one call's cost from another's; tensors become (geometry, bytes of the storage)."""

    def shape(tensor):
        return Sample(Geometry.of(tensor), storage_of(tensor).nbytes(), tensor.device.type)

    shapes = list(replace_tensors(args, shape))
    for position in kernels.host_arguments(func):
        if isinstance(shapes[position], Sample):
            shapes[position].device = "cpu"
    return str(func), tuple(shapes), replace_tensors(kwargs, shape)


class Sample:
    """A tensor to be made up: the storage a view lies in is made whole."""

    __slots__ = ("geometry", "bytes", "device")

    def __init__(self, geometry, bytes_, device):
        self.geometry = geometry
        self.bytes = bytes_
        self.device = device

    def __repr__(self):
        return f"{self.geometry}/{self.bytes}"

    def make(self):
        with torch.no_grad():
            flat = torch.zeros(self.bytes, dtype=torch.uint8, device=self.device)
            tensor = self.geometry.over(flat)
            return tensor.fill_(0.5) if tensor.dtype.is_floating_point and 0 not in tensor.stride() else tensor


def _make(value):
    if isinstance(value, Sample):
        return value.make()
    if isinstance(value, (list, tuple)):
        return type(value)(_make(v) for v in value)
    if isinstance(value, dict):
        return {k: _make(v) for k, v in value.items()}
    return value


class Bench:
    """Remembers what it has measured."""

    def __init__(self, device):
        self._device = device
        self._clock = Clock(device)
        self._known = {}

    def measure(self, func, description):
        """(ns, bytes of workspace, KernelRequests) of a call, or None where it cannot be made on made-up values."""
        key = repr(description)
        if key not in self._known:
            try:
                with torch.random.fork_rng(**generators(self._device)):
                    self._known[key] = self._run(func, description)
            except (RuntimeError, IndexError, ValueError) as error:
                self._clock.check(func, error)
                self._known[key] = None
        return self._known[key]

    def _run(self, func, description):
        best, workspace, requests = None, 0, None
        for _ in range(_REPEATS):
            args, kwargs = _make(description[1]), _make(description[2])
            held = self._allocated()
            with allocator.log(self._device) as events, torch.no_grad():
                self._clock.begin()
                out = func(*args, **kwargs)
                took = self._clock.end()
            outputs = [t.untyped_storage().data_ptr() for t in kernels.tensors(out)]
            requests, room = requests_of(events, outputs, torch.device(self._device).type)
            best = took if best is None else min(best, took)
            if allocator.installed():
                kept = sum({t.untyped_storage()._cdata: self._rounded(t) for t in kernels.tensors(out)}.values())
                kept -= sum(
                    self._rounded(t) for t in kernels.tensors([args, list(kwargs.values())]) if self._among(t, out)
                )
                workspace = max(workspace, allocator.statistics().allocated_peak_bytes - held - kept)
            workspace = max(workspace, room)
            del args, kwargs, out
        return best, max(workspace, 0), requests

    @staticmethod
    def _among(tensor, out):
        return any(t.untyped_storage()._cdata == tensor.untyped_storage()._cdata for t in kernels.tensors(out))

    @staticmethod
    def _rounded(tensor):
        return block_bytes(tensor.untyped_storage().nbytes())  # of the CPU's allocator

    @staticmethod
    def _allocated():
        if not allocator.installed():
            return 0
        allocator.reset_peaks()
        return allocator.statistics().allocated_bytes


def host_link(device, bytes_=64 << 20):
    """Rates of copies between `device` and pinned host memory, as a session's are, measured on blocks of `bytes_`."""
    clock = Clock(device)
    there = torch.empty(bytes_, dtype=torch.uint8, device=device)
    here = torch.zeros(bytes_, dtype=torch.uint8, device="cpu", pin_memory=there.device.type != "cpu")

    def seconds(copy):
        copy()
        clock.begin()
        copy()
        return max(clock.end(), 1) / 1e9

    return HostLink(bytes_ / seconds(lambda: here.copy_(there)), bytes_ / seconds(lambda: there.copy_(here)))
