"""What a step that only runs to be recorded leaves as it was: gradients, what forward and backward change of parameters,
buffers and inputs, and attributes of modules.

Thread rule: that of capture.
"""

from .host_copy import HostCopy


class Undone:
    """Over a CapturedStep. Memory: a copy, on the host, of each storage that is changed."""

    def __init__(self, step):
        self._model = step.model
        self._optimizer = step.optimizer
        self._kept = {}  # storage by address: storage, HostCopy

    def keep(self, tensor):
        """Before it is changed."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._kept:
            self._kept[storage._cdata] = storage, HostCopy(tensor)

    def put_back(self):
        for storage, copy in self._kept.values():
            if storage.nbytes() == copy.bytes:  # else it was given up
                copy.copy_to(storage)

    def __enter__(self):
        self._gradients = [(p, p.grad) for p in self._model.parameters()]
        for p, _ in self._gradients:
            p.grad = None
        self._modules = [(module, dict(module.__dict__)) for module in self._model.modules()]
        self._buffers = [(module._buffers, dict(module._buffers)) for module in self._model.modules()]
        self._states = None
        if self._optimizer is not None:  # hooks of backward may step it
            self._states = {p: dict(state) for p, state in self._optimizer.state.items()}
        return self

    def __exit__(self, *_):
        self.put_back()
        for p, gradient in self._gradients:
            p.grad = gradient
        for module, attributes in self._modules:
            module.__dict__.clear()
            module.__dict__.update(attributes)
        for held, before in self._buffers:
            held.clear()
            held.update(before)
        if self._states is not None:
            self._optimizer.state.clear()
            self._optimizer.state.update(self._states)
