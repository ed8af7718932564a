"""PyTorch's execution traces (torch.profiler.ExecutionTraceObserver; schema 1.*-chakra) as a Graph to plan with.

Such a trace says which operators ran, one inside the other, on which storages, and not how long anything took or when
memory was given back. Operations are taken at the level below autograd at which capture sees them; times are modelled
from DeviceRates; a storage lives from its first write to its last touch. Storages are told apart by their making, as
addresses are used again: what an operator returns and was not given is new. A session cannot follow such a plan: the
trace does not say where in the model an operator was called.
"""

import json
import re

import torch

from . import kernels
from .cost import DEFAULT_RATES, modelled_ns
from .errors import TidemarkError
from .graph import Graph, Op, Storage
from .torch_internals import has_composite_kernel, operator_of


def import_execution_trace(path, rates=DEFAULT_RATES):
    """A Graph of the step in the file, for tidemark.plan() and, as JSON, for `tidemark plan --graph`. Raises
    TidemarkError with the file's name where it is no such trace."""
    try:
        with open(path, encoding="utf-8") as file:
            nodes = _nodes_of(json.load(file))
        return _Import(nodes, rates).graph(str(path))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise TidemarkError(
            f"{path}: {error or type(error).__name__}; right would be what "
            f"torch.profiler.ExecutionTraceObserver writes, with the operators of a step"
        ) from error


class _Node:
    def __init__(self, value):
        self.id = int(value["id"])
        self.name = str(value["name"])
        self.parent = int(value["ctrl_deps"])
        attributes = {a["name"]: a["value"] for a in value["attrs"]}
        self.func = _operator(attributes.get("op_schema") or "")
        self.is_operator = bool(attributes.get("op_schema"))
        self.inputs = list(zip(value["inputs"]["values"], value["inputs"]["types"], strict=True))
        self.outputs = list(zip(value["outputs"]["values"], value["outputs"]["types"], strict=True))
        self.shapes = (value["inputs"]["shapes"], value["outputs"]["shapes"])


def _nodes_of(document):
    if not isinstance(document, dict) or "chakra" not in str(document.get("schema")):
        raise ValueError("no execution trace: there is no schema that names chakra")
    if not isinstance(document.get("nodes"), list):
        raise ValueError("there is no list of nodes")
    return sorted(map(_Node, document["nodes"]), key=lambda node: node.id)


def _operator(schema):
    """The overload, or None where this process does not know it."""
    found = re.match(r"(\w+)::(\w+)(?:\.(\w+))?\(", schema)
    packet = getattr(getattr(torch.ops, found[1]), found[2], None) if found else None
    return operator_of(packet, found[3] or "default") if found else None


def _tensors(values):
    """(storage id, end of the tensor in it in bytes, device) of every tensor, lists flattened."""
    for value, type_ in values:
        if type_.startswith("GenericList[Tensor"):
            yield from _tensors((item, "Tensor") for item in value)
        elif type_.startswith("Tensor") and "nullptr" not in type_ and isinstance(value, list) and value[1]:
            _, storage, offset, count, item_bytes, device = value
            yield int(storage), (int(offset) + int(count)) * int(item_bytes), str(device)


class _Import:
    def __init__(self, nodes, rates):
        self._rates = rates
        self._nodes = nodes
        self._children = {}
        for node in nodes:
            if node.parent != node.id:  # the process is its own parent
                self._children.setdefault(node.parent, []).append(node)
        self._storages = []
        self._current = {}  # storage id of the trace -> number of the storage that has it now
        self._made = set()  # storages that an operator returned
        self._ops = []
        self._device = "cpu"

    def graph(self, name):
        known = {node.id for node in self._nodes}
        roots = [node for node in self._nodes if node.parent == node.id or node.parent not in known]
        pending = [(node, "forward") for node in reversed(roots)]
        while pending:
            node, phase = pending.pop()
            if node.name.startswith("autograd::engine::evaluate_function"):
                phase = "backward"
            elif node.name.startswith("Optimizer."):
                phase = "optimizer"
            inner = self._children.get(node.id, [])
            if node.is_operator and not (inner and self._is_composite(node)):
                self._add(node, phase)
            else:
                pending.extend((child, phase) for child in reversed(inner))
        if not self._ops:
            raise ValueError("there is no operator in it")
        self._say_roles()
        return Graph(name, self._ops, self._storages, [], device=self._device)

    @staticmethod
    def _is_composite(node):
        """Made of others above autograd: those are what runs."""
        return node.func is None or has_composite_kernel(node.func)

    def _add(self, node, phase):
        func = node.func
        if func is not None and (kernels.is_query(func) or kernels.is_view(func)):
            return
        given = [self._storage(*tensor, "input") for tensor in _tensors(node.inputs)]
        reads, number = list(dict.fromkeys(given)), len(self._ops)
        changed = set(self._changed(node)) if func is not None else set()
        writes = [s for s in reads if s in changed]
        given_ids = {tensor[0] for tensor in _tensors(node.inputs)}
        role = "activation" if phase == "forward" else "temporary"
        for storage, end_bytes, device in _tensors(node.outputs):
            if storage not in given_ids:
                self._current.pop(storage, None)
                writes.append(self._storage(storage, end_bytes, device, role, f"{node.name}.{number}"))
                self._made.add(writes[-1])
                given_ids.add(storage)
        if not reads and not writes:
            return
        recompute = "never" if func is None or phase != "forward" or not writes else kernels.recompute_class(func)
        self._ops.append(
            Op(node.name.replace("::", "."), self._cost(node, {*reads, *writes}), reads, writes, phase, recompute)
        )

    def _changed(self, node):
        positions = kernels.traits(*_name_and_overload(node.func))[2]
        inputs = [node.inputs[i] for i in positions if i < len(node.inputs)]
        return [self._current[storage] for storage, _, _ in _tensors(inputs)]

    def _storage(self, id_, end_bytes, device, role, name=None):
        if device != "cpu":
            self._device = device.split(":")[0]
        number = self._current.get(id_)
        if number is not None and number in self._made and end_bytes > self._storages[number].bytes:
            number = None  # the address is used again, by what was allocated out of sight
        if number is None:
            number = self._current[id_] = len(self._storages)
            self._storages.append(Storage(name or f"{role}.{number}", 0, role))
        found = self._storages[number]
        found.bytes = max(found.bytes, end_bytes)
        return number

    def _cost(self, node, touched):
        shapes = [s if t.startswith("Tensor") else v for (v, t), s in zip(node.inputs, node.shapes[0], strict=True)]
        arguments = [None if shape == "<None>" else shape for shape in shapes]
        bytes_ = sum(self._storages[s].bytes for s in touched)
        return modelled_ns(node.func, arguments, {}, node.shapes[1][0] if node.shapes[1] else None, bytes_, self._rates)

    def _say_roles(self):
        """What is there from the start and changed by the optimizer is a parameter or the optimizer's own."""
        forward = {s for op in self._ops if op.phase != "optimizer" for s in op.reads}
        backward = {s for op in self._ops if op.phase == "backward" for s in op.writes}
        for op in self._ops:
            if op.phase != "optimizer":
                continue
            for s in op.reads:
                storage = self._storages[s]
                if storage.role == "temporary" and s in backward:
                    storage.role = "gradient"
                elif storage.role == "input" and s in op.writes:
                    storage.role = "parameter" if s in forward else "optimizer_state"


def _name_and_overload(func):
    name, _, overload = func.name().partition(".")
    return name, overload
