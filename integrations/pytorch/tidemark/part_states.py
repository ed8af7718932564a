"""Random state and autocast of parts that run in forward and are recomputed in backward. Without them a part draws other
numbers there and runs in another type, and its gradients are those of another function.

Thread rule: forward of one call in one thread; backward in any.
"""

import contextlib
import ctypes

import torch


class PartStates:
    """What the parts of one call depend on beside their inputs; `device`: that of their rows.

    Autocast is that of the moment when this is made. Its cache is off within parts: what forward casts there has no
    gradient, and others would find it in the cache; it would also outlive the part.

    The default generators of the CPU and of the device are kept and restored, generators of a layer's own are not. A state
    of the CPU's is 5 KiB, of a GPU's 16 bytes; parts between which nothing was drawn share it.
    """

    def __init__(self, device):
        self._device = torch.device(device)
        kinds = {"cpu": None, self._device.type: None}  # in order, once each
        self._autocast = [_autocast_of(kind) for kind in kinds if torch.amp.is_autocast_available(kind)]
        self._random = {}  # by part
        self._known = {}  # states, each once

    @contextlib.contextmanager
    def saved(self, part):
        """A context for `part`, any key, in forward."""
        self._random[part] = [self._known.setdefault(state, state) for state in self._random_state()]
        with self._as_in_forward():
            yield

    @contextlib.contextmanager
    def restored(self, part):
        """A context for `part` in backward, as often as it is recomputed. The generators are left as they were before."""
        with torch.random.fork_rng(self._devices(), device_type=self._device.type), self._as_in_forward():
            self._set_random_state(self._random[part])
            yield

    @contextlib.contextmanager
    def _as_in_forward(self):
        with contextlib.ExitStack() as contexts:
            for autocast in self._autocast:
                contexts.enter_context(torch.autocast(**autocast, cache_enabled=False))
            yield

    def _devices(self):
        """Whose generators are restored beside the CPU's."""
        return [] if self._device.type in ("cpu", "meta") else [self._device]

    def _random_state(self):
        """As bytes: a tensor would be kept in memory that the plan has for other things."""
        states = [torch.get_rng_state()]
        states += [torch.get_device_module(device).get_rng_state(device) for device in self._devices()]
        return [ctypes.string_at(state.data_ptr(), state.nbytes) for state in states]

    def _set_random_state(self, states):
        of_cpu, *of_devices = (torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in states)
        torch.set_rng_state(of_cpu)
        for device, state in zip(self._devices(), of_devices, strict=True):
            torch.get_device_module(device).set_rng_state(state, device)


def _autocast_of(kind):
    return {
        "device_type": kind,
        "enabled": torch.is_autocast_enabled(kind),
        "dtype": torch.get_autocast_dtype(kind),
    }
