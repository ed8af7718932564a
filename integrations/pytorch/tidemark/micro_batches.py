"""Which micro-batch a forward belongs to, where the loop says so itself."""

import operator

from . import running
from .errors import SessionError


class micro_batch:
    """Says which micro-batch, and which chunk of the model, the forwards inside belong to, for loops that do not run
    them in order:

    with tidemark.micro_batch(i, chunk): loss = model(...)
    """

    def __init__(self, index, chunk=0):
        self._index = _number(index, "micro-batch")
        self._chunk = _number(chunk, "chunk")

    def __enter__(self):
        self._session = running.active()
        if self._session is not None:
            chunks = self._session.plan.graph.chunks
            if not 0 <= self._chunk < chunks:
                raise SessionError(f"chunk {self._chunk} of a step captured with {chunks}")
            self._before = self._session.marked
            self._session.marked = self._index * chunks + self._chunk

    def __exit__(self, *_):
        if self._session is not None:
            self._session.marked = self._before


def _number(value, what):
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise SessionError(f"{value!r} is no number of a {what}; they are counted from 0")
    return number
