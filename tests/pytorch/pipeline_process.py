"""One process of a pipeline of two, two chunks each, interleaved; every stage is split over a tensor-parallel group
that adds up partial results in forward and in backward. Run by test_pipeline.py:

pipeline_process.py RANK STORE TENSOR_PARALLEL
"""

import gc
import hashlib
import mmap
import sys

import conftest  # noqa: F401  the allocator, before anything
import tidemark
import torch
import torch.distributed as dist
from tidemark import allocator
from torch import nn

PIPELINE, CHUNKS, MICRO_BATCHES = 2, 2, 4
ROWS, HIDDEN = 512, 128


def interleaved(rank):
    """What a process does in one step: warm-up, one forward and one backward in turn, the backwards left over."""
    count = MICRO_BATCHES * CHUNKS

    def unit(k, backward):
        chunk = k % (PIPELINE * CHUNKS) // PIPELINE
        return k // (PIPELINE * CHUNKS) * PIPELINE + k % PIPELINE, CHUNKS - 1 - chunk if backward else chunk

    forwards = [("forward", *unit(k, False)) for k in range(count)]
    backwards = [("backward", *unit(k, True)) for k in range(count)]
    warm_up = (PIPELINE - rank - 1) * 2 + (CHUNKS - 1) * PIPELINE
    order = forwards[:warm_up]
    for k in range(count - warm_up):
        order += [forwards[warm_up + k], backwards[k]]
    return order + backwards[count - warm_up :]


class CopyIn(torch.autograd.Function):
    """Every member has the same input; gradients add up."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class AddUp(torch.autograd.Function):
    """Partial results add up; every member has the same gradient."""

    @staticmethod
    def forward(ctx, x, group):
        out = x * 1.0
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Block(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group
        inner = 4 * HIDDEN // dist.get_world_size(group)
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, inner)
        self.down = nn.Linear(inner, HIDDEN, bias=False)

    def forward(self, x):
        hidden = nn.functional.gelu(self.up(CopyIn.apply(self.norm(x), self.group)))
        return x + torch.tanh(AddUp.apply(self.down(hidden), self.group))


class Chunks(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.chunks = nn.ModuleList(nn.Sequential(Block(group), Block(group)) for _ in range(CHUNKS))

    def forward(self, x, chunk):
        return self.chunks[chunk](x)


class Process:
    def __init__(self, rank, tensor_parallel):
        self.stage, self.member = divmod(rank, tensor_parallel)
        self.tensor_parallel = tensor_parallel
        members = range(tensor_parallel)
        groups = [dist.new_group([s * tensor_parallel + m for m in members]) for s in range(PIPELINE)]
        self.group = groups[self.stage]

    def build(self):
        torch.manual_seed(self.stage)
        return Chunks(self.group)

    def loss(self, output, chunk):
        return output.square().mean() if self.is_last(chunk) else output

    def is_last(self, chunk):
        return self.stage == PIPELINE - 1 and chunk == CHUNKS - 1

    def peer(self, global_stage):
        return global_stage % PIPELINE * self.tensor_parallel + self.member

    def send(self, tensor, place, tag):
        """From a buffer outside the budget."""
        flat = torch.frombuffer(mmap.mmap(-1, tensor.nbytes), dtype=tensor.dtype, count=tensor.numel())
        buffer = flat.view(tensor.shape).copy_(tensor)
        return dist.isend(buffer, self.peer(place), tag=tag), buffer

    def step(self, model, data):
        """Losses of the step."""
        inputs, outputs, sent, losses = {}, {}, [], []
        for kind, i, chunk in interleaved(self.stage):
            place, tag = chunk * PIPELINE + self.stage, 2 * (i * CHUNKS * PIPELINE)
            if kind == "forward":
                x = data[i].clone() if place == 0 else torch.empty(ROWS, HIDDEN)
                if place > 0:
                    dist.recv(x, self.peer(place - 1), tag=tag + 2 * place)
                    x.requires_grad_()
                with tidemark.micro_batch(i, chunk):
                    out = self.loss(model(x, chunk), chunk)
                inputs[i, chunk], outputs[i, chunk] = x, out
                if self.is_last(chunk):
                    losses.append(out.detach().clone())
                else:
                    sent.append(self.send(out.detach(), place + 1, tag + 2 * (place + 1)))
                del x, out
            else:
                out, x = outputs.pop((i, chunk)), inputs.pop((i, chunk))
                grad = None
                if not self.is_last(chunk):
                    grad = torch.empty_like(out)
                    dist.recv(grad, self.peer(place + 1), tag=tag + 2 * place + 1)
                torch.autograd.backward(out, grad)
                if place > 0:
                    sent.append(self.send(x.grad, place - 1, tag + 2 * (place - 1) + 1))
                del out, x, grad
        for request, _ in sent:
            request.wait()
        return losses

    def train(self, plan=None, steps=3):
        gc.collect()
        model = self.build()
        stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(5)
        digest = hashlib.sha256()
        everything = tidemark.plan(self.graph, 2 * self.graph.keep_all_peak_bytes() + (8 << 20))
        with tidemark.session(plan or everything, model) as session:
            for _ in range(steps):
                data = [torch.randn(ROWS, HIDDEN, generator=generator) for _ in range(MICRO_BATCHES)]
                losses = self.step(model, data)
                for tensor in (*losses, *(p.grad for p in model.parameters())):
                    digest.update(memoryview(tensor.numpy()).cast("B"))
                stepper.step()
                stepper.zero_grad()
        return digest.hexdigest(), session.report()

    def smallest(self, recompute_collectives):
        try:
            tidemark.plan(self.graph, 1 << 20, recompute_collectives=recompute_collectives)
        except tidemark.InfeasibleError as refusal:
            return refusal.smallest_bytes
        raise AssertionError("everything fits in 1 MiB")

    def run(self):
        model = self.build()
        self.graph = tidemark.capture(
            model,
            (torch.empty(ROWS, HIDDEN, requires_grad=True),),
            self.loss,
            optimizer=torch.optim.AdamW(model.parameters()),
            micro_batches=MICRO_BATCHES,
            chunks=CHUNKS,
            order=interleaved(self.stage),
        )
        del model
        reference, unplanned = self.train()
        for again in (False, True):
            budget = self.smallest(again)
            plan = tidemark.plan(self.graph, budget, recompute_collectives=again)
            collectives = {i for i, op in enumerate(self.graph.ops) if op.recompute == "collective"}
            assert collectives, "no collective was captured"
            repeated = sum(1 for i in plan.schedule if i in collectives) - len(collectives)
            assert (repeated > 0) == again, f"{repeated} collectives run again"
            digest, report = self.train(plan)
            assert digest == reference, "other losses or gradients"
            assert report.recomputed > 0 and report.off_plan == 0, str(report)
            assert report.measured_reserved_bytes <= budget < unplanned.measured_reserved_bytes, (
                f"{report.measured_reserved_bytes} of {budget}, without a plan {unplanned.measured_reserved_bytes}"
            )
        print("same bits within", budget, unplanned.measured_reserved_bytes, report)


def main():
    rank, store, tensor_parallel = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    world = PIPELINE * tensor_parallel
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    Process(rank, tensor_parallel).run()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
