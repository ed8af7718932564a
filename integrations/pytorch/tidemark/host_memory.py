"""Host memory for storages that are swapped out: outside the device's allocator, so outside the budget.

One thread copies out and one copies in, each in the order asked, beside the kernels. `delay` (seconds, for tests) is
waited before each copy.

Thread rule: any thread; one lock over the books. A forked process has what its parent had copied, and makes the copies
that its parent had not finished itself, where it asks for them: the threads are the parent's.
"""

import concurrent.futures
import functools
import mmap
import os
import threading
import time
import weakref

import torch


class HostCopy:
    """A storage in host memory, or on its way there. Its device memory is let go of by the thread that asks, not by the
    one that copies: allocators take longest to see what another thread gives back."""

    __slots__ = ("_copying", "_source", "_host", "bytes", "device")

    def __init__(self, source, bytes_, device):
        self._copying = None
        self._source = [source]  # emptied by wait(): what a thread has been asked to do, it forgets too late
        self._host = None
        self.bytes = bytes_
        self.device = device

    def begin(self, do, delay):
        self._copying = do(self._copy, delay)

    def _copy(self, delay=None):
        if delay:
            time.sleep(delay())
        host = torch.frombuffer(_private_pages(self.bytes), dtype=torch.uint8, count=self.bytes)
        self._host = host.copy_(self._source[0])

    def is_done(self):
        return self._host is not None or self._copying.has_failed()

    def wait(self):
        """Until it is there; gives the device's memory back."""
        self.there()
        self._source.clear()

    def there(self):
        """The bytes as a tensor. Waits, and gives nothing back."""
        if self._host is None:
            self._copying.wait(self._copy)
        return self._host


class Arrival:
    """A storage on its way back."""

    __slots__ = ("_copying", "_copy", "_tensor", "_is_there")

    def __init__(self, copy, tensor):
        self._copying = None
        self._copy = copy
        self._tensor = tensor
        self._is_there = False

    def begin(self, do, delay):
        self._copying = do(self._fill, delay)

    def _fill(self, delay=None):
        host = self._copy.there()
        if delay:
            time.sleep(delay())
        self._tensor.copy_(host)
        self._is_there = True

    def wait(self):
        """The storage as a tensor, once: the thread that filled it may hold on to this for longer."""
        if not self._is_there:
            self._copying.wait(self._fill)
        tensor, self._tensor = self._tensor, None
        return tensor


class _Task:
    """What a thread was asked to do. A fork takes neither the thread along nor a lock that it holds, so what the parent
    asked for is not asked about in a child: it is done there again."""

    __slots__ = ("_done", "_pid")

    def __init__(self, done):
        self._done = done
        self._pid = os.getpid()

    def has_failed(self):
        return self._pid == os.getpid() and self._done.done()

    def wait(self, do_it):
        if self._pid == os.getpid():
            self._done.result()
        else:
            do_it()


def _private_pages(bytes_):
    return mmap.mmap(-1, max(bytes_, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_all = weakref.WeakSet()


def _after_fork():
    for memory in _all:
        memory._lock = threading.RLock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)


class HostMemory:
    def __init__(self, delay=None):
        _all.add(self)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._out_thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidemark-out")
        self._in_thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidemark-in")
        self._delay = delay
        self._closed = False
        self.bytes_out = 0
        self.bytes_in = 0
        self.leaving = {}  # storages that are read by copies not done yet, by address of their description

    def copy_out(self, tensor):
        """Returns what copy_in() takes. The source may be let go of: the copy holds it until it is done."""
        storage = tensor.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
        copy = HostCopy(flat, storage.nbytes(), tensor.device)
        with self._lock:
            self._release_done()
            self.bytes_out += copy.bytes
            copy.begin(functools.partial(self._do, self._out_thread), self._delay)
            self.leaving[storage._cdata] = copy
        return copy

    def wait(self, copy):
        """Until the copy is done and the device's memory given back."""
        copy.wait()
        with self._lock:
            self._release_done()

    def copy_in(self, copy):
        """Takes device memory now, and fills it beside the kernels."""
        arrival = Arrival(copy, torch.empty(copy.bytes, dtype=torch.uint8, device=copy.device))
        with self._lock:
            self.bytes_in += copy.bytes
            arrival.begin(functools.partial(self._do, self._in_thread), self._delay)
        return arrival

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
        with self._lock:
            for copy in self.leaving.values():
                copy.wait()
            self.leaving.clear()

    def close(self):
        """Ends the threads. What is asked for afterwards, as by a backward behind its session, is copied at once."""
        self.finish()
        self._closed = True
        self._out_thread.shutdown()
        self._in_thread.shutdown()

    def _do(self, thread, function, delay):
        if not self._closed and self._pid == os.getpid():
            return _Task(thread.submit(function, delay))
        done = concurrent.futures.Future()
        done.set_result(function(delay))
        return _Task(done)
