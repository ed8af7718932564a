"""When copies to host memory are waited for and copies back begin, so that they run beside the kernels and memory is
never short.

A copy out is waited for only where its bytes are needed. A copy in begins as late as it still arrives in time over a
link that carries one copy at a time, but not before there is room. Both follow from the plan alone: what fits does not
depend on how quick the copies are.
"""

import bisect
import collections
import dataclasses
import itertools


@dataclasses.dataclass
class Copies:
    waits: dict = dataclasses.field(default_factory=dict)  # position -> storages whose copies out are done before it
    begins: dict = dataclasses.field(default_factory=dict)  # position -> storages whose copies in begin before it


def time_copies(plan, timeline, told):
    """`told[storage]`: positions, ascending, at which a session can do something for it."""
    live = timeline.live_bytes(plan.swaps)
    limit = max(plan.peak_bytes, *live) if live else 0  # the plan has room for copies under way
    copies = Copies()
    done = _wait(plan, live, limit, copies)
    _begin(plan, live, limit, done, told, copies)
    return copies


def _wait(plan, live, limit, copies):
    """Returns the position of the wait by swap. Adds to `live` what is still being copied."""
    graph, leaving, done = plan.graph, {}, {}
    for swap in plan.swaps:
        leaving.setdefault(swap[1], []).append(swap)
    pending, held = collections.deque(), 0
    for position in range(len(live)):
        while pending and (live[position] + held > limit or any(swap[2] == position for swap in pending)):
            swap = pending.popleft()
            held -= graph.block_bytes(swap[0])
            done[swap] = position
            copies.waits.setdefault(position, []).append(swap[0])
        live[position] += held
        for swap in leaving.get(position, ()):
            pending.append(swap)
            held += graph.block_bytes(swap[0])
    return done


def _begin(plan, live, limit, done, told, copies):
    graph = plan.graph
    starts = [0, *itertools.accumulate(graph.ops[i].cost for i in plan.schedule)]
    link_is_free = starts[-1]
    begins = []
    for swap in sorted(plan.swaps, key=lambda swap: swap[2], reverse=True):
        storage, _, position = swap
        bytes_, first = graph.block_bytes(storage), done[swap]
        latest = min(starts[position], link_is_free) - graph.page_in_cost(storage)

        def room(begin, end, bytes_=bytes_):
            return all(live[p] + bytes_ <= limit for p in range(begin, end))

        end = position
        while position > first and starts[position] > latest and room(position - 1, position):
            position -= 1
        places = told[storage]
        place = places[max(bisect.bisect_right(places, position) - 1, 0)] if places else position
        if first <= place < position and room(place, position):
            position = place
        for p in range(position, end):
            live[p] += bytes_
        link_is_free = min(link_is_free, starts[position])
        begins.append((position, storage))
    for position, storage in reversed(begins):
        copies.begins.setdefault(position, []).append(storage)
