"""Tidemark in PyTorch: capture a training step, plan it, run it within a memory budget."""

from .bounds import Routed, Rows
from .capture import capture
from .cost import DeviceRates
from .errors import CaptureError, InfeasibleError, SessionError, TidemarkError
from .graph import Graph
from .plan import Plan
from .report import Report
from .session import report, session

__all__ = [
    "CaptureError",
    "DeviceRates",
    "Graph",
    "InfeasibleError",
    "Plan",
    "Report",
    "Routed",
    "Rows",
    "SessionError",
    "TidemarkError",
    "capture",
    "report",
    "session",
]
