"""Offloading between captured graphs: a step that runs as several graphs, its pieces, over tensors that have one address
for good and are in host memory while pieces run that do not touch them (docs/design/captured_graphs.md).

    tensors = {"h0": tidemark.PieceTensor((64, 1024), writes=[0], reads=[1, 7]), ...}
    pieces = tidemark.CapturedPieces(tensors, pieces=8, device="cuda:0", budget="4GiB")
    graphs = capture_each_piece(pieces["h0"], ...)      # over these tensors alone, by kernels with out=
    for batch in data:
        for i in pieces.step():
            graphs[i].replay()

Memory stands behind a tensor in the pieces in which it is not away, and nowhere else: to touch it in another is a fault of
the process. Between steps put() and content() do it.

Thread rule: calls must not overlap; any thread. Nothing is called while a stream is being captured, and nothing of it is
freed then.
"""

import contextlib
import ctypes
import dataclasses
import re
import weakref

import torch

from . import library
from .errors import BadTypeError, BadValueError, InfeasibleError, SessionError, TidemarkError
from .piece_gaps import IN_HOST, NOWHERE, ON_DEVICE, PieceStorage, Span, Touch, Units, choose_gaps
from .sizes import format_bytes, parse_bytes

_BETWEEN = {NOWHERE: 0, ON_DEVICE: 1, IN_HOST: 2}
_CALLING_THREAD = ctypes.c_uint64(2**64 - 1)
_GRANULE_OF_HOST = 2 * 2**20


@dataclasses.dataclass(frozen=True)
class PieceTensor:
    """A tensor of the step, and what the pieces do to it."""

    shape: tuple
    dtype: torch.dtype = torch.float32
    writes: tuple = ()  # pieces that leave other content behind
    reads: tuple = ()  # pieces that need the content from before; a write in part or in place is a read as well
    away: tuple | None = None  # pieces in which it has no memory; None: as the budget asks for
    between: str = NOWHERE  # where the content is between steps: "nowhere", "device" or "host"

    @property
    def bytes(self):
        return torch.Size(self.shape).numel() * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class CapturedFigures:
    peak_bytes: int  # device memory, all the time
    address_bytes: int
    pinned_bytes: int
    host_waits_a_step: int  # of the host, before memory moves
    late_waits_a_step: int  # of these, for the piece right before: the device stands still meanwhile
    steps: int
    host_waits: int
    moves: int
    moved_granules: int
    copies_out: int
    copied_out_bytes: int
    copies_in: int
    copied_in_bytes: int


class _Figures(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (field.name, ctypes.c_int64) for field in dataclasses.fields(CapturedFigures)
    ]


class _DeviceOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("ordinal", ctypes.c_int32),
        ("play_estimates", ctypes.c_int32),
        ("capacity_bytes", ctypes.c_int64),
        ("d2h_bytes_per_s", ctypes.c_int64),
        ("h2d_bytes_per_s", ctypes.c_int64),
        ("library", ctypes.c_char_p),
        ("copies_any_memory", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("submit_queued", ctypes.c_void_p),
        ("submit_user", ctypes.c_void_p),
    ]


class _Traits(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("product", ctypes.c_char_p),
        ("granule_bytes", ctypes.c_int64),
        ("alignment_bytes", ctypes.c_int64),
        ("tail_pad_bytes", ctypes.c_int64),
        ("simulated", ctypes.c_int32),
        ("has_bytes", ctypes.c_int32),
        ("numa_node", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class _Touch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("piece", "reads", "writes", "reserved")]


class _Span(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("first", "last")]


class _Storage(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_int64),
        ("between", ctypes.c_int32),
        ("touch_count", ctypes.c_int32),
        ("touches", ctypes.POINTER(_Touch)),
        ("away", ctypes.POINTER(_Span)),
        ("away_count", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("spare_bytes", ctypes.c_int64)]


class _HostRange(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_int64)]


def _sized(kind, **values):
    return kind(struct_size=ctypes.sizeof(kind), **values)


def _list_of(kind, rows):
    return (kind * len(rows))(*(kind(*row) for row in rows))


class _Device:
    """A device of the C interface, open as long as this lives."""

    def __init__(self, device, most_bytes):
        options = _sized(_DeviceOptions, ordinal=device.index or 0)
        if device.type == "cpu":
            options.capacity_bytes = most_bytes
        self.handle = ctypes.c_void_p()
        name = b"host" if device.type == "cpu" else b"cuda"
        library.call("tidemark_device_open", name, ctypes.byref(options), ctypes.byref(self.handle))
        _close_with(self, "tidemark_device_close", self.handle)

    def units(self):
        traits = _sized(_Traits)
        library.call("tidemark_device_get_traits", self.handle, ctypes.byref(traits))
        return Units(traits.granule_bytes, traits.alignment_bytes, traits.tail_pad_bytes)

    def taken_bytes(self):
        """That are not free, of this process and of others."""
        total, free = ctypes.c_int64(), ctypes.c_int64()
        library.call("tidemark_device_memory", self.handle, ctypes.byref(total), ctypes.byref(free))
        return total.value - free.value

    def synchronize(self):
        library.call("tidemark_device_synchronize", self.handle)


class _Executor:
    """tidemark_captured of the C interface, open as long as this lives; tensors over its memory hold it."""

    def __init__(self, device, pieces, storages, away, spare_bytes):
        rows, kept = (_Storage * len(storages))(), []
        for row, storage, gaps in zip(rows, storages, away, strict=True):
            touches, spans = _list_of(_Touch, [(*t, 0) for t in storage.touches]), _list_of(_Span, gaps)
            kept += [touches, spans]
            row.bytes, row.between = storage.bytes, _BETWEEN[storage.between]
            row.touch_count, row.touches = len(touches), touches
            row.away_count, row.away = len(spans), spans if gaps else None
        options = _sized(_Options, spare_bytes=spare_bytes)
        self.handle = ctypes.c_void_p()
        library.call(
            "tidemark_captured_open",
            device.handle,
            ctypes.c_int32(pieces),
            rows,
            ctypes.c_int32(len(rows)),
            ctypes.byref(options),
            ctypes.byref(self.handle),
        )
        _close_with(self, "tidemark_captured_close", self.handle)

    def address_of(self, storage):
        address = ctypes.c_uint64()
        library.call("tidemark_captured_get_address", self.handle, ctypes.c_int32(storage), ctypes.byref(address))
        return address.value

    def host_side(self, storage):
        """Bytes in pinned memory, one tensor behind the other."""
        count, ranges = ctypes.c_int32(), (_HostRange * 0)()
        for _ in range(2):  # the first asks how many
            ranges = (_HostRange * count.value)()
            library.call(
                "tidemark_captured_get_host_side",
                self.handle,
                ctypes.c_int32(storage),
                ranges,
                ctypes.c_int32(len(ranges)),
                ctypes.byref(count),
            )
        return [library.engine().fixed_tensor(r.address, r.bytes, "cpu", self) for r in ranges]

    def figures(self):
        figures = _sized(_Figures)
        library.call("tidemark_captured_get_figures", self.handle, ctypes.byref(figures))
        names = [field.name for field in dataclasses.fields(CapturedFigures)]
        return CapturedFigures(**{name: getattr(figures, name) for name in names})


def _close_with(owner, function, handle):
    """Not as the process ends: tensors may be alive then, and the system takes the memory."""
    weakref.finalize(owner, getattr(library.core(), function), handle).atexit = False


def _spans_of(pieces):
    """Stretches of pieces without a break."""
    spans = []
    for piece in sorted(set(pieces)):
        if spans and spans[-1].last == piece - 1:
            spans[-1] = Span(spans[-1].first, piece)
        else:
            spans.append(Span(piece, piece))
    return tuple(spans)


def _storage_of(name, tensor, pieces):
    if not isinstance(tensor, PieceTensor):
        raise BadTypeError(f"{name!r} must be a tidemark.PieceTensor, not {type(tensor).__name__}")
    if tensor.between not in _BETWEEN:
        raise BadValueError(f"{name!r}: between is {tensor.between!r}; right would be one of {', '.join(_BETWEEN)}")
    for piece in (*tensor.writes, *tensor.reads, *(tensor.away or ())):
        if not isinstance(piece, int) or not 0 <= piece < pieces:
            raise BadValueError(f"{name!r} names piece {piece!r}; right would be numbers from 0 to {pieces - 1}")
    if not tensor.writes and not tensor.reads:
        raise BadValueError(f"no piece touches {name!r}; leave it out, or say which write and read it")
    touched = sorted({*tensor.writes, *tensor.reads})
    touches = tuple(Touch(p, p in tensor.reads, p in tensor.writes) for p in touched)
    away = None if tensor.away is None else _spans_of(tensor.away)
    return PieceStorage(tensor.bytes, tensor.between, touches, away)


def _device_of(device):
    device = torch.device(device)
    if device.type == "cuda":
        return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    if device.type != "cpu":
        raise BadValueError(f"device is {str(device)!r}; captured pieces are served on 'cpu' and 'cuda'")
    return torch.device("cpu")


def _refuse_in_capture(device, what):
    if not torch.cuda.is_initialized():
        return
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        if torch.cuda.is_current_stream_capturing():
            raise SessionError(f"{what} while the current stream is captured; call it outside of the capture")


class CapturedPieces:
    """The tensors of a step that runs as `pieces` graphs, on "cpu" or "cuda:N". `tensors`: PieceTensor by name.

    `budget` (bytes, or a size such as "4GiB"): the most device memory. With it, what is idle goes to host memory where a
    PieceTensor leaves `away` out: as few bytes a step as fit. `spare`: memory beyond what the fullest piece needs, within
    the budget, so that the host need not wait for a piece where memory moves. InfeasibleError: the least budget is its
    `smallest_bytes`. Memory is freed with the last of this and its tensors."""

    def __init__(self, tensors, pieces, device="cpu", budget=None, spare=0):
        self.device, self.pieces = _device_of(device), pieces
        _refuse_in_capture(self.device, "captured pieces are opened")
        if not isinstance(pieces, int) or pieces < 1:
            raise BadValueError(f"pieces is {pieces!r}; a step has one piece or more")
        self._declared = dict(tensors)
        self._numbers = {name: number for number, name in enumerate(self._declared)}
        self._due = 0  # the piece that is announced next; past the last, the end
        storages = [_storage_of(name, tensor, pieces) for name, tensor in self._declared.items()]
        spare_bytes = parse_bytes(spare) if spare else 0
        most = sum(s.bytes for s in storages) + 2 * _GRANULE_OF_HOST * (len(storages) + 1) + spare_bytes
        self._device = _Device(self.device, most)
        gaps = self._gaps(storages, None if budget is None else parse_bytes(budget), spare_bytes)
        self._executor = self._open(storages, gaps, spare_bytes)
        self.away = dict(zip(self._declared, gaps, strict=True))  # Spans by name: declared, or chosen
        self._tensors = {name: self._tensor(name) for name in self._declared}

    def _gaps(self, storages, budget_bytes, spare_bytes):
        if budget_bytes is None:
            return [storage.away or () for storage in storages]
        units = self._device.units()
        granules = -(-spare_bytes // units.granule_bytes) * units.granule_bytes
        try:
            return choose_gaps(self.pieces, storages, units, budget_bytes - granules)
        except InfeasibleError as error:
            if not granules:
                raise
            least = error.smallest_bytes + granules
            text = (
                f"with {granules} bytes to spare and all idle tensors away the least budget is {format_bytes(least)} ({least} "
                f"bytes), more than the {budget_bytes} bytes that are given"
            )
            raise InfeasibleError(text, least) from None

    def _open(self, storages, gaps, spare_bytes):
        try:
            return _Executor(self._device, self.pieces, storages, gaps, spare_bytes)
        except TidemarkError as error:
            if not (found := re.match(r"storage (\d+): ", str(error))):
                raise
            name = list(self._declared)[int(found[1])]
            raise BadValueError(f"{name!r}: {str(error)[found.end() :]}") from None

    def _tensor(self, name):
        declared = self._declared[name]
        address = self._executor.address_of(self._numbers[name])
        flat = library.engine().fixed_tensor(address, declared.bytes, str(self.device), self._executor)
        return flat.view(declared.dtype).view(declared.shape)

    def __getitem__(self, name):
        """The tensor, at its address for good."""
        self._check_name(name)
        return self._tensors[name]

    def _check_name(self, name):
        if name not in self._declared:
            raise BadValueError(f"there is no tensor {name!r}; there are {', '.join(map(repr, self._declared))}")

    def _stream(self):
        if self.device.type == "cpu":
            return _CALLING_THREAD
        return ctypes.c_uint64(torch.cuda.current_stream(self.device).cuda_stream)

    def before(self, piece):
        """Ahead of the launch of this piece's graph, on the current stream; pieces come in order, from 0. What fails may be
        called again."""
        _refuse_in_capture(self.device, f"before({piece}) is called")
        library.call("tidemark_captured_before_piece", self._executor.handle, ctypes.c_int32(piece), self._stream())
        self._due = piece + 1

    def end(self):
        """Behind the launch of the last."""
        _refuse_in_capture(self.device, "end() is called")
        library.call("tidemark_captured_end_step", self._executor.handle)
        self._due = 0

    def give_up(self):
        """The rest of the step is not launched. What its pieces write keeps the content that it has."""
        if self._due == 0:
            return
        for piece in range(self._due, self.pieces):
            self.before(piece)
        self.end()

    def step(self):
        """Iterates over the pieces of a step: before() each, and end() behind the last. A loop that is left gives the rest
        of the step up."""
        try:
            for piece in range(self.pieces):
                self.before(piece)
                yield piece
        except GeneratorExit:
            self.give_up()
            raise
        self.end()

    def put(self, name, value):
        """Sets the content of a tensor that has one between steps. Between steps."""
        sides = self._between_steps(name, "put")
        declared = self._declared[name]
        if tuple(value.shape) != tuple(declared.shape) or value.dtype != declared.dtype:
            wanted, given = (declared.dtype, tuple(declared.shape)), (value.dtype, tuple(value.shape))
            raise BadValueError(f"{name!r} takes a tensor of {wanted}, not of {given}")
        if sides is None:
            self._tensors[name].copy_(value)
            return
        rest = value.detach().to("cpu").contiguous().view(-1).view(torch.uint8)
        for side in sides:
            side.copy_(rest[: side.numel()])
            rest = rest[side.numel() :]

    def content(self, name):
        """A copy of the content that a tensor has between steps, on the CPU where it is in host memory. Between steps."""
        sides = self._between_steps(name, "content")
        if sides is None:
            return self._tensors[name].clone()
        declared = self._declared[name]
        return torch.cat(sides).view(declared.dtype).view(declared.shape)

    def _between_steps(self, name, call):
        """The host side of a tensor in host memory; None of one on the device."""
        self._check_name(name)
        _refuse_in_capture(self.device, f"{call}() is called")
        if self._due != 0:
            raise SessionError(f"{call}({name!r}) is called in the middle of a step; right would be behind end()")
        if self._declared[name].between == NOWHERE:
            raise BadValueError(f"{name!r} has no content between steps; declare it with between='device' or 'host'")
        if self._declared[name].between == ON_DEVICE:
            return None
        self._device.synchronize()
        return self._executor.host_side(self._numbers[name])

    def figures(self):
        return self._executor.figures()

    def device_bytes(self):
        """Memory of the device that is not free now, by its own account: on "cpu" of these pieces alone."""
        return self._device.taken_bytes()
