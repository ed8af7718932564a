"""A model whose tensors are replaced by fakes for a while: nothing is computed and no memory taken."""

import contextlib

import torch

from .geometry import storage_of
from .torch_internals import tree_map
from .tensor_parts import Wrapped, is_wrapper


class FakeTensors:
    """Fakes of real (or meta) tensors: one for each, sharing storage where the originals do. `device`: where the fakes
    say they are."""

    def __init__(self, fake_mode, device):
        self._mode = fake_mode
        self._device = device
        self._bases = {}  # storage of the original -> flat fake over all of its bytes
        self._fakes = {}
        self._originals = []  # kept alive: ids are keys

    def of(self, tensor):
        key = id(tensor)
        if key not in self._fakes:
            self._originals.append(tensor)
            self._fakes[key] = self._make(tensor)
        return self._fakes[key]

    def _make(self, tensor):
        if is_wrapper(tensor):
            with self._mode, torch.no_grad():
                fake = Wrapped(tensor, self.of).joined(lambda part: part)
            return torch.nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else fake
        storage = storage_of(tensor)
        with self._mode, torch.no_grad():
            base = self._bases.get(storage._cdata)
            if base is None:
                base = torch.empty(storage.nbytes(), dtype=torch.uint8, device=self._device)
                self._bases[storage._cdata] = base
            fake = torch.empty(0, dtype=tensor.dtype, device=self._device)
            fake.set_(base.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
            if isinstance(tensor, torch.nn.Parameter):
                return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
            return fake.requires_grad_(tensor.requires_grad)

    def of_tree(self, value):
        return tree_map(lambda v: self.of(v) if isinstance(v, torch.Tensor) else v, value)


@contextlib.contextmanager
def fake_model(model, fakes):
    """Parameters, buffers and tensors that modules hold as plain attributes are fakes inside; whatever the forward
    stores in the modules meanwhile is forgotten on the way out."""
    before = []
    for module in model.modules():
        before.append((module, dict(module.__dict__), dict(module._parameters), dict(module._buffers)))
    try:
        for module, attributes, parameters, buffers in before:
            for name, value in parameters.items():
                module._parameters[name] = None if value is None else fakes.of(value)
            for name, value in buffers.items():
                module._buffers[name] = None if value is None else fakes.of(value)
            for name, value in attributes.items():
                if isinstance(value, torch.Tensor):
                    module.__dict__[name] = fakes.of(value)
        yield
    finally:
        for module, attributes, parameters, buffers in before:
            module.__dict__.clear()
            module.__dict__.update(attributes)
            module._parameters.clear()
            module._parameters.update(parameters)
            module._buffers.clear()
            module._buffers.update(buffers)


def fingerprint(model):
    """Paths, shapes and types of all parameters: what a plan is for."""
    import hashlib

    text = "\n".join(f"{n} {tuple(p.shape)} {p.dtype}" for n, p in model.named_parameters(remove_duplicate=False))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
