"""The device that a bench in PyTorch runs on: its allocator, its clock, and how much of a model fills it."""

import os
import time

import tidemark
import torch
from tidemark import allocator


class BenchDevice:
    """`kind`: "cpu" or "cuda". Tidemark's allocator serves it from here on: CUDA must not have been used before."""

    def __init__(self, kind):
        self.kind = kind
        if kind == "cpu":
            torch.set_num_threads(1)
            allocator.install()
            return
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it is first used
        torch.cuda.memory.change_current_allocator(allocator.cuda())
        torch.use_deterministic_algorithms(True)  # losses are compared
        torch.utils.deterministic.fill_uninitialized_memory = False  # is work that no training has
        torch.set_default_device(kind)

    @property
    def is_gpu(self):
        return self.kind != "cpu"

    def now(self):
        """Seconds, of what is done by then: of the process and its threads on a CPU, which others may share."""
        if not self.is_gpu:
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def allocated_bytes(self):
        return tidemark.memory_allocated(self.kind)

    def peak_bytes(self):
        return tidemark.max_memory_allocated(self.kind)

    def reset_peak(self):
        tidemark.reset_peak_memory_stats(self.kind)

    def empty_cache(self):
        """Gives back what no block is in, so that the next way finds the device as it was."""
        torch.cuda.empty_cache() if self.is_gpu else allocator.empty_cache()

    def memory_bytes(self):
        """What is free by the driver, and what this process has of it; on a CPU nothing is to be filled: None."""
        if not self.is_gpu:
            return None
        return torch.cuda.mem_get_info()[0] + tidemark.memory_reserved(self.kind)

    def __str__(self):
        if not self.is_gpu:
            return "CPU: no GPU took part"
        free, whole = torch.cuda.mem_get_info()
        taken = tidemark.max_memory_reserved(self.kind)
        name = torch.cuda.get_device_name()
        return f"{name}, {whole / 2**30:.1f} GiB: {free / 2**30:.1f} free by the driver, {taken / 2**30:.1f} taken by the allocator at most"


def rows_that_fill(memory_bytes, peaks):
    """Rows of a batch that peak at `memory_bytes` or below, at least one. `peaks`: bytes by rows, of two numbers of rows, of
    what grows as a line."""
    (few, low), (more, high) = sorted(peaks.items())
    a_row = (high - low) / (more - few)
    if a_row <= 0:
        raise ValueError(f"{more} rows peak at {high} B and {few} at {low} B; right would be more for more rows")
    return max(1, int((memory_bytes - low) // a_row) + few)
