"""Sizes as people write them."""

import numbers
import re

from .errors import TidemarkError

_UNITS = {"B": 1}
for _n, _letter in enumerate("KMGT", start=1):
    _UNITS |= {f"{_letter}B": 1000**_n, f"{_letter}iB": 1024**_n}


def parse_bytes(size):
    """Bytes of "512MiB", "60.97GiB", "4096B", or of a number of bytes."""
    if isinstance(size, numbers.Integral) and not isinstance(size, bool) and size > 0:
        return _within_the_format(int(size), size)
    found = re.fullmatch(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?([KMGT]i?B|B)", size) if isinstance(size, str) else None
    if not found or found[1].count(".") and found[2] == "B":
        raise TidemarkError(
            f"{said(size)} is not a size; right would be a number of bytes, or for instance '512MiB' or '8GB'"
        )
    whole = int(float(found[1]) * _UNITS[found[2]])
    if whole <= 0:
        raise TidemarkError(f"{size!r} is not a size above zero")
    return _within_the_format(whole, size)


def said(value):
    """As it was given, as far as it can be shown."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "this number"
    return text if len(text) <= 80 else text[:77] + "..."


def _within_the_format(bytes_, size):
    if bytes_ > 2**60:
        raise TidemarkError(f"{said(size)} is not a size of 2^60 bytes at most")
    return bytes_


_PADS = {"npu": 32}  # behind every block: torch_npu adds it to a request before it rounds


def block_bytes(bytes_, device="cpu", unit_bytes=512):
    """What a block of so many bytes takes of a device."""
    padded = bytes_ + _PADS.get(device, 0) if bytes_ else 0
    return -(-padded // unit_bytes) * unit_bytes


def format_bytes(bytes_):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if bytes_ >= scale:
            return f"{bytes_ / scale:.2f} {unit}"
    return f"{bytes_} B"


def format_up(bytes_):
    """The smallest size of two decimals that is no less."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if bytes_ >= scale:
            return f"{-(-100 * bytes_ // scale) / 100:.2f} {unit}"
    return f"{bytes_} B"
