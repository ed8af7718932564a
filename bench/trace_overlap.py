"""How much of the time of copies a Chrome trace of torch.profiler shows beside kernels. Pure functions of its events."""

import dataclasses

_COPIES, _KERNELS = ("gpu_memcpy",), ("kernel",)
_BETWEEN_MEMORIES = ("HtoD", "DtoH")  # a copy within the device has nothing to hide from


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Microseconds of copies between host and device, and of those the ones at which a kernel ran as well."""

    copies_us: float
    beside_kernels_us: float

    @property
    def share(self):
        return self.beside_kernels_us / self.copies_us if self.copies_us else 0.0


def overlap_of(events):
    """`events`: of a trace's "traceEvents". Copies at once count once, as kernels do."""
    copies = merged(_spans(e for e in events if e.get("cat") in _COPIES and any(way in e["name"] for way in _BETWEEN_MEMORIES)))
    kernels = merged(_spans(e for e in events if e.get("cat") in _KERNELS))
    return Overlap(sum(end - begin for begin, end in copies), common_us(copies, kernels))


def _spans(events):
    return [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e.get("ph") == "X"]


def merged(spans):
    """The same time in spans that do not meet, in order."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((begin, end))
    return out


def common_us(a, b):
    """Of spans that are merged: the time that lies in both."""
    common, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        common += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return common
