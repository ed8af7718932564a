"""What a process holds that a step knows nothing of: other models, data, what the loop keeps."""

import gc

import torch
from torch.utils._pytree import tree_leaves

from . import allocator
from .geometry import storage_of
from .sizes import block_bytes
from .tensor_parts import parts_of


def held_elsewhere(model, optimizer, batch):
    """Bytes that the device's allocator has given out now, beside the model, the optimizer's state and the batch. 0 where
    it cannot be asked. What lies in cycles is collected first."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    states = optimizer.state.values() if optimizer is not None else ()
    tensors = [*model.parameters(), *model.buffers(), *tree_leaves([dict(s) for s in states]), *tree_leaves(batch)]
    return max(0, allocated_bytes(device) - _bytes_of(tensors, device))


def allocated_bytes(device):
    if allocator.serves(device.type):
        gc.collect()
        return allocator.statistics(device).allocated_bytes
    module = getattr(torch, device.type, None)  # torch.cuda, torch.npu
    if not hasattr(module, "memory_allocated"):
        return 0
    gc.collect()
    return module.memory_allocated(device)


def _bytes_of(tensors, device):
    storages = {}
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device == device:
            for storage in map(storage_of, parts_of(tensor)):
                storages[storage._cdata] = block_bytes(storage.nbytes(), device.type)
    return sum(storages.values())
