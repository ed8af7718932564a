"""What a forward keeps outside the model: a buffer or a cache of the program, made at the first call and there from
then on.

Capture calls the model once before it records, so that the step recorded is one of those that find it there. What is
kept then are fakes, which training must not meet: memory without contents becomes memory on the device, anything else is
taken out, or None, so that the program makes it anew. What the program froze (gc.freeze) is among the collected again where
there are such fakes: holders are found by the collector.

Thread rule: in the thread that captures, when nothing of the capture is needed any more.
"""

import functools
import gc

import torch

from . import kernels
from .torch_internals import FakeTensor


def replace_fakes(recorder, device):
    """Leaves none of the fakes that `recorder` saw made in the program. `device`: where memory is made for those
    without contents; None: they are taken out too."""
    if not _kept(recorder):
        return
    gc.collect()
    fakes = _fakes_kept(recorder)
    if fakes:
        gc.unfreeze()  # and not frozen again: what is garbage later would stay
    for tensor in fakes:
        real = _remade(tensor, recorder, device)
        for holder in gc.get_referrers(tensor):
            _replace(holder, tensor, real)


def _kept(recorder):
    """Storages made in the step that are still there."""
    return [seen for seen in recorder.log.storages if seen.born >= 0 and not seen.ref.expired()]


def _fakes_kept(recorder):
    found = {seen.ref.cdata for seen in _kept(recorder)}
    fakes = [o for o in gc.get_objects() if type(o) is FakeTensor and o.fake_mode is recorder.fake_mode]
    dense = [fake for fake in fakes if fake.layout is torch.strided]  # others have no storage
    return [fake for fake in dense if fake.untyped_storage()._cdata in found]


def _remade(tensor, recorder, device):
    """The same memory on the device, where nothing was ever written to it; else None."""
    number = recorder.log.id_of(tensor)
    made = recorder.log.calls[recorder.log.storages[number].born]
    if device is None or not kernels.leaves_unwritten(made.func):
        return None
    if any(number in call.writes for call in recorder.log.calls if call is not made):
        return None
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)


def _replace(holder, value, other):
    """In a dictionary, an object's attributes or a cache of a function's results; elsewhere nothing is changed."""
    if isinstance(holder, functools._lru_cache_wrapper):
        holder.cache_clear()
    elif isinstance(holder, tuple):
        for above in gc.get_referrers(holder):
            _replace(above, holder, None)
    elif isinstance(holder, dict):
        owner = next((o for o in gc.get_referrers(holder) if _has_attributes(o, holder)), None)
        for key in [key for key, entry in holder.items() if entry is value]:
            if owner is not None:  # what asks for it may ask whether it is None
                setattr(owner, key, other)
            elif other is None:
                del holder[key]
            else:
                holder[key] = other
    elif hasattr(holder, "__dict__") and not isinstance(holder, type):
        _replace(holder.__dict__, value, other)


def _has_attributes(owner, attributes):
    if isinstance(owner, type):  # shows them through a proxy; its dictionary must not be changed from outside
        return True
    return getattr(owner, "__dict__", None) is attributes
