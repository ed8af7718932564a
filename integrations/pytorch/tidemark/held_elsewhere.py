"""What of a device's memory a step cannot have: what the process holds that the step knows nothing of, as other models, data
and what the loop keeps, and the gaps between what stands there over steps."""

import gc

import torch
from torch.utils._pytree import tree_leaves

from . import allocator
from .allocator_share import GRANULE_BYTES
from .geometry import storage_of
from .sizes import block_bytes
from .tensor_parts import parts_of


def held_elsewhere(model, optimizer, batch):
    """Bytes beside the model, the optimizer's state and the batch, and of gaps: see beside_storages()."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    states = optimizer.state.values() if optimizer is not None else ()
    standing = _storages_of([*model.parameters(), *model.buffers(), *tree_leaves([dict(s) for s in states])], device)
    handed = _storages_of(tree_leaves(batch), device)
    return beside_storages(list(standing.values()), [s for key, s in handed.items() if key not in standing], device)


def beside_storages(standing, passing, device):
    """Bytes that the device's allocator has given out now, beside a step's own storages, and of gaps that it has around
    `standing`, which stay from step to step, as `passing` do not. 0 where it cannot be asked. What lies in cycles is
    collected first."""
    if not allocator.serves(device.type):
        own = sum(block_bytes(s.nbytes(), device.type) for s in (*standing, *passing))
        return max(0, _allocated_by_others(device) - own), 0
    gc.collect()
    blocks, passing_blocks = (
        [(s.data_ptr(), allocator.block_bytes(s.data_ptr(), device)) for s in of] for of in (standing, passing)
    )
    own = sum(size for _, size in (*blocks, *passing_blocks))
    return max(0, allocator.statistics(device).allocated_bytes - own), _gaps_around(blocks)


def _gaps_around(blocks):
    """Of the granules that blocks (address, bytes) lie in, what they leave free: no plan can have it while they are there.
    One granule less, as that is of the allocator's share."""
    granules = set()
    for address, size in blocks:
        granules.update(range(address // GRANULE_BYTES, -(-(address + size) // GRANULE_BYTES)) if size else ())
    return max(0, (len(granules) - 1) * GRANULE_BYTES - sum(size for _, size in blocks))


def _allocated_by_others(device):
    module = getattr(torch, device.type, None)  # torch.cuda, torch.npu
    if not hasattr(module, "memory_allocated"):
        return 0
    gc.collect()
    return module.memory_allocated(device)


def _storages_of(tensors, device):
    found = {}
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device == device:
            found |= {storage._cdata: storage for storage in map(storage_of, parts_of(tensor))}
    return found
