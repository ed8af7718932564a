"""What backward does in place, and a capture sees make a new tensor.

Gradients that meet: autograd's engine adds the second to the first, in place where it holds the last reference.
Formulas that fill zeros they have made, as those of index_select and gather, and a loss's that changes what it has
made: they do so in place. Under a dispatch mode, as capture is one, and of tensor subclasses, as fakes are, neither is
done, so what a capture saw is put right.
"""

import torch

_ADD = torch.ops.aten.add.Tensor
_ZEROS = {"aten::new_zeros", "aten::zeros", "aten::zeros_like"}
_FILLING = {
    "aten::_index_put_impl",
    "aten::index_add",
    "aten::index_put",
    "aten::masked_scatter",
    "aten::put",
    "aten::scatter",
    "aten::scatter_add",
}


_CHANGING = {"BinaryCrossEntropyWithLogitsBackward0": {"aten::div", "aten::mul", "aten::sub"}}


class NodeEnds:
    """Knows whether a node of autograd's graph is over and the next has not begun: all that the engine calls then is
    adding up."""

    def __init__(self):
        self.between = False

    def watch(self, root):
        """All nodes behind the gradient function of a result."""
        seen, left = set(), [root]
        while left:
            node = left.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            left += [following for following, _ in node.next_functions]
            if node.name() != "torch::autograd::AccumulateGrad":  # which counts who holds what it is given
                node.register_prehook(self._begin)
                node.register_hook(self._end)

    def _begin(self, *_):
        self.between = False

    def _end(self, *_):
        self.between = True

    def adds_up(self, func, args):
        """Whether this call would be made in place, if the engine held the last reference to its first argument."""
        if not self.between or func is not _ADD or len(args) != 2 or not _is_dense(args[0]):
            return False
        return not args[0]._is_view()  # which holds its base, so that two hold the storage


def fills_zeros(func, storage, log, node):
    """Whether a call of a node of backward fills the `storage` that the call before has made zeros in."""
    if node is None or func._schema.name not in _FILLING or not log.calls:
        return False
    before = log.calls[-1]
    made_just_now = log.storages[storage].born == len(log.calls) - 1
    return made_just_now and before.node == node and before.func._schema.name in _ZEROS


def changes_own(func, args, node):
    """Whether a call of a node of backward would change its first argument, if the node has made that."""
    return node is not None and func._schema.name in _CHANGING.get(node[0], ()) and _is_dense(args[0])


def _is_dense(tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    next_stride = 1  # smallest strides first, each what the axes before it span
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != next_stride:
            return False
        next_stride *= max(size, 1)
    return True


def put_in_place(log):
    """Calls that would be made in place, and after which the first argument is gone, write it instead of what they
    made."""
    calls, storages = log.calls, log.storages
    stands_for = list(range(len(storages)))
    for c, call in enumerate(calls):
        call.reads = [stands_for[s] for s in call.reads]
        call.writes = [stands_for[s] for s in call.writes]
        if not call.would_be_in_place or len(call.reads) < 2 or call.outputs[0] is None:
            continue
        first, made = call.reads[0], call.outputs[0]
        if storages[first].died != c or storages[first].bytes != storages[made].bytes or storages[first].born < 0:
            continue
        stands_for[made] = first
        storages[first].died = storages[made].died
        if storages[made].role == "gradient":
            storages[first].role, storages[first].name = storages[made].role, storages[made].name
        call.writes, call.outputs, call.in_place = [first], (None,), True
    _renumber(log, stands_for)


def _renumber(log, stands_for):
    kept = [s for s, other in enumerate(stands_for) if s == other]
    number = {s: n for n, s in enumerate(kept)}
    log.storages = [log.storages[s] for s in kept]
    for call in log.calls:
        call.reads = list(dict.fromkeys(number[s] for s in call.reads))
        call.writes = [number[s] for s in call.writes]
        call.outputs = tuple(None if s is None else number[stands_for[s]] for s in call.outputs)
    for save in log.saves:
        save.storage = number[stands_for[save.storage]]
