"""Tidemark in PyTorch: capture a training step, plan it, run it within a memory budget.

graph = tidemark.capture(model, inputs, loss_fn, optimizer=optimizer)
plan = tidemark.plan(graph, budget="24GiB")
with tidemark.session(plan):
    ...  # the training loop

tidemark.fit() does all three in one call.
"""

import torch

from .library import torch_built_for
from .requirements import check_torch

check_torch(torch.__version__, torch.compiled_with_cxx11_abi(), torch_built_for())

# ruff: noqa: E402  what follows would fail in another PyTorch, with another message
from . import allocator
from .bounds import Routed, Rows
from .captured_pieces import CapturedFigures, CapturedPieces, PieceTensor
from .capturing import capture
from .chunking import DroplessExperts, InChunks, aside, chunks_for, leave_plan
from .cost import DeviceRates
from .device_memory import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_pools,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .device_samples import device_sample, host_peak
from .errors import CaptureError, InfeasibleError, SessionError, SharedLoaderError, TidemarkError
from .execution_trace import import_execution_trace
from .fitting import fit
from .graph import Graph, HostLink
from .layer_names import layer_names
from .memory_report import Report
from .micro_batches import micro_batch
from .part_states import PartStates
from .picture_page import Picture
from .picturing import picture
from .planning import Plan, plan
from .pools import drop_pool, pool, release, restore
from .recording import record
from .process_binding import Binding, bind_process
from .running import report, session
from .shared_loader import SharedLoader
from .step_levels import MeasuredStep, measured_step

__all__ = [
    "Binding",
    "CaptureError",
    "CapturedFigures",
    "CapturedPieces",
    "DeviceRates",
    "DroplessExperts",
    "Graph",
    "HostLink",
    "InChunks",
    "InfeasibleError",
    "MeasuredStep",
    "PartStates",
    "Picture",
    "PieceTensor",
    "Plan",
    "Report",
    "Routed",
    "Rows",
    "SessionError",
    "SharedLoader",
    "SharedLoaderError",
    "TidemarkError",
    "allocator",
    "aside",
    "bind_process",
    "capture",
    "chunks_for",
    "device_sample",
    "drop_pool",
    "fit",
    "host_peak",
    "import_execution_trace",
    "layer_names",
    "leave_plan",
    "max_memory_allocated",
    "max_memory_reserved",
    "measured_step",
    "memory_allocated",
    "memory_pools",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "micro_batch",
    "picture",
    "plan",
    "record",
    "pool",
    "release",
    "report",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "restore",
    "session",
]
