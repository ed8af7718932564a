"""One data loader for all ranks of a group: its first rank reads, the others get the same bytes.

Ranks of a tensor-parallel group (and of a context-parallel one, before the sequence is cut) train on the same batch.
With a loader in each of them every sample is read, decoded and held as often as there are ranks; with SharedLoader
once:

    loader = tidemark.SharedLoader(loader, tensor_parallel_group)    # None for a loader will do on the other ranks
    for batch in loader:
        ...
"""

import functools
import io
import pickle
import queue
import threading
import traceback
import weakref

import torch
import torch.distributed as dist

from .errors import BadTypeError, BadValueError, SharedLoaderError

_ALIGNMENT = 64  # bytes: of every tensor in what is sent, enough for any type and for vector loads
_BATCH, _END, _FAILED = range(3)
_CONTROL = 5  # kind, epoch, index, bytes of the header, bytes of the payload
_MOST_FAILURE_TEXT = 64 * 1024


class _Pickler(pickle.Pickler):
    """Leaves tensors out, each once."""

    def __init__(self, file):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors = []
        self._numbers = {}

    def persistent_id(self, value):
        if not isinstance(value, torch.Tensor):
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.tensors)
            self.tensors.append(value)
        return self._numbers[id(value)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, number):
        return self._tensors[number]


def _plain(tensor):
    """Dense, in host memory, its elements in a row."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_meta:
        found = f"a tensor of layout {tensor.layout} on {tensor.device}"
        raise BadTypeError(f"a batch holds {found}; dense ones can be shared")
    return tensor.detach().as_subclass(torch.Tensor).cpu().contiguous().resolve_conj().resolve_neg()


def _pack(batch, pin):
    """(header, payload): all but the contents of tensors, and those one behind the other."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(batch)
    tensors = [_plain(tensor) for tensor in pickler.tensors]
    rows, at = [], 0
    for original, tensor in zip(pickler.tensors, tensors, strict=True):
        rows.append((tensor.dtype, tuple(tensor.shape), at, original.requires_grad))
        at += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
    payload = _bytes(at, pin)
    for (_, _, start, _), tensor in zip(rows, tensors, strict=True):
        if tensor.numel():
            flat = tensor.reshape(-1).view(torch.uint8)
            payload[start : start + flat.numel()].copy_(flat)
    return pickle.dumps((rows, file.getvalue()), protocol=pickle.HIGHEST_PROTOCOL), payload


def _unpack(header, payload):
    """The batch; its tensors share the payload's memory."""
    rows, structure = pickle.loads(header)
    tensors = []
    for dtype, shape, start, requires_grad in rows:
        bytes_ = torch.Size(shape).numel() * dtype.itemsize
        tensor = payload[start : start + bytes_].view(dtype).reshape(shape)
        tensors.append(tensor.requires_grad_(requires_grad))
    return _Unpickler(io.BytesIO(structure), tensors).load()


def _bytes(count, pin):
    return torch.zeros(count, dtype=torch.uint8, pin_memory=pin and count > 0)


class _Thread:
    """Does what it is given, one after the other. A daemon: a process whose group hangs can end."""

    def __init__(self):
        self._calls = queue.SimpleQueue()
        threading.Thread(target=self._run, name="tidemark-loader", daemon=True).start()

    def _run(self):
        while (given := self._calls.get()) is not None:
            call, answers = given
            try:
                answers.put((call(), None))
            except BaseException as error:  # goes to who asked
                answers.put((None, error))
            given = call = answers = None  # a batch must not live until the next one

    def submit(self, call):
        """A function that waits for what `call` returns or raises."""
        answers = queue.SimpleQueue()
        self._calls.put((call, answers))

        def result():
            value, error = answers.get()
            if error is not None:
                raise error
            return value

        return result

    def end(self):
        self._calls.put(None)


class SharedLoader:
    """Iterates over the batches of `loader`, which the first rank of `group` alone reads, on all ranks of it.

    loader: what yields batches: a DataLoader, or any iterable. Only the first rank looks at it: the others may give
        None, and need no data set. A batch is any picklable value: tensors in it, however deep, are sent as bytes.
    group: of torch.distributed; None: all ranks. All its ranks make the object, iterate over it and stop at the same
        batch; one that has taken more or fewer than another is told so, and raises SharedLoaderError.
    device: where the tensors of a batch are put, as "cuda:0"; None: in host memory. Through pinned memory where it is
        CUDA: one copy a batch, on the current stream, as the batch is taken.
    timeout: datetime.timedelta after which a rank no longer waits for another; None: what torch.distributed waits
        with gloo.

    One batch is read and sent ahead, by a thread of its own on a gloo group of its own, so that collectives of the
    training are neither waited for nor put out of order. What the reading rank raises, in reading, in packing or
    when it is asked for its length, all ranks raise as SharedLoaderError, there with the exception as its cause; so
    they do when a rank has died or does not answer in time. After an error, or close(), no further batch can be had.

    The tensors of a batch share one piece of memory, which lives as long as one of them does. Not for use from several
    threads at once. Trust: what is not a tensor is unpickled, so the ranks must trust each other, as in
    torch.distributed.broadcast_object_list.
    """

    def __init__(self, loader, group=None, *, device=None, timeout=None):
        ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
        if dist.get_rank() not in ranks:
            raise BadValueError(f"rank {dist.get_rank()} is not one of the group's: {ranks}")
        self.reads = dist.get_rank() == ranks[0]
        if self.reads and loader is None:
            raise BadValueError("the first rank of the group reads: it needs a loader")
        self._reader = ranks[0]
        self._loader = loader if self.reads else None
        self._device = None if device is None else torch.device(device)
        self._pin = self._device is not None and self._device.type == "cuda"
        self._group = dist.new_group(ranks, timeout=timeout, backend="gloo", use_local_synchronization=True)
        self._thread = _Thread()
        weakref.finalize(self, self._thread.end)
        self._epoch = 0
        self._ahead = None  # waits for the batch that is under way
        self._failure = None
        self._closed = False
        try:
            self._length = self._shared_length()
        except BaseException:
            self.close()
            raise

    def __len__(self):
        """Batches of an epoch as the loader said when this object was made. TypeError where it does not know."""
        if self._length < 0:
            raise BadTypeError(f"the loader of rank {self._reader} does not know its length")
        return self._length

    def __iter__(self):
        """The next epoch. An iterator of an earlier one ends."""
        self._refuse_after_end()
        self._drop_ahead()
        self._epoch += 1
        return self._batches(self._epoch)

    def close(self):
        """Ends the thread and the group, on all ranks after the same batch; a second call does nothing. No batch can be
        had any more. Raises SharedLoaderError where the batch that was under way failed; closed it is then as well."""
        if self._closed:
            return
        try:
            self._drop_ahead()
        finally:
            self._closed = True
            self._thread.end()
            dist.destroy_process_group(self._group)

    def _batches(self, epoch):
        self._refuse_after_end()  # the first batch is asked for when the loader may be closed
        begin = self._begin_reading()
        self._ahead = self._thread.submit(functools.partial(self._fetch, epoch, 0, begin))
        index = 0
        while epoch == self._epoch:
            batch = self._take()
            if batch is None:
                return
            index += 1
            self._ahead = self._thread.submit(functools.partial(self._fetch, epoch, index, begin))
            header, payload = batch
            del batch
            if self._device is not None:
                payload = payload.to(self._device, non_blocking=True)
            value = _unpack(header, payload)
            del header, payload  # the caller's from here on
            yield value
            del value

    def _begin_reading(self):
        """What gives the next batch, on the rank that reads. Workers of a DataLoader are forked by this thread."""
        if not self.reads:
            return None
        try:
            iterator = iter(self._loader)
        except Exception as error:
            failure = error

            def fail():
                raise failure

            return fail
        return lambda: next(iterator)

    def _refuse_after_end(self):
        if self._failure is not None:
            raise SharedLoaderError(f"no batch after an error: {self._failure}") from self._failure
        if self._closed:
            raise SharedLoaderError("the loader is closed; a new SharedLoader would be right")

    def _take(self):
        self._refuse_after_end()
        try:
            batch = self._ahead()
        except SharedLoaderError as error:
            self._failure = error
            raise
        finally:
            self._ahead = None
        return batch

    def _drop_ahead(self):
        """Waits for what is under way, which other ranks take part in."""
        if self._ahead is not None:
            self._take()

    # ---- on the thread ----

    def _fetch(self, epoch, index, begin):
        """(header, payload), or None at the end."""
        if self.reads:
            return self._read_and_send(epoch, index, begin)
        return self._receive(epoch, index)

    def _read_and_send(self, epoch, index, following):
        try:
            header, payload = _pack(following(), self._pin)
        except StopIteration:
            self._send((_END, epoch, index, 0, 0))
            return None
        except Exception as error:
            said = _failure_text(error)
            self._send((_FAILED, epoch, index, len(said), 0), said)
            raise self._raised_here(error) from error
        self._send((_BATCH, epoch, index, len(header), payload.numel()), header, payload)
        return header, payload

    def _send(self, control, header=b"", payload=None):
        self._broadcast(torch.tensor(control, dtype=torch.int64))
        if header:
            self._broadcast(torch.frombuffer(bytearray(header), dtype=torch.uint8))
        if payload is not None and payload.numel():
            self._broadcast(payload)

    def _receive(self, epoch, index):
        control = torch.zeros(_CONTROL, dtype=torch.int64)
        self._broadcast(control)
        kind, sent_epoch, sent_index, header_bytes, payload_bytes = control.tolist()
        header = _bytes(header_bytes, False)
        if header_bytes:
            self._broadcast(header)
        header = header.numpy().tobytes()
        payload = _bytes(payload_bytes, self._pin)
        if payload_bytes:
            self._broadcast(payload)
        if kind == _FAILED:
            raise self._raised_there(header)
        if (sent_epoch, sent_index) != (epoch, index):
            raise SharedLoaderError(
                f"this rank is at batch {index} of epoch {epoch}, rank {self._reader} at batch {sent_index} of epoch "
                f"{sent_epoch}; all ranks of the group must take the same number of batches"
            )
        return None if kind == _END else (header, payload)

    def _shared_length(self):
        """-1: the loader has none (TypeError, as DataLoader says of an iterable data set). What else it raises, all
        ranks raise: none is left waiting for a length."""
        length, failure, said = -1, None, b""
        if self.reads:
            try:
                length = len(self._loader)
            except TypeError:
                pass
            except Exception as error:
                failure, said = error, _failure_text(error)
        control = torch.tensor((length, len(said)), dtype=torch.int64)
        self._broadcast(control)
        length, said_bytes = control.tolist()
        if said_bytes:
            text = torch.frombuffer(bytearray(said), dtype=torch.uint8) if said else _bytes(said_bytes, False)
            self._broadcast(text)
            if failure is not None:
                raise self._raised_here(failure) from failure
            raise self._raised_there(text.numpy().tobytes())
        return length

    def _raised_here(self, error):
        return SharedLoaderError(f"rank {self._reader}, which reads, raised {_named(error)}")

    def _raised_there(self, said):
        said = said.decode(errors="replace").rstrip()
        return SharedLoaderError(f"rank {self._reader}, which reads, raised {said.splitlines()[-1]}\n{said}")

    def _broadcast(self, tensor):
        try:
            dist.broadcast(tensor, self._reader, group=self._group)
        except RuntimeError as error:
            raise SharedLoaderError(
                f"the ranks of the group lost each other (one has died, or did not answer in time): {error}"
            ) from error


def _failure_text(error):
    """Never empty."""
    return "".join(traceback.format_exception(error)).encode()[-_MOST_FAILURE_TEXT:]


def _named(error):
    return f"{type(error).__name__}: {error}"
