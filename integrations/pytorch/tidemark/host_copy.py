"""The bytes of a tensor's storage in host memory, beside PyTorch's allocators and their limits.

Thread rule: any thread, one at a time.
"""

import mmap

import torch

_PAGES = 1 << 16  # from there on memory goes back to the system as a whole


class HostCopy:
    def __init__(self, tensor):
        storage = tensor.untyped_storage()
        self.bytes = storage.nbytes()
        self._device = tensor.device
        self._memory = None
        if self.bytes:
            self._memory = mmap.mmap(-1, self.bytes) if self.bytes >= _PAGES else bytearray(self.bytes)
            self._host().copy_(_flat(storage))

    def restored(self):
        """A tensor of bytes on the device that they came from."""
        out = torch.empty(self.bytes, dtype=torch.uint8, device=self._device)
        return out.copy_(self._host()) if self.bytes else out

    def copy_to(self, storage):
        """Where the bytes came from, or as many elsewhere."""
        if self.bytes:
            _flat(storage).copy_(self._host())

    def _host(self):
        return torch.frombuffer(self._memory, dtype=torch.uint8)


def _flat(storage):
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (storage.nbytes(),), (1,))
