"""What of a device's memory a step cannot have: what the process holds that the step knows nothing of, as other models, data
and what the loop keeps, and the gaps between what stands there over steps."""

import gc

import torch
from torch.utils._pytree import tree_leaves

from . import allocator, library
from .allocator_share import GRANULE_BYTES
from .device_memory import memory_snapshot
from .geometry import storage_of
from .sizes import block_bytes
from .tensor_parts import parts_of


def held_elsewhere(model, optimizer, batch):
    """Bytes beside the model, its gradients, the optimizer's state and the batch, and of gaps: see beside_storages()."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    states = optimizer.state.values() if optimizer is not None else ()
    standing = [*model.parameters(), *model.buffers(), *tree_leaves([dict(s) for s in states])]
    passing = [*(p.grad for p in model.parameters()), *tree_leaves(batch)]
    return beside_storages(_storages_of(standing, device), _storages_of(passing, device), device)


def beside_storages(standing, passing, device):
    """Bytes that the device's allocator has given out now, beside a step's own storages, and those of gaps: what is free in
    granules that are held by any but `passing`, which are the step's as `standing` are, and are others in the next one.
    Less one granule, which is of the allocator's share. Zeros where it cannot be asked. Collects what lies in cycles."""
    gc.collect()
    if not allocator.serves(device.type):
        return _held_by_pytorch(device, {s._cdata: s for s in (*standing, *passing)}.values()), 0
    own = {_address_of(s): allocator.block_bytes(_address_of(s), device) for s in (*standing, *passing)}
    elsewhere_bytes = max(0, allocator.statistics(device).allocated_bytes - sum(own.values()))
    passing_only = {_address_of(s) for s in passing} - {_address_of(s) for s in standing}
    return elsewhere_bytes, max(0, _gaps_beside(passing_only, device) - GRANULE_BYTES)


def _gaps_beside(passing, device):
    """Bytes without a block that outlives the step, in granules that have one. A block that is free or passes has those of
    others at its ends only. `passing`: addresses."""
    held, gaps = set(), []
    for segment in memory_snapshot(device)["segments"]:
        for block in segment["blocks"]:
            first, last = block["address"], block["address"] + block["size"]
            if block["state"] == "active_allocated" and first not in passing:
                held.update(range(first // GRANULE_BYTES, -(-last // GRANULE_BYTES)))
            else:
                gaps.append((first, last))
    total = 0
    for first, last in gaps:
        for granule in {first // GRANULE_BYTES, (last - 1) // GRANULE_BYTES} & held:
            total += min(last, (granule + 1) * GRANULE_BYTES) - max(first, granule * GRANULE_BYTES)
    return total


def _held_by_pytorch(device, own):
    module = getattr(torch, device.type, None)  # torch.cuda, torch.npu
    if not hasattr(module, "memory_allocated"):
        return 0
    return max(0, module.memory_allocated(device) - sum(block_bytes(s.nbytes(), device.type) for s in own))


def _address_of(storage):
    """Without making a storage that is copied on write its own."""
    return library.engine().storage_address(storage)


def _storages_of(tensors, device):
    parts = (part for t in tensors if isinstance(t, torch.Tensor) and t.device == device for part in parts_of(t))
    return [storage for storage in map(storage_of, parts) if storage.device.type == device.type]
