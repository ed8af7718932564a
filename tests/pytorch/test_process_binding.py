"""tidemark.bind_process, in processes of their own: one is bound once."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tidemark

# torch.cuda is a stand-in: `count` devices at 0000:01:00.0 and so on. All cases in one process: nothing is bound.
PLANS = """
import json, sys
import tidemark, torch
class Properties:
    def __init__(self, index):
        self.pci_domain_id, self.pci_bus_id, self.pci_device_id = 0, index + 1, 0
torch.cuda.is_available = lambda: True
torch.cuda.get_device_properties = Properties
for device, count, current, ranks in json.loads(sys.argv[1]):
    torch.cuda.device_count = lambda: count
    torch.cuda.current_device = lambda: current
    call = dict(local_ranks=ranks, only_plan=True, topology=sys.argv[2])
    plans = [tidemark.bind_process(device, local_rank=rank, **call) for rank in range(ranks)]
    print(json.dumps([[plan.device, plan.home] for plan in plans]))
"""

PROGRAM = """
import json, logging, os, sys, threading
import tidemark
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
try:
    binding = tidemark.bind_process({arguments})
except tidemark.TidemarkError as error:
    print(json.dumps({{"error": type(error).__name__, "says": str(error)}}))
    sys.exit()
seen = []
thread = threading.Thread(target=lambda: seen.append(sorted(os.sched_getaffinity(0))))
thread.start()
thread.join()
print(json.dumps({{**binding.__dict__, "own": sorted(os.sched_getaffinity(0)), "thread": seen[0]}}))
"""


def said(arguments, cpus=None, **environment):
    """What a process printed, line by line, the last one read; `cpus` are all it may use."""
    place = str(pathlib.Path(tidemark.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(arguments=arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": place, **environment},
        preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, cpus),
    )
    assert ran.returncode == 0, ran.stderr
    *lines, last = ran.stdout.splitlines()
    return lines, json.loads(last)


def numbers(text):
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def write_host(root, nodes, cpus):
    """A simulated host: nodes of four CPUs, a GPU each. The process may use `cpus`."""

    def write(path, text):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    write("sys/devices/system/cpu/online", f"0-{4 * nodes - 1}\n")
    write("sys/devices/system/node/online", f"0-{nodes - 1}\n")
    for node in range(nodes):
        folder = f"sys/devices/system/node/node{node}"
        write(f"{folder}/cpulist", f"{4 * node}-{4 * node + 3}\n")
        write(f"{folder}/meminfo", f"Node {node} MemTotal: 1048576 kB\n")
        gpu = f"sys/bus/pci/devices/0000:0{node + 1}:00.0"
        write(f"{gpu}/class", "0x030200\n")
        write(f"{gpu}/vendor", "0x10de\n")
        write(f"{gpu}/numa_node", f"{node}\n")
    write("proc/self/status", f"Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-{nodes - 1}\n")
    return root


@pytest.fixture
def two_nodes(tmp_path):
    """The process may use the second node's CPUs alone."""
    return write_host(tmp_path, 2, "4-7")


def test_threads_run_on_the_cpus_that_were_planned():
    _, bound = said("")
    assert bound["bound"] and not bound["simulated"] and bound["device"] == "none"
    main, before = numbers(bound["main_cpus"]), numbers(bound["cpus_before"])
    assert set(bound["own"]) == set(bound["thread"]) == main <= before
    assert numbers(bound["copy_cpus"]) <= before
    if len(before) > 1:
        assert not numbers(bound["copy_cpus"]) & main, "copies apart from training"


def test_ranks_of_torchrun_share_no_cpu_where_there_is_one_for_each():
    cpus = os.sched_getaffinity(0)
    ranks = [said("", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")[1] for rank in range(2)]
    shares = [set(rank["own"]) | numbers(rank["copy_cpus"]) for rank in ranks]
    assert all(share <= cpus for share in shares)
    assert not shares[0] & shares[1] or ranks[0]["shares_cores"]


def test_a_mask_of_the_process_alone_is_its_share():
    cpu = max(os.sched_getaffinity(0))
    _, bound = said("local_rank=0, local_ranks=8", cpus={cpu})
    assert bound["own"] == [cpu] and bound["cpus_before"] == str(cpu)
    assert not bound["shares_cores"] or len(os.sched_getaffinity(0)) == 1


def test_a_wrong_place_is_told_with_what_would_be_right(two_nodes):
    call = f"devices=['0000:01:00.0', '0000:02:00.0'], only_plan=True, topology={str(two_nodes)!r}"
    lines, planned = said(f"local_rank=0, local_ranks=2, {call}")
    assert planned["simulated"] and not planned["bound"] and planned["device_node"] == 0 and planned["home"] == 1
    assert len(planned["problems"]) == len(lines) == 1
    what = "the process may run on CPUs 4-7 of node 1 alone, and device 0000:01:00.0 hangs on node 0"
    assert lines[0].startswith(what)
    assert "right: CPUs of node 0: taskset -c 0-3" in lines[0]
    lines, planned = said(f"local_rank=1, local_ranks=2, {call}")
    assert lines == [] and planned["home"] == 1 and planned["main_cpus"] == "6"


def test_cuda_without_a_number_is_the_device_of_the_rank(tmp_path):
    """No GPU: torch.cuda is a stand-in, each of its devices on a node of its own."""
    write_host(tmp_path, 4, "0-15")
    cases = {  # device, devices seen, torch.cuda.current_device(), local ranks: the devices of these
        ("cuda", 2, 0, 2): [0, 1],  # none set yet: what docs/pytorch.md shows
        (None, 2, 0, 2): [0, 1],
        ("cuda", 4, 0, 3): [0, 1, 2],
        ("cuda", 4, 3, 2): [3, 3],  # torch.cuda.set_device(3) before
        ("cuda", 1, 0, 2): [0, 0],  # CUDA_VISIBLE_DEVICES with one for each rank
        ("cuda:0", 2, 0, 2): [0, 0],  # both ranks on one
        ("cuda:2", 4, 0, 2): [2, 2],
        ("cuda", 4, 0, 1): [0],
        ("cuda", 4, 2, 1): [2],
        (None, 4, 2, 1): [2],
    }
    place = str(pathlib.Path(tidemark.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLANS, json.dumps(list(cases)), tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": place},
    )
    assert ran.returncode == 0, ran.stderr
    for (case, devices), line in zip(cases.items(), ran.stdout.splitlines(), strict=True):
        assert json.loads(line) == [[f"0000:0{index + 1}:00.0", index] for index in devices], case


@pytest.mark.parametrize(
    ("arguments", "environment", "error", "says"),
    [
        ("", {"CPU_AFFINITY_CONF": "1"}, "TidemarkError", "CPU_AFFINITY_CONF=1 has torch_npu bind threads"),
        ("local_rank=2, local_ranks=2", {}, "BadValueError", "from 0 to 1 would be right"),
        ("local_rank=1, devices=['unknown']", {}, "BadValueError", "one for each rank"),
        ("devices=['gpu0']", {}, "TidemarkError", "would be right"),
    ],
)
def test_what_cannot_be_is_refused(arguments, environment, error, says):
    _, refused = said(arguments, **environment)
    assert refused["error"] == error and says in refused["says"]


def test_torch_npu_that_binds_nothing_is_no_reason_to_refuse():
    assert said("", CPU_AFFINITY_CONF="0")[1]["bound"]
