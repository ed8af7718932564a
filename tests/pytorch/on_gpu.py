"""Where tests of a GPU run: on it, from Tidemark's memory. With TIDEMARK_STAND_IN=1 and no GPU, those that can run on the CPU
do, as a dry run of the tests themselves; nothing of it is said of a GPU."""

import functools
import os

import pytest
import tidemark
import torch


def kind_or_skip():
    """The type of device of a module's tests; the module is skipped where there is none. The first thing that it does."""
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it is first used
        return "cuda"
    if os.environ.get("TIDEMARK_STAND_IN") != "1":
        pytest.skip("no GPU", allow_module_level=True)
    return "cpu"


@functools.cache
def serve_gpu():
    """Once in a process: CUDA must not have been used before."""
    torch.cuda.memory.change_current_allocator(tidemark.allocator.cuda())


def reproducibly(kind):
    """For a fixture: kernels that give the same bits every time, and tensors made on the device."""
    if kind == "cuda":
        serve_gpu()
    torch.use_deterministic_algorithms(True)
    with torch.device(kind):
        yield
    torch.use_deterministic_algorithms(False)


def synchronize(kind):
    if kind == "cuda":
        torch.cuda.synchronize()
