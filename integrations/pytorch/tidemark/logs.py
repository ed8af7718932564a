"""What the package does, in its log: logger "tidemark" and those below it, one for each module.

INFO: what was captured and planned, where a session begins and ends, other plans that it takes up. WARNING:
what is not as asked for. Departures from a plan are Python warnings, as they are the loop's. Nothing is printed.
"""

import logging

from .sizes import format_bytes

capturing = logging.getLogger("tidemark.capturing")
planning = logging.getLogger("tidemark.planning")
running = logging.getLogger("tidemark.running")
fitting = logging.getLogger("tidemark.fitting")


def captured(graph, seconds):
    capturing.info(
        "captured %s in %.1f s: %d operations, %d storages; it peaks at %s with everything kept",
        *(graph.name, seconds, len(graph.ops), len(graph.storages), format_bytes(graph.keep_all_peak_bytes())),
    )


def recorded(graph):
    capturing.info(
        "recorded a step of %s: %d operations, %d storages; it peaks at %s with everything kept",
        *(graph.name, len(graph.ops), len(graph.storages), format_bytes(graph.keep_all_peak_bytes())),
    )


def planned(plan, seconds):
    planning.info("planned %s in %.1f s: %s", plan.graph.name, seconds, plan.summary())


def infeasible(error, seconds):
    planning.info("planned for %.1f s without success: %s", seconds, error)


def began(session):
    running.info("session begins: %s", session.plan.summary())


def ended(session, done, peak_bytes):
    """`done`: Counters. `peak_bytes`: measured; None where Tidemark does not serve the device."""
    peak = "not measured" if peak_bytes is None else f"{format_bytes(peak_bytes)} measured"
    running.info(
        "session ends: %d operations recomputed, %d storages swapped, %d departures; peak %s, %s predicted",
        *(done.recomputed, done.swapped, done.off_plan, peak, format_bytes(session.plan.peak_bytes)),
    )


def replanned(plan, is_path):
    what = "another path" if is_path else "larger loads"
    running.info("a plan for %s is followed from here on: %s", what, plan.summary())


def reported(session):
    """Behind a training that a callback has planned: only the callback may hold the session."""
    running.info("predicted against measured:\n%s", session.report())
