"""Trains a layer that is split over a tensor-parallel group of four, on batches that one rank reads for all. On CPUs,
over gloo; prints what each rank read and a digest of the bytes it trained on.

    torchrun --nproc-per-node 4 train.py
"""

import hashlib

import tidemark
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES, BATCH, WIDTH = 64, 8, 256


class Digits(Dataset):
    """Inputs with labels. Counts how often a sample is read."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        self.reads += 1
        data = torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))
        return {"data": data, "label": int(data.sum() > 0)}


class SumOverGroup(torch.autograd.Function):
    """Partial results add up; every rank has the same gradient of the sum."""

    @staticmethod
    def forward(ctx, part, group):
        whole = part.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SplitLayers(nn.Module):
    """Two products, the first split by columns, the second by rows."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        self.first = nn.Linear(WIDTH, WIDTH // dist.get_world_size(group))
        self.second = nn.Linear(WIDTH // dist.get_world_size(group), 2, bias=False)

    def forward(self, data):
        return SumOverGroup.apply(self.second(self.first(data).relu()), self.group)


dist.init_process_group("gloo")
group = dist.group.WORLD
torch.manual_seed(dist.get_rank(group))  # each rank has weights of its own
dataset = Digits()
loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
shared = tidemark.SharedLoader(loader if dist.get_rank(group) == 0 else None, group)
model = SplitLayers(group)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
digest, losses = hashlib.sha256(), []
for _ in range(6):
    for batch in shared:
        digest.update(batch["data"].numpy().tobytes() + batch["label"].numpy().tobytes())
        loss = nn.functional.cross_entropy(model(batch["data"]), batch["label"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
shared.close()
print(
    f"rank {dist.get_rank()}: {len(losses)} batches of {len(shared)} an epoch, {dataset.reads} samples read, digest "
    f"{digest.hexdigest()[:16]}, loss {sum(losses[:8]) / 8:.3f} to {sum(losses[-8:]) / 8:.3f}",
    flush=True,
)
dist.destroy_process_group()
