"""libtidemark.so and the extensions beside it."""

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import pathlib

import torch

from .errors import InfeasibleError, TidemarkError

ABI_VERSION = 5
_INFEASIBLE = 3
_OUT_OF_MEMORY = 4
_NPU_SHIM = "libtidemark_npu_shim.so"


def _directories():
    given = os.environ.get("TIDEMARK_LIBRARY_DIR")
    here = pathlib.Path(__file__).resolve().parent
    return [pathlib.Path(given)] if given else [here / "_lib"]


def _path_of(name):
    for directory in _directories():
        if (directory / name).exists():
            return str(directory / name)
    places = ", ".join(str(d) for d in _directories())
    raise TidemarkError(
        f"{name} is not in {places}; install the package (docs/pytorch.md), or say where it is in TIDEMARK_LIBRARY_DIR"
    )


def torch_built_for():
    """The PyTorch that the extensions were built for, as check_torch() takes it; None where that is not known."""
    places = [directory / "torch_version" for directory in _directories()]
    lines = next((place.read_text().split() for place in places if place.exists()), None)
    return (lines[0], lines[1:] != ["0"]) if lines else None


PlanWatch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_double)


class GraphOptions(ctypes.Structure):
    """Of tidemark_graph_plan()."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("budget_bytes", ctypes.c_int64),
        ("effort_percent", ctypes.c_int32),
        ("group_recompute", ctypes.c_int32),
        ("watch", PlanWatch),
        ("watch_user", ctypes.c_void_p),
    ]


class Statistics(ctypes.Structure):
    """Bytes and counts of the allocator: current, and peak since the last reset_peaks()."""

    _names = (
        "requested_bytes requested_peak_bytes allocated_bytes allocated_peak_bytes active_bytes active_peak_bytes "
        "reserved_bytes reserved_peak_bytes allocations allocations_total frees_total allocation_retries "
        "out_of_memory_count limit_bytes"
    ).split()
    _fields_ = [("struct_size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in _names]

    def as_dict(self):
        return {name: getattr(self, name) for name in self._names}

    def __repr__(self):
        return f"Statistics({', '.join(f'{name}={value}' for name, value in self.as_dict().items())})"


@functools.cache
def core():
    """libtidemark.so, its version looked at."""
    library = ctypes.CDLL(_path_of("libtidemark.so.1"))
    library.tidemark_version.restype = ctypes.c_char_p
    if library.tidemark_abi_version() != ABI_VERSION:
        raise TidemarkError(
            f"libtidemark.so speaks version {library.tidemark_abi_version()} of the C interface, this package version "
            f"{ABI_VERSION}; install both from the same checkout"
        )
    library.tidemark_error_message.restype = ctypes.c_char_p
    library.tidemark_error_message.argtypes = [ctypes.c_void_p]
    library.tidemark_error_free.argtypes = [ctypes.c_void_p]
    library.tidemark_buffer_data.restype = ctypes.c_void_p
    library.tidemark_buffer_data.argtypes = [ctypes.c_void_p]
    library.tidemark_buffer_size.restype = ctypes.c_int64
    library.tidemark_buffer_size.argtypes = [ctypes.c_void_p]
    library.tidemark_buffer_free.argtypes = [ctypes.c_void_p]
    return library


@functools.cache
def extension():
    """The CPU allocator's entry points, and what CUDA's plug-in needs beyond C."""
    core()
    library = ctypes.CDLL(_path_of("libtidemark_torch.so"))
    library.tidemark_torch_install.restype = ctypes.c_void_p
    library.tidemark_torch_install.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
    library.tidemark_torch_phases_at_peak.argtypes = [ctypes.c_void_p]
    library.tidemark_torch_set_owner.restype = ctypes.c_uint32
    library.tidemark_torch_set_owner.argtypes = [ctypes.c_uint32]
    library.tidemark_torch_add_owner.restype = ctypes.c_uint32
    library.tidemark_torch_add_owner.argtypes = [ctypes.c_char_p]
    library.tidemark_torch_take_others_peak.restype = ctypes.c_int64
    return library


@functools.cache
def npu_shim():
    """What torch_npu's plug-in and its queue of launches need in C++, of integrations/npu_shim; None where it was not
    built. torch_npu is imported already."""
    core()
    directory = next((d for d in _directories() if (d / _NPU_SHIM).exists()), None)
    return None if directory is None else ctypes.CDLL(str(directory / _NPU_SHIM))


def address(of, function):
    return ctypes.cast(getattr(of, function), ctypes.c_void_p).value


@functools.cache
def engine():
    """The module of csrc/session_module.cc."""
    loader = importlib.machinery.ExtensionFileLoader("tidemark_session", _path_of("tidemark_session.so"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def call(name, *args):
    """A function of the C interface whose last parameter is the error; raises what it says. Where memory has run out,
    that is PyTorch's own exception."""
    error = ctypes.c_void_p()
    status = getattr(core(), name)(*args, ctypes.byref(error))
    if status == 0:
        return
    text = core().tidemark_error_message(error).decode()
    core().tidemark_error_free(error)
    if status == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"tidemark: {text}")
    raise (InfeasibleError if status == _INFEASIBLE else TidemarkError)(text)


def take_buffer(buffer):
    """The bytes of a buffer object, which is freed."""
    data = ctypes.string_at(core().tidemark_buffer_data(buffer), core().tidemark_buffer_size(buffer))
    core().tidemark_buffer_free(buffer)
    return data
