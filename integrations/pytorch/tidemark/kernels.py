"""What is known of a kernel from its schema and name: does it mutate, view, draw random numbers."""

import functools
import re

import torch

from .torch_internals import has_composite_kernel

# Mutate running statistics without saying so in the schema. Recomputed without them, the output is the same.
_RUNNING_STATISTICS = {  # arguments: running mean, running variance, training
    "aten::native_batch_norm": (3, 4, 5),
    "aten::cudnn_batch_norm": (3, 4, 5),
    "aten::miopen_batch_norm": (3, 4, 5),
}
# The same, where the output is the statistics': synchronised batch normalisation.
_NEVER_AGAIN = ("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts")
# What torch.compile made of several kernels (regions.py), where it may make other bits or change what is there before.
_REGION_ONCE = "tidemark::region_once"
# Draw from a state of their own, which every call moves on: cuDNN's dropout.
_OWN_GENERATOR = ("aten::_cudnn_rnn", "aten::miopen_rnn")
# On accelerators rows are added up in any order, other bits every time, unless PyTorch is told to be deterministic
# (torch.use_deterministic_algorithms).
_IN_ANY_ORDER = (
    *("index_add", "index_put", "index_reduce", "scatter_add", "scatter_reduce"),
    *("put", "cumsum", "histc", "bincount"),
)
# Say in their tags whether they draw random numbers. Operators of others need not know of tags.
_TAGGED_NAMESPACES = ("aten", "prims", "prim", "profiler")
_FUNCTIONAL_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
_COLLECTIVE_NAMESPACES = ("c10d", *_FUNCTIONAL_COLLECTIVES)
_ONLY_READING = ("c10d::send", "c10d::barrier", "c10d::monitored_barrier_")
_DATA_DEPENDENT = ("aten::equal", "aten::is_nonzero")

_BEGINNINGS = ("empty", "zeros", "ones", "full", "new_", "rand", "scalar_tensor", "clone", "_to_copy", "lift_fresh")


PASSES, COUNTS, CHANGES = range(3)


def kind(func):
    """PASSES: is neither counted nor recorded. CHANGES: an argument, in place; counts too."""
    if makes_nothing(func):
        return PASSES
    return CHANGES if func._schema.is_mutable or is_process_group_call(func) else COUNTS


def traits(name, overload):
    """What csrc/kernel_traits.h wants to know of the kernel `name`, such as "aten::add"."""
    namespace, operator = name.split("::")
    func = getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
    if is_process_group_call(func):
        changed = () if func._schema.name in _ONLY_READING else (0,)
    else:
        changed = _mutable_positions(func)[0]
    statistics = _RUNNING_STATISTICS.get(func._schema.name)
    return kind(func), str(func), changed, is_random(func), is_process_group_call(func), statistics, may_last(func)


def may_last(func):
    """Makes a tensor that is a copy or filled, as what outlives a step is begun; what arithmetic makes is temporary."""
    return func.namespace == "aten" and func._schema.name.removeprefix("aten::").startswith(_BEGINNINGS)


def name_of_call(func, to_host):
    """What a session knows a kernel by. Copies to host memory are apart: tolist() makes some that no capture sees."""
    return f"{func} to host" if to_host else str(func)


def is_on_meta(args, kwargs):
    """Whether a call is made on tensors without memory, or makes one."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "meta":
        return True
    return any(t.is_meta for t in (*tensors(args), *tensors(kwargs)))


def copies_to_host(func, args, kwargs):
    """Whether the call copies what an accelerator holds to host memory."""
    if func is not torch.ops.aten._to_copy.default or kwargs.get("device") is None:
        return False
    return torch.device(kwargs["device"]).type == "cpu" and args[0].device.type != "cpu"


@functools.cache
def is_query(func):
    """Makes no tensor and changes none: asks for a property, or reads a number (which tolist() does unseen)."""
    return func.namespace in ("prim", "profiler") or is_read(func)


@functools.cache
def is_read(func):
    """Reads a number off a tensor."""
    return func._schema.name == "aten::_local_scalar_dense"


@functools.cache
def is_view(func):
    """Returns nothing but other views of its arguments, and changes nothing."""
    schema = func._schema
    returned = [r.alias_info for r in schema.returns]
    return bool(returned) and not schema.is_mutable and all(a is not None and not a.is_write for a in returned)


@functools.cache
def makes_nothing(func):
    """Whether a call never makes memory nor changes any. An operator that is made of others, such as to(), may say that it
    returns a view and copy: autograd takes it apart before anybody sees it, unless a tensor that is made of others calls it
    for its parts."""
    return is_query(func) or (is_view(func) and not has_composite_kernel(func))


@functools.cache
def is_process_group_call(func):
    """Of a process group, on its first argument in place, which the schema does not say. Returns it and a handle."""
    return func.namespace == "c10d"


@functools.cache
def is_collective(func):
    return func.namespace in _COLLECTIVE_NAMESPACES


@functools.cache
def is_opaque(func):
    """Whether the kernel reads what another one has left in a format of its own: made-up values may crash it."""
    return any(a.name in ("workspace", "reserve") and str(a.type) == "Tensor" for a in func._schema.arguments)


# The state of a random generator lies in host memory, other than the fake kernels of PyTorch say, unless a graph is
# captured (aten/src/ATen/native/transformers/cuda/attention.cu). By kernel: where the state is returned.
_RETURNS_GENERATOR_STATE = {
    "aten::_scaled_dot_product_efficient_attention": (2, 3),
    "aten::_efficient_attention_forward": (2, 3),
}
_READS_GENERATOR_STATE = (
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_efficient_attention_backward",
)


@functools.cache
def host_outputs(func):
    """Positions of the tensors that the kernel returns in host memory, on whatever device it runs."""
    return _RETURNS_GENERATOR_STATE.get(func._schema.name, ())


@functools.cache
def host_arguments(func):
    """Positions of the tensors that the kernel reads in host memory, on whatever device it runs."""
    if func._schema.name not in _READS_GENERATOR_STATE:
        return ()
    names = [a.name for a in func._schema.arguments]
    return names.index("philox_seed"), names.index("philox_offset")


def adds_in_any_order(func, device):
    """Whether the kernel may make other bits of the same numbers when it is recomputed."""
    if device == "cpu" or torch.are_deterministic_algorithms_enabled() or func.namespace != "aten":
        return False
    return func._schema.name.removeprefix("aten::").strip("_") in _IN_ANY_ORDER


def once_in_code():
    """A regular expression of what in code that a compiler made says that it must not be recomputed: operators that have
    a state of their own or add up in any order on some device, and collectives."""
    stateful = [name.removeprefix("aten::") for name in (*_NEVER_AGAIN, *_OWN_GENERATOR)]
    names = "|".join(map(re.escape, (*stateful, *_IN_ANY_ORDER, *_FUNCTIONAL_COLLECTIVES)))
    return rf"(?<![A-Za-z])({names})(?![A-Za-z])"


@functools.cache
def recompute_class(func):
    if func.namespace in _COLLECTIVE_NAMESPACES:
        return "collective"
    if func._schema.is_mutable or func._schema.name in (*_DATA_DEPENDENT, *_NEVER_AGAIN, *_OWN_GENERATOR):
        return "never"
    if func._schema.name == _REGION_ONCE:
        return "never"
    return "random" if is_random(func) else "pure"


@functools.cache
def leaves_unwritten(func):
    """Makes a tensor for others to write to, which they may do without saying so in the schema."""
    name = func._schema.name
    return name.startswith(("aten::empty", "aten::new_empty", "aten::_empty"))


@functools.cache
def is_random(func):
    """Draws random numbers, or may."""
    if func.namespace in _TAGGED_NAMESPACES or is_collective(func):
        return torch.Tag.nondeterministic_seeded in func.tags
    return True


@functools.cache
def _mutable_positions(func):
    arguments = func._schema.arguments
    positions = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    return tuple(positions), tuple(arguments[i].name for i in positions)


def mutated(func, args, kwargs):
    """The arguments that a call writes to, lists flattened."""
    if is_process_group_call(func):
        return [] if func._schema.name in _ONLY_READING else tensors(args[0])
    if not func._schema.is_mutable:
        return []
    positions, names = _mutable_positions(func)
    found = [args[i] for i in positions if i < len(args)] + [kwargs[n] for n in names if n in kwargs]
    out = []
    for value in found:
        out.extend(value if isinstance(value, (list, tuple)) else [value])
    return [v for v in out if isinstance(v, torch.Tensor)]


def changed_statistics(func, args):
    """What the call changes beside its outputs without saying so."""
    positions = _RUNNING_STATISTICS.get(func._schema.name)
    if positions is None or len(args) <= positions[2] or not args[positions[2]]:
        return []
    return tensors([args[i] for i in positions[:2]])


def without_side_effects(func, args):
    """The same call without what it changes beside its outputs."""
    positions = _RUNNING_STATISTICS.get(func._schema.name)
    if positions is None or len(args) <= positions[2] or not args[positions[2]]:
        return args
    return tuple(None if i in positions[:2] else a for i, a in enumerate(args))


def tensors(value):
    """Tensors in arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    return []
