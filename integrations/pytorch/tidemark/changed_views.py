"""Views that are changed in place in forward. Autograd gives such a view another gradient function, whose backward
copies the gradient into zeros of the size of the base (AsStridedBackward). Of a fake tensor, as of all tensor
subclasses, it repeats the views instead, which takes no memory; so that is made up for."""

import weakref

import torch

_REPEATED = {  # gradient functions of views whose backward takes no memory
    "ViewBackward0",
    "ReshapeAliasBackward0",
    "TransposeBackward0",
    "TBackward0",
    "PermuteBackward0",
    "UnsqueezeBackward0",
    "SqueezeBackward0",
    "SqueezeBackward1",
    "SqueezeBackward2",
}
_CHANGED = "torch::autograd::CopySlices"


class ChangedViews:
    """Thread rule: that of the capture's recorder."""

    def __init__(self):
        self._changed = []

    def note(self, tensors):
        """A call has changed these in place; autograd has not heard of it yet."""
        self._changed += [weakref.ref(t) for t in tensors if t._is_view()]

    def settle(self):
        """At the next call it has. REQUIRES: that is of no view, as autograd repeats some while it makes the function."""
        changed, self._changed = self._changed, []
        for tensor in (ref() for ref in changed):
            if tensor is not None and tensor.requires_grad and _only_repeats(tensor.grad_fn):
                tensor.grad_fn.register_prehook(_Into(tensor))


def _only_repeats(node):
    while node is not None and node.name() in _REPEATED:
        node = node.next_functions[0][0]
    return node is not None and node.name() == _CHANGED


class _Into:
    """Copies a gradient into zeros of the size of the base, and gives the part of them that the view is."""

    def __init__(self, view):
        base = view._base
        self._elements = base.numel()
        self._geometry = view.size(), view.stride(), view.storage_offset() - base.storage_offset()

    def __call__(self, gradients):
        gradient = gradients[0]
        if not isinstance(gradient, torch.Tensor):
            return None
        part = gradient.new_zeros(self._elements).as_strided(*self._geometry)
        return (part.copy_(gradient), *gradients[1:])
