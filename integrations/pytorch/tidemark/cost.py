"""What a kernel costs: a model of two rates. `Graph` figures from here are modelled, never measured."""

import dataclasses

from torch.utils.flop_counter import flop_registry

from .errors import CaptureError
from .kernels import tensors

_DISPATCH_NS = 2000


@dataclasses.dataclass(frozen=True)
class DeviceRates:
    """What one device does in a second; the defaults are those of two processor cores of a desktop."""

    flops_per_s: float = 60e9
    bytes_per_s: float = 8e9

    def __post_init__(self):
        if not (self.flops_per_s > 0 and self.bytes_per_s > 0):
            raise CaptureError(f"{self} has no sense: rates are above zero")


DEFAULT_RATES = DeviceRates()
# About half of what the data sheet of an A100 (80 GB) has for bf16, and three quarters of it for memory. They only
# choose between recomputation and copies, until kernels are measured.
ACCELERATOR_RATES = DeviceRates(150e12, 1.5e12)


def default_rates(device):
    return DEFAULT_RATES if device == "cpu" else ACCELERATOR_RATES


def cost_ns(func, args, kwargs, out, rates):
    """The slower of arithmetic and traffic, and what it takes to get there."""
    bytes_ = sum(t.numel() * t.element_size() for t in (*tensors(args), *tensors(kwargs), *tensors(out)))
    return modelled_ns(func, args, kwargs, out, bytes_, rates)


def modelled_ns(func, args, kwargs, out, bytes_, rates):
    """The same of a call that moves so many bytes; tensors may be given as their shapes. `func` None: not known."""
    ns = 1e9 * bytes_ / rates.bytes_per_s
    count = None if func is None else flop_registry.get(func._overloadpacket)
    if count is not None:
        try:
            ns = max(ns, 1e9 * count(*args, **kwargs, out_val=out) / rates.flops_per_s)
        except (TypeError, ValueError, IndexError, AssertionError):
            pass  # a form of the kernel that the counter does not know
    return _DISPATCH_NS + int(ns)
