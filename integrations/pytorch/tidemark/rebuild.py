"""How to make a storage again: the kernel calls that made it, with their tensors replaced by where to find them."""

import contextlib
import dataclasses

import torch

try:
    from torch._C._distributed_c10d import Work
except ImportError:
    Work = None  # a PyTorch without process groups has no calls of them

from . import kernels
from .errors import TidemarkError


@dataclasses.dataclass(frozen=True)
class Geometry:
    size: tuple
    stride: tuple
    offset: int
    dtype: torch.dtype

    @staticmethod
    def of(tensor):
        return Geometry(tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype)

    def over(self, tensor):
        """A tensor of this geometry over the storage of another."""
        out = torch.empty(0, dtype=self.dtype, device=tensor.device)
        return out.set_(tensor.untyped_storage(), self.offset, self.size, self.stride)


@dataclasses.dataclass(frozen=True)
class Managed:
    """A view of a storage that the session looks after."""

    storage: int
    geometry: Geometry


def without_history(tensor):
    """The same bytes and no gradient function, which would keep the graph alive."""
    return tensor if tensor.grad_fn is None and not tensor.is_inference() else tensor.detach()


class Held:
    """A tensor that is there anyway: a parameter, an input, what no plan speaks of."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor):
        self.tensor = without_history(tensor)
        self.version = self.tensor._version

    def get(self):
        if self.tensor._version != self.version:
            raise TidemarkError(
                f"a tensor of shape {tuple(self.tensor.shape)} from which the plan rebuilds activations was changed in "
                f"place between forward and backward; step the optimizer after backward, or plan without recomputation"
            )
        return self.tensor


def replace_tensors(value, replace):
    if isinstance(value, torch.Tensor):
        return replace(value)
    if isinstance(value, (list, tuple)):
        return type(value)(replace_tensors(v, replace) for v in value)
    if isinstance(value, dict):
        return {k: replace_tensors(v, replace) for k, v in value.items()}
    return value


def restore_tensors(value, find):
    if isinstance(value, Managed):
        return value.geometry.over(find(value.storage))
    if isinstance(value, Held):
        return value.get()
    if isinstance(value, (list, tuple)):
        return type(value)(restore_tensors(v, find) for v in value)
    if isinstance(value, dict):
        return {k: restore_tensors(v, find) for k, v in value.items()}
    return value


def sources(value):
    """Storages that the session looks after, in recorded arguments."""
    if isinstance(value, Managed):
        return {value.storage}
    if isinstance(value, (list, tuple)):
        return set().union(*map(sources, value)) if value else set()
    if isinstance(value, dict):
        return sources(list(value.values()))
    return set()


@dataclasses.dataclass
class RecordedCall:
    func: object
    args: tuple
    kwargs: dict
    outputs: tuple  # storages by tensor returned, None: not looked after
    random_state: bytearray | None = None  # not a tensor: those count against the budget
    generator: torch.Generator | None = None


def record(func, args, kwargs, outputs, storage_of):
    """Before the call is made. `storage_of(tensor)`: the managed storage it lies in, or None."""

    def remember(tensor):
        found = storage_of(tensor)
        return Held(tensor) if found is None else Managed(found, Geometry.of(tensor))

    call = RecordedCall(
        func,
        replace_tensors(kernels.without_side_effects(func, args), remember),
        replace_tensors(kwargs, remember),
        outputs,
    )
    if kernels.is_random(func):
        call.generator = kwargs.get("generator") or torch.default_generator
        call.random_state = bytearray(call.generator.get_state().numpy())
    return call


@contextlib.contextmanager
def _random_state(call):
    if call.random_state is None:
        yield
        return
    now = call.generator.get_state()
    call.generator.set_state(torch.frombuffer(call.random_state, dtype=torch.uint8))
    try:
        yield
    finally:
        call.generator.set_state(now)


def run_again(calls, find):
    """Makes the calls of one operation again; `find(storage)` gives a tensor over a source. Returns storage -> tensor.
    Below autograd and autocast, as recorded: the same kernels on the same bits."""
    made = {}

    def look(storage):
        return made[storage] if storage in made else find(storage)

    guard = torch._C._DisableAutocast()
    try:
        with torch.no_grad():
            for call in calls:
                args, kwargs = restore_tensors(call.args, look), restore_tensors(call.kwargs, look)
                with _random_state(call):
                    out = call.func(*args, **kwargs)
                if kernels.is_process_group_call(call.func):
                    Work.unbox(out[-1]).wait()
                for storage, tensor in zip(call.outputs, kernels.tensors(out)):
                    if storage is not None:
                        made[storage] = tensor
    finally:
        del guard
    return made
