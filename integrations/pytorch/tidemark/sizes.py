"""Sizes as people write them."""

import re

from .errors import TidemarkError

_UNITS = {"B": 1}
for _n, _letter in enumerate("KMGT", start=1):
    _UNITS |= {f"{_letter}B": 1000**_n, f"{_letter}iB": 1024**_n}


def parse_bytes(size):
    """Bytes of "512MiB", "60.97GiB", "4096B", or of a number of bytes."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return _within_the_format(size, size)
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)", size) if isinstance(size, str) else None
    if not found or found[1].count(".") and found[2] == "B":
        raise TidemarkError(
            f"{size!r} is not a size; right would be a number of bytes, or for instance '512MiB' or '8GB'"
        )
    whole = int(float(found[1]) * _UNITS[found[2]])
    if whole <= 0:
        raise TidemarkError(f"{size!r} is not a size above zero")
    return _within_the_format(whole, size)


def _within_the_format(bytes_, size):
    if bytes_ >= 2**63:
        raise TidemarkError(f"{size!r} is not a size below 2^63 bytes")
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
