"""Host memory for storages that are swapped out: outside the device's allocator, so outside the budget.

Copies out run on a thread of their own. `delay` (seconds, for tests) is waited before each copy.
"""

import concurrent.futures
import mmap
import time

import torch


class HostMemory:
    def __init__(self, delay=None):
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidemark-copy")
        self._delay = delay
        self.bytes_out = 0
        self.bytes_in = 0

    def copy_out(self, tensor):
        """Returns what copy_in() takes. The source may be let go of as soon as this returns."""
        storage = tensor.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
        self.bytes_out += storage.nbytes()
        return self._pool.submit(self._out, flat).result(), tensor.device

    def copy_in(self, held):
        host, device = held
        out = torch.empty(host.shape, dtype=torch.uint8, device=device)
        self._pool.submit(self._in, out, host).result()
        self.bytes_in += out.numel()
        return out

    def close(self):
        self._pool.shutdown()

    def _out(self, flat):
        if self._delay:
            time.sleep(self._delay())
        host = torch.frombuffer(mmap.mmap(-1, max(flat.numel(), 1)), dtype=torch.uint8, count=flat.numel())
        return host.copy_(flat)

    def _in(self, out, host):
        if self._delay:
            time.sleep(self._delay())
        out.copy_(host)
