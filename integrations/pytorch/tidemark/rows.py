"""Dataclasses as lists of lists, field by field in order, and back by the types of the fields."""

import dataclasses
import functools
import types
import typing


def to_rows(value):
    """What json can write of dataclasses, lists, tuples, numbers, texts and None."""
    if dataclasses.is_dataclass(value):
        return [to_rows(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, (list, tuple)):
        return [to_rows(v) for v in value]
    return value


def from_rows(kind, rows):
    """The value of type `kind`. Raises TypeError or ValueError where the rows are of another."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # of one type and None
        return None if rows is None else from_rows(next(a for a in arguments if a is not types.NoneType), rows)
    if origin in (list, tuple):
        return origin(from_rows(arguments[0], row) for row in _list(rows))
    if dataclasses.is_dataclass(kind):
        return kind(*(from_rows(t, row) for t, row in zip(_field_types(kind), _list(rows), strict=True)))
    if not isinstance(rows, (int, float) if kind is float else kind):
        raise TypeError(f"{rows!r} where a value of type {kind.__name__} is expected")
    return rows


def _list(rows):
    if not isinstance(rows, list):
        raise TypeError(f"{rows!r} where a list is expected")
    return rows


@functools.cache
def _field_types(kind):
    hints = typing.get_type_hints(kind)
    return [hints[field.name] for field in dataclasses.fields(kind)]
