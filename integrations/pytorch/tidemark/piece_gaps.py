"""Which idle storages of a step of captured graphs go to host memory, so that the pieces fit a budget.

A gap is a stretch of pieces between two touches of a storage; of one that is in host memory between steps, also the
pieces before its first and behind its last touch. Using a gap frees the storage's memory meanwhile and costs a copy in,
and a copy out where the host does not have the content yet. The fewest bytes are copied that this finds to fit: greedy
from both ends (gaps added by bytes copied for bytes freed, and gaps given up from all of them), the better of the two. Of
steps of up to 9 gaps it copies as few bytes as an exhaustive search finds in 9 of 10 and more (test_captured_pieces.py).
What is left of the budget then goes into room for the copies: a gap ends a piece earlier, or begins a piece later, so
that its copy has a piece to run behind.

Pure: values in, values out. Memory and copies are those that swap/fixed_layout.h lays out (test_captured_pieces.py holds
them equal). Cost: O(gaps^2 + gaps x (storages + pieces)).
"""

import dataclasses
import itertools
from typing import NamedTuple

from .errors import InfeasibleError
from .sizes import format_bytes

NOWHERE, ON_DEVICE, IN_HOST = "nowhere", "device", "host"  # where a content is between steps


class Span(NamedTuple):
    """Pieces first to last, both included."""

    first: int
    last: int


class Touch(NamedTuple):
    piece: int
    reads: bool
    writes: bool


@dataclasses.dataclass(frozen=True)
class Units:
    """What a device asks of addresses."""

    granule_bytes: int
    alignment_bytes: int = 1
    tail_pad_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class PieceStorage:
    bytes: int
    between: str
    touches: tuple  # of Touch, by piece, one a piece
    away: tuple | None = None  # of Span, by piece; None: to be chosen


class StepMemory(NamedTuple):
    piece_bytes: list  # device memory that each piece needs, in whole granules
    copied_bytes: int  # a step, both ways

    @property
    def peak_bytes(self):
        return max(self.piece_bytes)


def spans_with_memory(storage, away, pieces):
    whole = storage.between != NOWHERE
    first = 0 if whole else storage.touches[0].piece
    last = pieces - 1 if whole else storage.touches[-1].piece
    spans = []
    for gap in away:
        if gap.first > first:
            spans.append(Span(first, gap.first - 1))
        first = gap.last + 1
    if first <= last:
        spans.append(Span(first, last))
    return tuple(spans)


def _copies_of(between, spans, written):
    """How often what has memory in `spans` is copied in a step; `written`: by span."""
    copies = 0
    for i in range(len(spans)):
        copied_in = between == IN_HOST or i > 0
        leaves_content = between == IN_HOST or i + 1 < len(spans)
        copies += copied_in + (leaves_content and (written[i] or not copied_in))
    return copies


def _written_in(storage, spans):
    return [any(t.writes and span.first <= t.piece <= span.last for t in storage.touches) for span in spans]


def _round_up(value, unit):
    return -(-value // unit) * unit


def step_memory(pieces, storages, away, units):
    """What the step takes with these gaps, one list a storage."""
    ranges = {}  # those of one key leave and come back together: [bytes, written by span]
    for storage, gaps in zip(storages, away, strict=True):
        spans = spans_with_memory(storage, gaps, pieces)
        held = ranges.setdefault((storage.between, spans), [0, [False] * len(spans)])
        pad = units.tail_pad_bytes if held[0] else 0
        held[0] = _round_up(held[0] + pad, units.alignment_bytes) + storage.bytes
        held[1] = [a or b for a, b in zip(held[1], _written_in(storage, spans), strict=True)]
    change, copied = [0] * (pieces + 1), 0
    for (between, spans), (bytes_, written) in ranges.items():
        memory = _round_up(bytes_ + units.tail_pad_bytes, units.granule_bytes)
        for span in spans:
            change[span.first] += memory
            change[span.last + 1] -= memory
        copied += bytes_ * _copies_of(between, spans, written)
    piece_bytes, now = [], 0
    for piece in range(pieces):
        now += change[piece]
        piece_bytes.append(now)
    return StepMemory(piece_bytes, copied)


def idle_spans(storage, pieces):
    """Each gap that the storage may be away in, whole."""
    at = [touch.piece for touch in storage.touches]
    ends = [-1, *at, pieces] if storage.between == IN_HOST else at
    return [Span(a + 1, b - 1) for a, b in itertools.pairwise(ends) if b - a > 1]


class _Choice:
    """Gaps of a step that are used: by number, in the order of storages and pieces."""

    def __init__(self, pieces, storages, units):
        self._pieces, self._storages, self._units = pieces, storages, units
        free = [(s, storage) for s, storage in enumerate(storages) if storage.away is None]
        self.gaps = [(s, span) for s, storage in free for span in idle_spans(storage, pieces)]

    def away(self, chosen):
        lists = [list(storage.away or ()) for storage in self._storages]
        for number in sorted(chosen):
            storage, _ = self.gaps[number]
            lists[storage].append(chosen[number])
        return [tuple(gaps) for gaps in lists]

    def memory(self, chosen):
        return step_memory(self._pieces, self._storages, self.away(chosen), self._units)

    def whole(self, numbers):
        return {number: self.gaps[number][1] for number in numbers}

    def added_bytes(self, number, chosen):
        """That the storage by itself is copied more often with this gap."""
        s, span = self.gaps[number]
        storage = self._storages[s]
        used = [chosen[n] for n in chosen if self.gaps[n][0] == s and n != number]

        def copies(gaps):
            spans = spans_with_memory(storage, sorted(gaps), self._pieces)
            return _copies_of(storage.between, spans, _written_in(storage, spans))

        return storage.bytes * (copies([*used, span]) - copies(used))

    def freed_bytes(self, number, is_over):
        """By this gap in pieces that are over the budget; `is_over`: how many of the pieces before each are."""
        s, span = self.gaps[number]
        return self._storages[s].bytes * (is_over[span.last + 1] - is_over[span.first])

    def added_up(self, budget_bytes):
        """From none: the gap that copies the fewest bytes for those it frees, until it fits; as far as that goes."""
        chosen = {}
        while True:
            is_over = [0]
            for bytes_ in self.memory(chosen).piece_bytes:
                is_over.append(is_over[-1] + (bytes_ > budget_bytes))
            rest = [n for n in range(len(self.gaps)) if n not in chosen and self.freed_bytes(n, is_over)]
            if not rest:
                return chosen
            best = min(rest, key=lambda n: (self.added_bytes(n, chosen) / self.freed_bytes(n, is_over), n))
            chosen[best] = self.gaps[best][1]

    def given_up(self, chosen, most_bytes):
        """Without the gaps that can be spared within so much memory, the dearest first."""
        chosen = dict(chosen)
        for number in sorted(chosen, key=lambda n: (-self.added_bytes(n, chosen), n)):
            rest = {n: span for n, span in chosen.items() if n != number}
            if self.memory(rest).peak_bytes <= most_bytes:
                chosen = rest
        return chosen

    def least(self):
        """The gaps that leave the least memory that this finds: all, but for those that part storages of one granule."""
        chosen = self.whole(range(len(self.gaps)))
        for number in list(chosen):
            rest = {n: span for n, span in chosen.items() if n != number}
            if self.memory(rest).peak_bytes < self.memory(chosen).peak_bytes:
                chosen = rest
        return chosen

    def with_room_for_copies(self, chosen, budget_bytes):
        """A piece with memory behind the last touch, and one before the next, where there is room."""
        chosen = dict(chosen)
        copied = self.memory(chosen).copied_bytes
        for number in sorted(chosen):
            for after, before in ((1, 0), (0, 1)):
                whole, now = self.gaps[number][1], chosen[number]
                after = after if whole.first > 0 else 0
                before = before if whole.last < self._pieces - 1 else 0
                shorter = Span(now.first + after, now.last - before)
                if shorter == now or shorter.first > shorter.last:
                    continue
                memory = self.memory({**chosen, number: shorter})
                if memory.peak_bytes <= budget_bytes and memory.copied_bytes <= copied:
                    chosen[number] = shorter
        return chosen


def choose_gaps(pieces, storages, units, budget_bytes):
    """Gaps of all storages, a tuple of Spans each, with which no piece needs more than the budget; those that have `away`
    keep it. Raises InfeasibleError with the least budget that this would do with."""
    choice = _Choice(pieces, storages, units)
    least = choice.least()
    least_bytes = choice.memory(least).peak_bytes
    if least_bytes > budget_bytes:
        raise InfeasibleError(
            f"the fullest piece needs {format_bytes(least_bytes)} ({least_bytes} bytes) with all idle storages away, more "
            f"than the budget of {format_bytes(budget_bytes)} ({budget_bytes} bytes)",
            smallest_bytes=least_bytes,
        )
    answers = [choice.given_up(start, budget_bytes) for start in (choice.added_up(budget_bytes), least)]
    fitting = [a for a in answers if choice.memory(a).peak_bytes <= budget_bytes]
    best = min(fitting, key=lambda a: choice.memory(a).copied_bytes)
    return choice.away(choice.with_room_for_copies(best, budget_bytes))
