"""What only data can say, said before there is data: how many tokens go to an expert, how many rows a mask selects."""

import dataclasses
import fnmatch

import torch

from .errors import CaptureError


@dataclasses.dataclass(frozen=True)
class Routed:
    """`total` rows are divided among `parts`: the numbers a module reads off a tensor of counts. Captured as equal
    shares."""

    total: int
    parts: int

    def share(self, index):
        index %= self.parts
        return self.total * (index + 1) // self.parts - self.total * index // self.parts


@dataclasses.dataclass(frozen=True)
class Rows:
    """A mask selects so many rows."""

    expected: int


class DataDependent:
    """Answers in the place of kernels whose result, or its size, depends on data."""

    def __init__(self, bounds):
        self._bounds = dict(bounds or {})
        self._reads = {}

    def _find(self, module, kind):
        for pattern, bound in self._bounds.items():
            if fnmatch.fnmatchcase(module, pattern) and isinstance(bound, kind):
                return bound
        return None

    def answer(self, func, args, kwargs, module):
        """The result of the call, or None: let it run."""
        name = func._schema.name
        if name == "aten::nonzero":
            rows = self._rows(func, module)
            return torch.empty((rows, args[0].dim()), dtype=torch.int64, device=args[0].device)
        if name == "aten::masked_select":
            return torch.empty((self._rows(func, module),), dtype=args[0].dtype, device=args[0].device)
        if name == "aten::bincount":
            smallest = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
            if smallest <= 0:
                raise CaptureError(
                    f"module {module!r} calls bincount without minlength, so its size depends on data; give minlength"
                )
            return torch.empty((smallest,), dtype=torch.int64, device=args[0].device)
        return None

    def number(self, tensor, forward, place):
        """What reading a number off `tensor` gives. `place`: micro-batch, module path and number of its call."""
        if not forward:  # an optimizer counts its steps
            return 1.0 if tensor.dtype.is_floating_point else 1
        module = place[1]
        bound = self._find(module, Routed)
        if bound is None:
            raise CaptureError(
                f"module {module!r} reads a number off a tensor, and capture has no data; say what it will be, "
                f"for instance bounds={{{module!r}: tidemark.Routed(total=ROWS, parts=EXPERTS)}}"
            )
        index = self._reads.get(place, 0)
        self._reads[place] = index + 1
        return bound.share(index)

    def _rows(self, func, module):
        bound = self._find(module, Rows)
        if bound is None:
            raise CaptureError(
                f"module {module!r} calls {func._schema.name}, whose size depends on data; say how many rows, "
                f"for instance bounds={{{module!r}: tidemark.Rows(expected=ROWS)}}"
            )
        return bound.expected
