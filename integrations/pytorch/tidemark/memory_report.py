"""Predicted against measured memory of a session."""

import dataclasses

from .schedule import Timeline
from .sizes import format_bytes

_ORDER = ("parameter", "optimizer_state", "gradient", "input", "activation", "temporary", "workspace")


@dataclasses.dataclass
class Report:
    """Bytes. Predicted figures are of the plan, by role at its peak; measured ones of the allocator, None where
    Tidemark's allocator does not serve the device."""

    budget_bytes: int
    predicted_peak_bytes: int
    predicted: dict  # role -> bytes at the peak
    peak_at: str  # operation that runs at the peak
    measured_peak_bytes: int | None
    measured_reserved_bytes: int | None
    measured_parameter_bytes: int
    measured_gradient_bytes: int
    recomputed: int  # operations run again, so far
    swapped: int  # storages copied out, so far
    off_plan: int  # departures from the plan, so far

    @staticmethod
    def of(plan, model, measured, counters):
        predicted, peak_at = at_peak(plan)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return Report(
            plan.budget_bytes,
            sum(predicted.values()),
            predicted,
            peak_at,
            None if measured is None else measured["allocated_peak_bytes"],
            None if measured is None else measured["reserved_peak_bytes"],
            _storage_bytes(plan.graph, model.parameters()),
            _storage_bytes(plan.graph, gradients),
            counters.recomputed,
            counters.swapped,
            counters.off_plan,
        )

    def __str__(self):
        lines = [f"budget      {format_bytes(self.budget_bytes) if self.budget_bytes else 'none'}"]
        lines.append(f"predicted   {format_bytes(self.predicted_peak_bytes)} while {self.peak_at} runs")
        for role in _ORDER:
            if self.predicted.get(role):
                lines.append(f"            {format_bytes(self.predicted[role]):>12}  {role.replace('_', ' ')}")
        if self.measured_peak_bytes is None:
            lines.append(
                "measured    not: Tidemark's allocator does not serve this device (tidemark.allocator.install)"
            )
        else:
            share = 100 * self.measured_peak_bytes / self.predicted_peak_bytes
            lines.append(
                f"measured    {format_bytes(self.measured_peak_bytes)} in blocks ({share:.1f} % of predicted), "
                f"{format_bytes(self.measured_reserved_bytes)} taken from the machine"
            )
        lines.append(f"            {format_bytes(self.measured_parameter_bytes):>12}  parameter, now")
        lines.append(f"            {format_bytes(self.measured_gradient_bytes):>12}  gradient, now")
        done = f"{self.recomputed} operations run again, {self.swapped} storages swapped"
        lines.append(f"so far      {done}, {self.off_plan} departures")
        return "\n".join(lines)


def at_peak(plan):
    """Bytes by role where the plan peaks, and the operation that runs there."""
    graph, timeline = plan.graph, Timeline(plan.graph, plan.schedule)
    live = timeline.live_bytes(plan.swaps)
    peak = max(range(len(live)), key=live.__getitem__)
    gone = {s for s, after, before in plan.swaps if after < peak < before}
    roles = {}
    for s, first, last in timeline.residencies():
        if first <= peak <= last and s not in gone:
            role = graph.storages[s].role
            roles[role] = roles.get(role, 0) + graph.rounded(graph.storages[s].bytes)
    op = graph.ops[plan.schedule[peak]]
    roles["workspace"] = graph.rounded(op.transient_bytes)
    return roles, f"{op.name} ({op.phase}{' of ' + op.module if op.module else ''})"


def _storage_bytes(graph, tensors):
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(graph.rounded(b) for b in storages.values())
