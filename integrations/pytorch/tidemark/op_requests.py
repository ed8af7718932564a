"""From what kernels ask the allocator for to what the operations of a Graph do."""

from .graph import Request
from .sizes import block_bytes

_NOWHERE = -1


def requests_of_call(asked, outputs):
    """Requests, in order. `asked`: KernelRequests; `outputs`: of the call, storages by number or None, which asks for nothing."""
    found = []
    for request in asked:
        if request.output is None and request.within is None:
            found.append(Request(None, request.bytes, request.offset))
        elif request.output is None:
            within = _storage(outputs, request.within)
            found.append(Request(None, request.bytes, request.offset, _NOWHERE if within is None else within))
        elif _storage(outputs, request.output) is not None:
            found.append(Request(outputs[request.output], request.bytes))
    return found


def settle_workspaces(graph):
    """None lies in the place of what a step leaves behind: that of the step before may be there yet."""
    for op in graph.ops:
        for n, request in enumerate(op.requests):
            if request.within is None:
                continue
            if request.within == _NOWHERE or graph.storages[request.within].outlives_step:
                offset = graph.rounded(op.transient_bytes)
                op.requests[n] = Request(None, request.bytes, offset)
                op.transient_bytes = offset + block_bytes(request.bytes, graph.device)


def grow_to_requests(ops, storages):
    """A kernel may ask for more than what it returns shows: mse_loss makes its scalar of a tensor of the input's size."""
    for op in ops:
        for request in op.requests:
            if request.storage is not None and not storages[request.storage].resident:
                storages[request.storage].bytes = max(storages[request.storage].bytes, request.bytes)


def _storage(outputs, output):
    return outputs[output] if output < len(outputs) else None
