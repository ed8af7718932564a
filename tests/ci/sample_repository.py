"""A repository as a team has it: two model files, a launch script, a measured run, a budget file and a baseline."""

import pathlib
import pickle
import subprocess

GIB = 1 << 30
MIB = 1 << 20

MODEL = """\
model:
  name: {name}
  hidden: 2048
  vocabulary: 32000
  sequence: 4096
  layers: {{dense: 1, moe: 7}}
  dense_width: 8192
  attention:
    kind: gqa
    heads: 16
    kv_heads: 8
    head_dim: 128
  moe:
    experts: 16
    top_k: 4
    width: 1024
    shared_width: 1024
parallel:
  tensor: 2
  sequence_parallel: true
  pipeline: 2
  expert: 2
  tensor_extends_expert: true
  data: 2
  micro_batch: 1
  global_batch: 16
device: h100-80g
"""

SCRIPT = """\
#!/bin/bash
# An 8B model on one node of eight GPUs.
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    --tensor-model-parallel-size 2 \\
    --sequence-parallel \\
    --use-distributed-optimizer \\
    --num-layers 32 \\
    --hidden-size 4096 \\
    --ffn-hidden-size 14336 \\
    --num-attention-heads 32 \\
    --group-query-attention \\
    --num-query-groups 8 \\
    --seq-length 4096 \\
    --max-position-embeddings 4096 \\
    --micro-batch-size 1 \\
    --global-batch-size 128 \\
    --vocab-size 128256 \\
    --make-vocab-size-divisible-by 128 \\
    --swiglu \\
    --normalization RMSNorm \\
    --disable-bias-linear \\
    --untie-embeddings-and-output-weights \\
    --position-embedding-type rope \\
    --use-flash-attn \\
    --recompute-granularity full \\
    --recompute-method uniform \\
    --recompute-num-layers 1 \\
    --bf16
"""

BUDGET = """\
schema: tidemark-budget/1
near: 1%
growth: 2%
jobs:
  - name: small
    model: models/small.yaml
    policy: keep-all
    capacity: {small}
  - name: legacy                 # above its capacity until it is split over more devices
    model: models/legacy.yaml
    policy: keep-all
    capacity: {legacy}
    waivers:
      - owner: training@example.org
        reason: split over four stages in the next release
        expires: 2099-12-31
        at_most: {legacy_most}
  - name: pretrain
    script: pretrain.sh
    device: h100-80g
    capacity: {pretrain}
    reserve: 0B
  - name: measured
    measured: runs/rank0.pickle
    capacity: 8GiB
"""

CAPACITIES = {"small": "8GiB", "legacy": "6GiB", "legacy_most": "8GiB", "pretrain": "40GiB"}


def snapshot(live_bytes):
    """A PyTorch memory snapshot, pickled: blocks of 512 MiB until `live_bytes` are held, then all are freed."""
    size = 512 * MIB
    count = -(-live_bytes // size)
    base = 0x7F0000000000
    place = [{"filename": "train.py", "name": "forward", "line": 12}]
    events = []
    for i in range(count):
        event = {"addr": base + i * size, "size": size, "stream": 0, "frames": place, "time_us": 1000 + i}
        events.append({"action": "alloc", **event})
    for i in range(count):
        event = {"addr": base + i * size, "size": size, "stream": 0, "frames": place, "time_us": 2000 + i}
        events += [{"action": "free_requested", **event}, {"action": "free_completed", **event}]
    blocks = [
        {"address": base + i * size, "size": size, "requested_size": size, "state": "inactive", "frames": []}
        for i in range(count)
    ]
    segment = {
        "device": 0,
        "address": base,
        "total_size": count * size,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
    return pickle.dumps({"segments": [segment], "device_traces": [events], "allocator_settings": {}}, protocol=4)


class Repository:
    """A git repository in `folder`, on its branch main, with a baseline that `tidemark` wrote. Pull requests are branches."""

    def __init__(self, folder, tidemark):
        self.folder, self.tidemark = pathlib.Path(folder), tidemark
        self.folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("models/small.yaml", MODEL.format(name="small"))
        self.write("models/legacy.yaml", MODEL.format(name="legacy"))
        self.write("pretrain.sh", SCRIPT)
        self.write("tidemark-budget.yaml", BUDGET.format(**CAPACITIES))
        self.write("runs/rank0.pickle", snapshot(6 * GIB))
        self.run("baseline", "update", status=0)
        self.commit("Hold the jobs to a budget")

    def git(self, *words):
        identity = ["-c", "user.name=A Person", "-c", "user.email=person@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def run(self, *words, status=None):
        """Runs tidemark in the repository; `status`: what it has to exit with."""
        done = subprocess.run([self.tidemark, *words], cwd=self.folder, capture_output=True, text=True, timeout=300)
        if status is not None and done.returncode != status:
            raise AssertionError(
                f"tidemark {' '.join(words)}: exit status {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
            )
        return done

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def replace(self, name, old, new):
        text = (self.folder / name).read_text()
        if text.count(old) != 1:
            raise AssertionError(f"{name}: {old!r} is there {text.count(old)} times, not once")
        self.write(name, text.replace(old, new))

    def commit(self, subject):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def open_pull_request(self, branch):
        """A branch of main's last commit."""
        self.git("checkout", "--quiet", "--force", "main")
        self.git("clean", "--quiet", "--force", "-d", "-x")
        self.git("checkout", "--quiet", "-b", branch)
