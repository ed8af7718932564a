"""Tensors as values: where in its storage one lies, and arguments with something else in their place."""

import dataclasses

import torch

from .errors import CaptureError
from .torch_internals import is_traceable_wrapper_subclass, set_conjugated, set_negated


@dataclasses.dataclass(frozen=True)
class Geometry:
    size: tuple
    stride: tuple
    offset: int
    dtype: torch.dtype
    is_conjugated: bool = False  # the values are the conjugates of the bytes'
    is_negated: bool = False

    @staticmethod
    def of(tensor):
        size, stride, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        return Geometry(size, stride, offset, tensor.dtype, tensor.is_conj(), tensor.is_neg())

    def over(self, tensor):
        """A tensor of this geometry over the storage of another."""
        return self.over_storage(tensor.untyped_storage(), tensor.device)

    def over_storage(self, storage, device):
        out = torch.empty(0, dtype=self.dtype, device=device).set_(storage, self.offset, self.size, self.stride)
        if self.is_conjugated:
            set_conjugated(out, True)
        if self.is_negated:
            set_negated(out, True)
        return out


def storage_of(tensor):
    """What capture knows a tensor by."""
    if tensor.is_nested:
        raise CaptureError("a tensor is nested, which cannot be captured; capture the step with dense tensors")
    if tensor.layout != torch.strided or is_traceable_wrapper_subclass(tensor):
        kind = type(tensor).__name__ if tensor.layout == torch.strided else tensor.layout
        advice = "with recorded=True" if tensor.layout == torch.strided else "the step with dense tensors"
        raise CaptureError(
            f"a tensor of shape {tuple(tensor.shape)} is {kind}, which cannot be captured; capture {advice}"
        )
    return tensor.untyped_storage()


def replace_tensors(value, replace):
    if isinstance(value, torch.Tensor):
        return replace(value)
    if isinstance(value, (list, tuple)):
        return type(value)(replace_tensors(v, replace) for v in value)
    if isinstance(value, dict):
        return {k: replace_tensors(v, replace) for k, v in value.items()}
    return value
