"""Host memory for storages that are swapped out: outside the device's allocator, so outside the budget.

One thread copies out and one copies in, each in the order asked, beside the kernels. `delay` (seconds, for tests) is
waited before each copy.

Thread rule: called from the thread that runs forward, or the one that runs backward, not both at once.
"""

import concurrent.futures
import mmap
import time

import torch


class HostCopy:
    """A storage in host memory, or on its way there. Its device memory is let go of by the thread that asks, not by the
    one that copies: allocators take longest to see what another thread gives back."""

    __slots__ = ("_done", "_source", "bytes", "device")

    def __init__(self, done, source, bytes_, device):
        self._done = done
        self._source = source
        self.bytes = bytes_
        self.device = device

    def is_done(self):
        return self._done.done()

    def wait(self):
        """Until it is there; gives the device's memory back."""
        self._done.result()
        self._source.clear()

    def there(self):
        """The bytes as a tensor. Waits, and gives nothing back."""
        return self._done.result()


class Arrival:
    """A storage on its way back."""

    __slots__ = ("_done", "_tensor")

    def __init__(self, done, tensor):
        self._done = done
        self._tensor = tensor

    def wait(self):
        self._done.result()
        return self._tensor


class HostMemory:
    def __init__(self, delay=None):
        self._out_thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidemark-out")
        self._in_thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidemark-in")
        self._delay = delay
        self._closed = False
        self.bytes_out = 0
        self.bytes_in = 0
        self.leaving = {}  # storages that are read by copies not done yet, by address of their description

    def copy_out(self, tensor):
        """Returns what copy_in() takes. The source may be let go of: the copy holds it until it is done."""
        self._release_done()
        storage = tensor.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
        self.bytes_out += storage.nbytes()
        source = [flat]  # emptied by wait(): what a thread has been asked to do, it forgets too late
        copy = HostCopy(self._do(self._out_thread, self._out, source), source, storage.nbytes(), tensor.device)
        self.leaving[storage._cdata] = copy
        return copy

    def wait(self, copy):
        """Until the copy is done and the device's memory given back."""
        copy.wait()
        self._release_done()

    def copy_in(self, copy):
        """Takes device memory now, and fills it beside the kernels."""
        out = torch.empty(copy.bytes, dtype=torch.uint8, device=copy.device)
        self.bytes_in += copy.bytes
        return Arrival(self._do(self._in_thread, self._in, out, copy), out)

    def settle(self, tensor):
        """Before `tensor` is changed: a copy that reads it comes first."""
        copy = self.leaving.get(tensor.untyped_storage()._cdata)
        if copy is not None:
            self.wait(copy)

    def _release_done(self):
        for key in [key for key, copy in self.leaving.items() if copy.is_done()]:
            self.leaving.pop(key).wait()

    def finish(self):
        """Until every copy out is done."""
        for copy in self.leaving.values():
            copy.wait()
        self.leaving.clear()

    def close(self):
        """Ends the threads. What is asked for afterwards, as by a backward behind its session, is copied at once."""
        self.finish()
        self._closed = True
        self._out_thread.shutdown()
        self._in_thread.shutdown()

    def _do(self, thread, function, *args):
        if not self._closed:
            return thread.submit(function, *args)
        done = concurrent.futures.Future()
        done.set_result(function(*args))
        return done

    def _out(self, source):
        if self._delay:
            time.sleep(self._delay())
        flat = source[0]
        host = torch.frombuffer(mmap.mmap(-1, max(flat.numel(), 1)), dtype=torch.uint8, count=flat.numel())
        return host.copy_(flat)

    def _in(self, out, copy):
        host = copy.there()
        if self._delay:
            time.sleep(self._delay())
        out.copy_(host)
