"""Predicted against measured memory of a session."""

import dataclasses

from .sizes import format_bytes

_ORDER = ("parameter", "optimizer_state", "gradient", "input", "activation", "temporary", "workspace")

_PHASES = {
    "standing": "parameters, inputs, optimizer",
    "forward": "made in forward, or again",
    "backward": "gradients and temporaries",
}

_SHORTFALLS = {  # TIDEMARK_PINNED_*
    1: "the machine gave less than asked for",
    2: "not registered with the device: copies block, and hide nothing",
    4: "not on the device's NUMA node: copies may run at half speed",
    16: "not locked: the system may swap it out",
}


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
    predicted_by_phase: dict  # bytes at the peak by when they were allocated: standing, forward, backward
    measured_by_phase: dict | None  # None too where a plan that keeps everything has no session below it
    recomputed: int  # operations recomputed, so far
    swapped: int  # storages copied out, so far
    off_plan: int  # departures from the plan, so far
    copies: dict  # tidemark_session_report, so far; empty where there is no session
    is_cpu: bool  # waits for copies are seen, as the thread that calls waits
    load_limits: list  # LoadLimit of each load, predicted
    rungs: dict  # what was done for loads above the planned ones, so far: room, spill, chunks
    replans: int = 0  # plans for larger loads that were taken up, so far
    paths: int = 0  # plans for other paths, or larger batches, that were taken up, so far
    reserve_bytes: int = 0  # of the budget, left to what is beside the step, and measured with it
    gaps_bytes: int = 0  # of the budget, Graph.gaps_bytes

    @staticmethod
    def of(plan, model, measured, counters, limits, rungs, replans=0, paths=0):
        predicted, by_phase, peak_at = at_peak(plan)
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
            by_phase,
            None if measured is None else _joined(measured["phases"]),
            counters.recomputed,
            counters.swapped,
            counters.off_plan,
            counters.copies,
            plan.graph.device == "cpu",
            limits,
            rungs,
            replans,
            paths,
            plan.reserve_bytes,
            plan.graph.gaps_bytes,
        )

    @property
    def hidden_share(self):
        """Of the bytes that were copied, those that nothing waited for: measured. None: nothing was copied, or it is not
        seen, as on an accelerator, whose streams wait by themselves."""
        copied = self.copies.get("copied_out_bytes", 0) + self.copies.get("copied_in_bytes", 0)
        return 1 - self.copies["late_bytes"] / copied if self.is_cpu and copied else None

    def _copies_line(self):
        of = self.copies
        pinned = f"pinned host memory {format_bytes(of['pinned_peak_bytes'])} at most"
        hidden = "what they hide is not measured on an accelerator"
        if self.hidden_share is not None:
            waited = of["waited_ns"] / 1e6
            hidden = f"{100 * self.hidden_share:.1f} % of the bytes hidden, {waited:.1f} ms waited (measured)"
        return (
            f"copies      {_copied(of, 'out')} and {_copied(of, 'in')} in {of['pieces']} pieces on "
            f"{of['copy_streams']} streams of their own; {pinned}; {hidden}"
        )

    def _rungs_line(self):
        freed = self.copies.get("spilled_bytes", 0) + self.copies.get("dropped_bytes", 0)
        return (
            f"room {self.rungs['room']} requests; spill {self.rungs['spill']} storages ({format_bytes(freed)}); "
            f"chunks {self.rungs['chunks']} calls of layers"
        )

    def _planned_loads(self):
        return ", ".join(f"{limit.load.planned} rows of one part of {limit.load.pattern}" for limit in self.load_limits)

    def _shortfall_lines(self):
        """Of the pinned memory: what the machine could not give as asked."""
        flags = self.copies.get("pinned_shortfalls", 0)
        return [f"            pinned host memory: {text}" for flag, text in _SHORTFALLS.items() if flags & flag]

    def __str__(self):
        lines = [f"budget      {format_bytes(self.budget_bytes) if self.budget_bytes else 'none'}"]
        lines.append(f"predicted   {format_bytes(self.predicted_peak_bytes)} while {self.peak_at} runs")
        for role in _ORDER:
            if self.predicted.get(role):
                lines.append(f"            {format_bytes(self.predicted[role]):>12}  {role.replace('_', ' ')}")
        if self.reserve_bytes:
            lines.append(f"            {format_bytes(self.reserve_bytes):>12}  left to what is beside the step")
        if self.gaps_bytes:
            lines.append(f"            {format_bytes(self.gaps_bytes):>12}  left free between what stands there over steps")
        if self.measured_peak_bytes is None:
            how = "install()" if self.is_cpu else "cuda() or .npu()"
            lines.append(f"measured    not here: tidemark.allocator.{how}")
        else:
            share = 100 * self.measured_peak_bytes / (self.predicted_peak_bytes + self.reserve_bytes)
            both = "predicted and left" if self.reserve_bytes else "predicted"
            lines.append(
                f"measured    {format_bytes(self.measured_peak_bytes)} in blocks ({share:.1f} % of {both}), "
                f"{format_bytes(self.measured_reserved_bytes)} taken from the machine"
            )
        for phase, what in _PHASES.items() if self.measured_by_phase else ():
            sides = [format_bytes(side[phase]) for side in (self.measured_by_phase, self.predicted_by_phase)]
            lines.append(f"            {sides[0]:>12}  {what}, at the peak (predicted {sides[1]})")
        lines.append(f"            {format_bytes(self.measured_parameter_bytes):>12}  parameter, now")
        lines.append(f"            {format_bytes(self.measured_gradient_bytes):>12}  gradient, now")
        done = f"{self.recomputed} operations recomputed, {self.swapped} storages swapped"
        lines.append(f"so far      {done}, {self.off_plan} departures")
        lines += [f"any load    up to {limit} (predicted)" for limit in self.load_limits]
        if any(self.rungs.values()):
            lines.append(f"rungs       {self._rungs_line()}")
        if self.replans:
            lines.append(f"planned     {self.replans} time(s) again for larger loads: now {self._planned_loads()}")
        if self.paths:
            lines.append(f"planned     {self.paths} time(s) again for another path, or larger batches")
        if self.copies.get("pieces"):
            lines += [self._copies_line(), *self._shortfall_lines()]
        if self.copies.get("planned_bytes"):
            planned, elsewhere = self.copies["requests_planned"], self.copies["requests_unplanned"]
            others = self.copies.get("requests_other_threads", 0)
            beside = f", {others} of other threads left to the allocator" if others else ""
            lines.append(f"requests    {planned} served where planned, {elsewhere} elsewhere{beside}")
        return "\n".join(lines)


def _copied(copies, way):
    return f"{copies[f'copies_{way}']} {way} ({format_bytes(copies[f'copied_{way}_bytes'])})"


def at_peak(plan):
    """Where the plan peaks: bytes by role, bytes by phase of allocation, and the operation that runs there."""
    graph, captured = plan.graph, plan.answer["captured"]
    op = graph.ops[plan.schedule[captured["live_peak_position"]]]
    workspace = graph.rounded(op.transient_bytes)
    made_in = {s: op.phase for op in reversed(graph.ops) for s in op.writes}
    roles, phases = {"workspace": workspace, "temporary": graph.beside_plan_bytes}, dict.fromkeys(_PHASES, 0)
    phases[_phase(op.phase)] += workspace
    phases["backward"] += graph.beside_plan_bytes
    for s in captured["live_peak_storages"]:
        if s >= len(graph.storages):  # the workspace
            continue
        storage, bytes_ = graph.storages[s], graph.block_bytes(s)
        roles[storage.role] = roles.get(storage.role, 0) + bytes_
        phases["standing" if storage.resident else _phase(made_in.get(s))] += bytes_
    return roles, phases, f"{op.name} ({op.phase}{' of ' + op.module if op.module else ''})"


def _phase(name):
    return name if name in _PHASES else "standing"


def _joined(measured):
    """What stands from step to step may be there before the session or come with the optimizer's first step."""
    if measured is None:
        return None
    standing = measured["none"] + measured["optimizer"]
    return {"standing": standing, "forward": measured["forward"], "backward": measured["backward"]}


def _storage_bytes(graph, tensors):
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(graph.rounded(b) for b in storages.values())
