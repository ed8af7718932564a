"""torch_npu on stubs of CANN: TORCH_NPU_STUBS is the folder that scripts/check_torch_npu made. Nothing here is an NPU."""

import ctypes
import importlib.util
import os
import pathlib

import pytest

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch_npu has no CANN until what follows is loaded
import torch  # noqa: E402

STUBS = pathlib.Path(os.environ["TORCH_NPU_STUBS"])


def load(name):
    return ctypes.CDLL(str(STUBS / name), ctypes.RTLD_GLOBAL)


load("libtorch_beside_cuda.so")
stand_in = load("libacl_stand_in.so")
for library in ("libascendcl.so", *sorted(path.name for path in STUBS.glob("lib*.so"))):
    load(library)

import torch_npu  # noqa: E402

torch.ops.load_library(str(STUBS / "stand_in_kernels.so"))
stand_in.stand_in_get.restype = ctypes.c_int64
stand_in.stand_in_set.argtypes = [ctypes.c_char_p, ctypes.c_int64]

if importlib.util.find_spec("tidemark") is not None:
    import tidemark

    stand_in.aclInit(None)  # torch_npu asks for the current device before it does that, and the stand-in would refuse
    torch_npu.npu.memory.change_current_allocator(tidemark.allocator.npu())


@pytest.fixture
def machine():
    """Counts and settings of the stand-in for ACL (tests/support/stand_in/controls.h), by name."""

    class Machine:
        def __getitem__(self, name):
            return stand_in.stand_in_get(name.encode())

        def __setitem__(self, name, value):
            stand_in.stand_in_set(name.encode(), value)

    machine = Machine()
    yield machine
    machine["delay_us"] = 0
    torch.npu.synchronize()
    assert machine["violations"] == 0
