"""Workspaces of a kernel have places: beside what is there with them, or within outputs that come later."""

import random

from tidemark.graph import Graph, Op, Request, Storage
from tidemark.kernel_requests import KernelRequest, lives_of, requests_of
from tidemark.op_requests import requests_of_call, settle_workspaces
from tidemark.sizes import block_bytes

KIB = 1 << 10


def test_a_workspace_lies_within_the_output_that_is_asked_for_behind_it():
    events = [(10, 2 * KIB), (10, 0), (20, 4 * KIB), (30, KIB), (30, 0)]
    requests, room = requests_of(events, [20], "cpu")
    assert requests == [KernelRequest(None, 2 * KIB, 0, within=0), KernelRequest(0, 4 * KIB), KernelRequest(None, KIB, 0)]
    assert room == KIB


def test_one_that_is_larger_or_longer_there_does_not():
    for events in [[(10, 8 * KIB), (10, 0), (20, 4 * KIB)], [(10, 2 * KIB), (20, 4 * KIB), (10, 0)]]:
        requests, room = requests_of(events, [20], "cpu")
        assert requests[0] == KernelRequest(None, events[0][1], 0) and room == events[0][1]


def random_events(draw):
    """Of a kernel, with the addresses of what it returns."""
    live, events, fresh = [], [], 1
    for _ in range(30):
        if live and draw.random() < 0.45:
            events.append((live.pop(draw.randrange(len(live))), 0))
        else:
            events.append((fresh, draw.choice([100, KIB, 3 * KIB, 4 * KIB, 9 * KIB])))
            live.append(fresh)
            fresh += 1
    return events, live


def places(requests, lives, room):
    """(begin, end, low, high) of each block, the outputs one behind the other above the room."""
    base, at = {}, room
    for request in requests:
        if request.output is not None:
            base[request.output], at = at, at + block_bytes(request.bytes)
    for request, life in zip(requests, lives, strict=True):
        low = base[request.output] if request.output is not None else base.get(request.within, 0) + request.offset
        high = low + block_bytes(request.bytes)
        assert high <= (room if request.output is None and request.within is None else at)
        yield life.begin, life.end, low, high


def test_no_two_that_are_there_together_share_a_byte():
    within, naive, least = 0, 0, 0
    for seed in range(500):
        events, returned = random_events(random.Random(seed))
        requests, room = requests_of(events, returned, "cpu")
        assert [request.bytes for request in requests] == [bytes_ for _, bytes_ in events if bytes_]
        placed = list(places(requests, lives_of(events), room))
        for i, (begin, end, low, high) in enumerate(placed):
            for other_begin, other_end, other_low, other_high in placed[:i]:
                together = (end is None or other_begin < end) and (other_end is None or begin < other_end)
                assert not together or high <= other_low or other_high <= low
        within += sum(request.within is not None for request in requests)
        least += room
        naive += requests_of([event for event in events if event[0] not in returned], [], "cpu")[1]
    assert within > 500 and least < 0.8 * naive


def test_none_lies_in_what_the_step_leaves_behind():
    asked = [KernelRequest(None, KIB, 512, within=row) for row in range(4)]
    storages = [Storage("a", 4 * KIB), Storage("b", 4 * KIB, until_end=True), Storage("c", 4 * KIB, "parameter")]
    requests = requests_of_call(asked, (0, 1, 2, None))
    op = Op("op", 1, [], [0, 1, 2], "forward", transient_bytes=100, requests=requests)
    settle_workspaces(Graph("step", [op], storages, [], "", "cpu", 1))
    inside, *others = op.requests
    assert inside == Request(None, KIB, 512, within=0)
    assert others == [Request(None, KIB, 512 + i * KIB) for i in range(3)] and op.transient_bytes == 512 + 3 * KIB
