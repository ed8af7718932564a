"""What only data can say, said before there is data: how many tokens go to an expert, how many rows a mask selects."""

import dataclasses
import fnmatch

import torch

from .errors import CaptureError
from .graph import Load
from .kernels import tensors

_MASKS = (torch.bool, torch.uint8)


def _check_counts(bound, **counts):
    for name, count in counts.items():
        if not isinstance(count, int) or count < (1 if name == "parts" else 0):
            raise CaptureError(f"{bound} has no sense: {name} is {count!r}; right would be a whole number")


@dataclasses.dataclass(frozen=True)
class Routed:
    """`total` rows are divided among `parts`: the numbers a module reads off a tensor of counts. Captured as equal
    shares. With `most`, memory is planned for any part having up to so many rows."""

    total: int
    parts: int
    most: int | None = None

    def __post_init__(self):
        _check_counts(self, total=self.total, parts=self.parts)
        if self.most is not None and not -(-self.total // self.parts) <= self.most <= self.total:
            raise CaptureError(
                f"{self} has no sense: the largest of {self.parts} shares of {self.total} rows has at least "
                f"{-(-self.total // self.parts)} and at most {self.total}"
            )

    def load(self, pattern):
        share = -(-self.total // self.parts)
        return Load(pattern, share, self.most or share, self.total)

    @property
    def _at_once(self):
        """Parts that can have the most at the same time."""
        return max(self.total // self.most, 1)

    @property
    def variants(self):
        """Ways to deal the rows out after which every part has had the most once."""
        return 0 if self.most is None else -(-self.parts // self._at_once)

    def share(self, index, variant=None):
        index %= self.parts
        if variant is None or self.most is None:
            return self._part_of(self.total, index, self.parts)
        first = variant % self.variants * self._at_once
        full = range(first, min(first + self._at_once, self.parts))
        if index in full:
            return self.most
        rest = self.total - len(full) * self.most
        return self._part_of(rest, index if index < first else index - len(full), self.parts - len(full))

    @staticmethod
    def _part_of(rows, index, parts):
        return rows * (index + 1) // parts - rows * index // parts


@dataclasses.dataclass(frozen=True)
class Rows:
    """A mask selects so many rows. With `most`, memory is planned for up to so many."""

    expected: int
    most: int | None = None

    def __post_init__(self):
        _check_counts(self, expected=self.expected)
        if self.most is not None and self.most < self.expected:
            raise CaptureError(f"{self} has no sense: at most {self.most} rows, and {self.expected} are expected")

    def load(self, pattern):
        planned = self.expected if self.most is None else self.most
        return Load(pattern, self.expected, planned, planned)

    @property
    def variants(self):
        return 0 if self.most is None else 1

    def rows(self, variant=None):
        return self.expected if variant is None or self.most is None else self.most


class DataDependent:
    """Answers in the place of kernels whose result, or its size, depends on data: what is expected or, in a variant,
    the most of some of it."""

    def __init__(self, bounds, variant=None):
        self._bounds = dict(bounds or {})
        self._variant = variant
        self._reads = {}

    def anew(self):
        """The same answers from the first on."""
        return DataDependent(self._bounds, self._variant)

    @staticmethod
    def variants(bounds):
        """Variants that show the most of everything."""
        return range(max((bound.variants for bound in (bounds or {}).values()), default=0))

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
        if name == "aten::index" and any(mask.dtype in _MASKS for mask in tensors(args[1])):
            return func(args[0], self._positions(args[1], self._rows(func, module)), **kwargs)
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
        if not forward:  # an optimizer counts its steps, or multiplies factors below one
            return 0.5 if tensor.dtype.is_floating_point else 1
        module = place[1]
        bound = self._find(module, Routed)
        if bound is None and tensor.dtype == torch.bool:
            raise CaptureError(
                f"module {module!r} decides by the value of a tensor, and capture has no data; decide outside the model"
            )
        if bound is None:
            raise CaptureError(
                f"module {module!r} reads a number off a tensor, and capture has no data; say what it will be, "
                f"for instance bounds={{{module!r}: tidemark.Routed(total=ROWS, parts=EXPERTS)}}"
            )
        index = self._reads.get(place, 0)
        self._reads[place] = index + 1
        return bound.share(index, self._variant)

    @staticmethod
    def _positions(indices, rows):
        """What masks among `indices` select, as one list of positions for each of their dimensions."""
        out = []
        for index in indices:
            if index is not None and index.dtype in _MASKS:
                where = torch.empty((rows,), dtype=torch.int64, device=index.device)
                out.extend([where] * index.dim())
            else:
                out.append(index)
        return out

    def _rows(self, func, module):
        bound = self._find(module, Rows)
        if bound is None:
            raise CaptureError(
                f"module {module!r} calls {func._schema.name}, whose size depends on data; say how many rows, "
                f"for instance bounds={{{module!r}: tidemark.Rows(expected=ROWS)}}"
            )
        return bound.rows(self._variant)
