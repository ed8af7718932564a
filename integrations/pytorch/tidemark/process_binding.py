"""The process on the cores and the memory node of its device."""

import ctypes
import dataclasses
import json
import logging
import os

import torch

from . import library
from .errors import BadValueError, TidemarkError

_LOG = logging.getLogger("tidemark")


class _Options(ctypes.Structure):
    """tidemark_bind_options."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("devices", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("only_plan", ctypes.c_int32),
        ("topology", ctypes.c_char_p),
    ]


@dataclasses.dataclass(frozen=True)
class Binding:
    """What bind_process() did. CPUs as Linux writes them: "0-3,8". A node that is not known is None."""

    device: str  # PCI address, "node1", "unknown" or "none"
    device_node: int | None
    home: int | None  # the node whose CPUs these are
    main_cpus: str  # of the thread that trains and all it starts
    copy_cpus: str  # of Tidemark's threads that copy and pin memory
    memory_node: int | None  # where unplaced and pinned pages go first
    shares_cores: bool  # with other ranks: there are fewer cores than ranks
    simulated: bool  # on a simulated host: nothing was bound
    cpus_before: str
    bound: bool
    threads_bound: int
    threads_left: int  # whose own masks have nothing in common with the plan: as they were
    memory_placed: bool  # False: a policy was set before, or no node is planned
    problems: list  # of {"what": ..., "right": ...}: what is wrong with what the process was given


def bind_process(device=None, *, local_rank=None, local_ranks=None, devices=None, only_plan=False, topology=None):
    """Binds this process to its share of the CPUs near its device, and its memory to that node. Returns a Binding.

    To be called by the thread that trains, before anything else: threads and DataLoader workers that start later
    inherit the CPUs. Ranks of one host share them out without asking each other. Nothing is widened: the shares are
    cut from what the process may use (taskset, numactl, cpusets), and a mask that was made for this process alone is
    its share.

    device: of the process, as "cuda:1"; "cuda", or None where there is CUDA: the one of torch.cuda.set_device(); before
        such a call, that of the local rank where this process sees as many as there are ranks. None without CUDA: none
        in particular.
    local_rank, local_ranks: which rank of this host this is, and of how many; None: LOCAL_RANK and LOCAL_WORLD_SIZE of
        torchrun, else the only one.
    devices: of all ranks of the host in rank order, the same in each: PCI addresses, "node0" and so on, "unknown", or
        "none"; None: CUDA devices 0, 1, ... where this process sees as many as there are ranks and has the one of its
        rank; its own for all where it sees that alone, so that a share is as small as if all ranks were on its node;
        NPUs as unknown, whose node is found where all accelerators hang on one; else none.
    only_plan: nothing is bound.
    topology: with only_plan, a folder that stands for "/": a simulated host (docs/cli.md).

    Raises TidemarkError where CPU_AFFINITY_CONF has torch_npu bind its threads itself, and where the process is bound
    otherwise already; BadValueError for ranks or devices that do not fit together.
    """
    conf = os.environ.get("CPU_AFFINITY_CONF", "")
    if conf and not conf.startswith("0") and not only_plan:
        raise TidemarkError(
            f"CPU_AFFINITY_CONF={conf} has torch_npu bind threads, and two that bind narrow each other; unset it, or "
            "leave binding to it"
        )
    rank, ranks = _ranks(local_rank, local_ranks)
    named = list(devices) if devices is not None else _devices(device, rank, ranks)
    if len(named) <= rank:
        raise BadValueError(f"local rank {rank} has no device among {named}; one for each rank would be right")
    options = _Options(struct_size=ctypes.sizeof(_Options), rank=rank, only_plan=only_plan)
    options.devices = ",".join(named).encode()
    options.topology = None if topology is None else os.fsencode(topology)
    report = ctypes.c_void_p()
    library.call("tidemark_bind_process", ctypes.byref(options), ctypes.byref(report))
    binding = Binding(**json.loads(library.take_buffer(report)))
    for problem in binding.problems:
        _LOG.warning("%s; right: %s", problem["what"], problem["right"])
    return binding


def _ranks(rank, ranks):
    rank = int(os.environ.get("LOCAL_RANK", "0")) if rank is None else rank
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", str(rank + 1))) if ranks is None else ranks
    if not 0 <= rank < ranks:
        raise BadValueError(f"local rank {rank} of {ranks}; a rank from 0 to {ranks - 1} would be right")
    return rank, ranks


def _devices(device, rank, ranks):
    """A device a rank, in rank order, the same list in all of them."""
    own = _cuda_device(device, rank, ranks)
    if own is None:
        npu = getattr(torch, "npu", None)
        return ["unknown" if npu is not None and npu.is_available() else "none"] * ranks
    if ranks > 1 and torch.cuda.device_count() >= ranks and own == rank:
        return [_pci_address(index) for index in range(ranks)]
    # Each sees its own alone: which the others have is theirs to know. Near the own device, with a share for each rank.
    return [_pci_address(own)] * ranks


def _cuda_device(device, rank, ranks):
    if device is None:
        return _unnumbered_device(rank, ranks) if torch.cuda.is_available() else None
    device = torch.device(device)
    if device.type != "cuda":
        return None
    return _unnumbered_device(rank, ranks) if device.index is None else device.index


def _unnumbered_device(rank, ranks):
    """The current one. 0 may also be what it is without torch.cuda.set_device(): the rank's where there are enough."""
    current = torch.cuda.current_device()
    return rank if current == 0 and torch.cuda.device_count() >= ranks > 1 else current


def _pci_address(index):
    properties = torch.cuda.get_device_properties(index)
    if not hasattr(properties, "pci_bus_id"):  # an older PyTorch
        return "unknown"
    return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
