"""How far torch_npu's wheel carries over stubs of CANN and the stand-in for ACL, without Tidemark. No NPU takes part."""

import os
import pathlib
import subprocess
import sys
import time

import torch
from stand_in_model import NUMBERS, S, same, train

QUEUES = os.environ.get("TASK_QUEUE_ENABLE", "1") != "0"
SLOW = int(os.environ.get("STAND_IN_LAUNCH_US", "0")) * 1e-6


def test_it_is_a_stand_in():
    assert torch.npu.is_available() and torch.npu.device_count() == 2
    assert torch.npu.get_device_name(0) == "Ascend910B1"


def test_launches_are_queued():
    """Else nothing below shows anything."""
    x, w = torch.rand(NUMBERS).to("npu"), torch.rand(NUMBERS).to("npu")
    torch.npu.synchronize()
    began = time.monotonic()
    for _ in range(20):
        x = S.scale(x, w)
    called = time.monotonic() - began
    torch.npu.synchronize()
    assert (called < 10 * SLOW) == QUEUES and time.monotonic() - began > 20 * SLOW


def test_streams_and_events_order_kernels(machine):
    values, ones = torch.rand(NUMBERS), torch.ones(NUMBERS)
    x, w = values.to("npu"), ones.to("npu")
    side, done = torch.npu.Stream(), torch.npu.Event()
    machine["delay_us"] = 5000
    with torch.npu.stream(side):
        y = S.scale(x, w)
        done.record(side)
    torch.npu.current_stream().wait_event(done)
    z = S.scale(y, w)
    assert torch.equal(z.cpu(), S.scale(S.scale(values, ones), ones))


def test_a_model_of_the_stand_ins_kernels_trains_as_on_the_cpu(machine):
    assert same(train("npu"), train("cpu"))


_OWN_KERNEL = """
import conftest
import torch
x = torch.ones(4).to("npu")
print(x.cpu().tolist())
try:
    print((x + x).cpu())
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
import os, sys
sys.stdout.flush()
os._exit(0)
"""


def test_torch_npus_own_kernels_are_not_there():
    """What it does not carry: whatever CANN's libraries compute. In a process of its own, which torch_npu means to end then."""
    folder = pathlib.Path(__file__).parent
    said = subprocess.run([sys.executable, "-c", _OWN_KERNEL], cwd=folder, capture_output=True, text=True, check=True).stdout
    lines = said.splitlines()
    assert "[1.0, 1.0, 1.0, 1.0]" in lines and any(line.startswith("refused: ") for line in lines)
