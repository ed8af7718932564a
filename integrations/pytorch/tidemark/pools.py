"""Memory apart, by tag: it can be released while its tensors stay, and mapped again at the same addresses.

    with tidemark.pool("inference"):
        engine = build_engine()
    tidemark.release("inference")               # the memory goes, the addresses stay
    train()
    tidemark.restore("inference")               # at the same addresses; release(..., keep=True) brings contents back

For device memory that Tidemark's allocator serves (allocator.install() on the CPU, allocator.cuda() and .npu()).

Thread rule: pool() is for the calling thread; release() and restore() any thread, while nothing touches the tensors.
"""

import contextlib
import ctypes
import threading

from . import allocator, library

_thread = threading.local()


def _select(tag, plain):
    _thread.pool = (tag, plain)
    name = None if tag is None else tag.encode()
    library.core().tidemark_hooks_set_pool(name, ctypes.c_int32(plain))
    if allocator.installed():
        library.extension().tidemark_torch_set_pool(name, ctypes.c_int32(plain))


@contextlib.contextmanager
def pool(tag, plain=False):
    """What the calling thread allocates inside comes from the pool of this tag, made where there is none.

    `plain`: memory that collectives or RDMA may register (NCCL, UCX); it cannot be released. Memory of other pools is
    mapped in granules, which such libraries refuse or copy through the host."""
    if not tag or not isinstance(tag, str):
        raise allocator.TidemarkError(f"a pool has a text for a tag, not {tag!r}")
    if not allocator.serves_anything():
        raise allocator.TidemarkError("no allocator of Tidemark is installed: tidemark.allocator.install() or .cuda()")
    before = getattr(_thread, "pool", (None, False))
    _select(tag, plain)
    try:
        yield
    finally:
        _select(*before)


def release(tag, keep=False, device=None):
    """Gives the pool's memory back to the device, under live tensors as well, and returns how many bytes. Waits for the
    device. Until restore() nothing may touch those tensors, and the pool serves nothing; freeing them is fine. `keep`:
    their contents are saved in pinned host memory and come back, else they are lost."""
    given = ctypes.c_int64()
    handle = allocator.handle_of(device)
    library.call("tidemark_pool_suspend", handle, tag.encode(), ctypes.c_int32(bool(keep)), ctypes.byref(given))
    return given.value


def restore(tag, device=None):
    """Maps memory at the same addresses. torch.OutOfMemoryError where there is too little: the pool stays released
    then, whole, and restore() may be called again."""
    library.call("tidemark_pool_resume", allocator.handle_of(device), tag.encode())


def drop_pool(tag, device=None):
    """Ends a pool, none of whose tensors lives."""
    library.call("tidemark_pool_destroy", allocator.handle_of(device), tag.encode())
