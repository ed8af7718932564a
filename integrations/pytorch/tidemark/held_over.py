"""What a loop still has of the step before: `output = model(x)` and `loss = ...` keep the last ones until they have the
next. So both are there at once, and where the new one goes is not where the old one was."""

from .graph import Storage

_SMALL_BYTES = 64 << 10  # which are served beside the plan; kSmallBytes of swap/planned_requests.cc


def is_remade(storage):
    """Of the forward, and there when the step ends."""
    return storage.until_end and storage.role == "activation"


def hold_over(graph):
    """Plans for both, from the start of the step to its end: they lie beside what the plan gives addresses. In loops over
    micro-batches only the last output is held over; they are left as they are."""
    if not graph.ops or graph.micro_batches > 1:
        return
    first = graph.ops[0].holds  # what is read first is there before the step
    for number in range(len(graph.storages)):
        storage = graph.storages[number]
        if not is_remade(storage) or number in first or graph.block_bytes(number) <= _SMALL_BYTES:
            continue
        first += [number, len(graph.storages)]
        graph.storages.append(
            Storage(
                f"{storage.name} of the step before",
                storage.bytes,
                storage.role,
                storage.module,
                storage.bound_bytes,
                until_end=True,
            )
        )
