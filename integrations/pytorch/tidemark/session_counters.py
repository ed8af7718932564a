"""What a session has done, in numbers."""

import dataclasses

# Said of now, or a largest: of several plans' reports that of the latest counts.
_OF_THE_LATEST = {
    "copy_streams",
    "pinned_bytes",
    "pinned_peak_bytes",
    "pinned_shortfalls",
    "steps_open",
    "planned_bytes",
}


@dataclasses.dataclass(frozen=True)
class Counters:
    """`recomputed`: operations; `swapped`: copies to host memory; `off_plan`: kept, restored or recomputed where the
    plan says otherwise; `copies`: all that the session's streams have carried, and what was waited
    for."""

    recomputed: int = 0
    swapped: int = 0
    off_plan: int = 0
    micro_batches: int = 0
    copies: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, seen, reports):
        """`reports`: of the plans that were followed, in order."""
        if not reports:
            return cls(off_plan=seen.off_plan, micro_batches=seen.micro_batches)
        report = _joined(reports)
        return cls(
            report["rebuilt"],
            report["copies_out"],
            seen.off_plan + report["departures"],
            seen.micro_batches,
            report,
        )


def _joined(reports):
    joined = dict(reports[-1])
    for key in joined.keys() - _OF_THE_LATEST:
        joined[key] = sum(report[key] for report in reports)
    return joined
