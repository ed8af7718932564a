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
from .errors import BadTypeError, BadValueError

_thread = threading.local()
_MOST_TAG_BYTES = 255


def _bytes_of(tag):
    """The tag as the C interface takes it."""
    if not isinstance(tag, str):
        raise BadTypeError(f"a pool has a text for a tag, not {tag!r}")
    try:
        data = tag.encode()
    except UnicodeEncodeError:
        raise BadValueError(f"a tag is text that UTF-8 has, not {tag[:20]!r}") from None
    if not 0 < len(data) <= _MOST_TAG_BYTES:
        raise BadValueError(f"a tag has 1 to {_MOST_TAG_BYTES} bytes, not {len(data)}: {tag[:20]!r}")
    if b"\0" in data:
        raise BadValueError(f"a tag has no zero bytes, as {tag[:20]!r} has")
    return data


def _select(tag, plain):
    _thread.pool = (tag, plain)
    name = None if tag is None else _bytes_of(tag)
    library.core().tidemark_hooks_set_pool(name, ctypes.c_int32(plain))
    if allocator.installed():
        library.extension().tidemark_torch_set_pool(name, ctypes.c_int32(plain))


def pool(tag, plain=False):
    """What the calling thread allocates inside comes from the pool of this tag, made where there is none.

    `plain`: memory that collectives or RDMA may register (NCCL, UCX); it cannot be released. Memory of other pools is
    mapped in granules, which such libraries refuse or copy through the host."""
    _bytes_of(tag)
    if not allocator.serves_anything():
        raise allocator.TidemarkError("no allocator of Tidemark is installed: tidemark.allocator.install() or .cuda()")
    return _inside(tag, plain)


@contextlib.contextmanager
def _inside(tag, plain):
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
    name, given = _bytes_of(tag), ctypes.c_int64()
    handle = allocator.handle_of(device)
    library.call("tidemark_pool_suspend", handle, name, ctypes.c_int32(bool(keep)), ctypes.byref(given))
    return given.value


def restore(tag, device=None):
    """Maps memory at the same addresses. torch.OutOfMemoryError where there is too little: the pool stays released
    then, whole, and restore() may be called again."""
    name = _bytes_of(tag)
    library.call("tidemark_pool_resume", allocator.handle_of(device), name)


def drop_pool(tag, device=None):
    """Ends a pool, none of whose tensors lives."""
    name = _bytes_of(tag)
    library.call("tidemark_pool_destroy", allocator.handle_of(device), name)
