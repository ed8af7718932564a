"""Tensors that are made of others, such as DTensor and quantised weights: known by what they hold, as PyTorch's own
protocol (__tensor_flatten__, __tensor_unflatten__) says it.

Thread rule: none of its own.
"""

from torch import Tensor

from .torch_internals import is_traceable_wrapper_subclass


def is_wrapper(tensor):
    """Nested tensors are not among them: the sizes of their rows are data."""
    return is_traceable_wrapper_subclass(tensor) and not tensor.is_nested


def is_wrapper_type(kind):
    return hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")


def parts_of(tensor):
    """The tensors with storages of their own that it is made of, itself where it is one."""
    if not is_wrapper(tensor):
        return [tensor]
    held = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return [part for value in held if isinstance(value, Tensor) for part in parts_of(value)]


class Wrapped:
    """A tensor taken apart, with something else in the place of its parts."""

    __slots__ = ("kind", "context", "size", "stride", "parts", "others")

    def __init__(self, tensor, replace):
        names, self.context = tensor.__tensor_flatten__()
        self.kind, self.size, self.stride = type(tensor), tensor.size(), tensor.stride()
        held = {name: getattr(tensor, name) for name in names}
        self.parts = {name: replace(value) for name, value in held.items() if isinstance(value, Tensor)}
        self.others = {name: value for name, value in held.items() if name not in self.parts}  # as DTensor's mesh

    def joined(self, replace):
        parts = {name: replace(part) for name, part in self.parts.items()}
        return self.kind.__tensor_unflatten__(self.others | parts, self.context, self.size, self.stride)


class WrapperHooks:
    """Hooks of saved tensors for those that are made of others: `pack_part` (None: `pack`) and `unpack` see the parts. A leaf
    is packed as it is."""

    def __init__(self, pack, unpack, pack_part=None):
        self._pack, self._unpack = pack, unpack
        self._pack_plain_part = pack if pack_part is None else pack_part

    def pack(self, tensor):
        if not is_wrapper(tensor) or (tensor.is_leaf and tensor.requires_grad):
            return self._pack(tensor)
        return Wrapped(tensor, self._pack_part)

    def _pack_part(self, part):
        """Gradients are the whole's. A part may ask for them as well, and would be taken for a parameter."""
        part = part.detach()
        return Wrapped(part, self._pack_part) if is_wrapper(part) else self._pack_plain_part(part)

    def unpack(self, packed):
        return packed.joined(self.unpack) if isinstance(packed, Wrapped) else self._unpack(packed)
