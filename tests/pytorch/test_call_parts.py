"""A call that releases its arguments as it goes, as parts: what each holds, asks for and leaves to later ones."""

import random

from tidemark.call_parts import parts_of_call
from tidemark.kernel_requests import KernelRequest, requests_of
from tidemark.sizes import block_bytes

KIB = 1 << 10


def test_a_part_ends_where_memory_is_asked_for_behind_an_argument():
    events = [(10, KIB), (1, 0), (2, 0), (20, 2 * KIB), (30, 3 * KIB), (10, 0), (20, 0), (3, 0)]
    first, second = parts_of_call(events, [30], {1: "a", 2: "b", 3: "c"}, "cpu")
    assert first.releases == ["a", "b"] and second.releases == ["c"]
    assert first.crossing == [(KIB, 1)] and first.requests == [KernelRequest(0, KIB)]  # freed in the second
    assert second.returned == [0] and second.crossing == []
    assert second.requests == [KernelRequest(None, 2 * KIB, 0), KernelRequest(0, 3 * KIB)]
    assert (first.room, second.room) == (0, block_bytes(2 * KIB, "cpu"))


def random_events(draw):
    """Events of a call with arguments at 1, 2, ..., the bytes in use behind each, and the addresses that it returns."""
    held = {address: f"argument {address}" for address in range(1, draw.randint(2, 6))}
    mine, arguments, events, used = {}, set(held), [], []
    fresh = 100
    for _ in range(40):
        kind = draw.random()
        if kind < 0.5 or not (mine or arguments):
            mine[fresh] = draw.randint(1, 8) * KIB
            events.append((fresh, mine[fresh]))
            fresh += 1
        elif kind < 0.8 and mine:
            address = draw.choice(sorted(mine))
            del mine[address]
            events.append((address, 0))
        elif arguments:
            address = draw.choice(sorted(arguments))
            arguments.discard(address)
            events.append((address, 0))
        else:
            continue
        used.append((sum(block_bytes(b, "cpu") for b in mine.values()), frozenset(arguments)))
    return held, events, used, sorted(mine)


def test_parts_have_room_for_all_that_the_call_holds():
    for seed in range(500):
        check_parts(seed)


def check_parts(seed):
    held, events, used, returned = random_events(random.Random(seed))
    parts = parts_of_call(events, returned, held, "cpu")
    asked = [bytes_ for _, bytes_ in events if bytes_]
    assert [request.bytes for part in parts for request in part.requests] == asked
    assert sorted(row for part in parts for row in part.returned) == list(range(len(returned)))

    gone = {name: n for n, part in enumerate(parts) for name in part.releases}
    made, at, in_parts = [], 0, []
    for n, part in enumerate(parts):  # what a plan takes a part to have, beside its arguments
        by_output = {r.output: block_bytes(r.bytes, "cpu") for r in part.requests if r.output is not None}
        made += [(n, len(parts), by_output[k]) for k in range(len(part.returned))]
        made += [(n, last, block_bytes(b, "cpu")) for b, last in part.crossing]
        in_parts.append(part.room + sum(b for first, last, b in made if first <= n <= last))
    for (_, bytes_), (bytes_used, arguments) in zip(events, used, strict=True):
        at += bytes_ > 0
        n, count = 0, len(parts[0].requests)
        while at > count:
            n += 1
            count += len(parts[n].requests)
        assert bytes_used <= in_parts[n]
        assert {held[a] for a in arguments} <= {name for name in held.values() if gone.get(name, n) >= n}


def test_a_call_that_releases_of_nothing_is_one_part():
    for seed in range(100):
        _, events, _, returned = random_events(random.Random(seed))
        (part,) = parts_of_call(events, returned, {}, "cpu")
        requests, room = requests_of(events, returned, "cpu")
        assert part.room == room
        assert [(r.bytes, r.offset) for r in part.requests] == [(r.bytes, r.offset) for r in requests]
