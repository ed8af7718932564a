"""What a layer asks the session where its load is larger than planned, and a dropless mixture of experts that does.

A layer of your own runs in chunks in the same way: it asks chunks_for() in forward, leave_plan() where the answer is
above 1, and makes each part within aside(), in forward and again in backward, with the random state and autocast of
forward (PartStates). See InChunks."""

import contextlib

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from . import running
from .part_states import PartStates


def chunks_for(module, rows, agree=None):
    """In how many chunks `module`, which is about to run, had better run `rows` rows of its fullest part: 1 where they are
    no more than the session's plan and its local rungs serve, or there is no session, or its plan knows no load of the
    module.

    `agree`: of ranks that exchange rows, which must run the same number: called with this one's answer, and returns the
    most of any, as torch.distributed.all_reduce with ReduceOp.MAX does. It is called each time, whatever the answer.
    """
    session = running.active()
    chunks = 1 if session is None else session.chunks_for(module, rows)
    if agree is not None:
        chunks = max(int(agree(chunks)), chunks)
    if session is not None and chunks > 1:
        session.count_chunks(chunks)
    return chunks


def leave_plan():
    """The module that runs does otherwise than captured, until it returns."""
    session = running.active()
    if session is not None:
        session.leave_plan()


def aside():
    """A context for work that is not of the captured step: what it allocates is freed within, and takes bytes of the plan
    that are free meanwhile."""
    session = running.active()
    return contextlib.nullcontext() if session is None else session.aside()


class DroplessExperts(nn.Module):
    """Every token goes to the experts that it has chosen, however many choose the same one.

    `experts`: modules that map rows to rows. forward(tokens, chosen, weights): `tokens` is n x hidden; `chosen` and
    `weights`, n x k, name experts and what their rows count. `agree`: see chunks_for().

    Where an expert is chosen more often than the session has memory for, the rows of all experts are dealt out to chunks
    that run one after the other, and once more in backward; sums over rows are then taken in another order.
    """

    def __init__(self, experts, agree=None):
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.agree = agree

    def forward(self, tokens, chosen, weights):
        flat = chosen.reshape(-1)
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=len(self.experts)).tolist()
        chunks = chunks_for(self, max(counts), self.agree)
        if chunks > 1:
            leave_plan()
            parameters = [p for expert in self.experts for p in expert.parameters()]
            return InChunks.apply(self.experts, counts, chunks, tokens, weights, order, *parameters)
        top_k = chosen.shape[-1]
        rows = tokens.index_select(0, order // top_k)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, rows.split(counts), strict=True)])
        done = done * weights.reshape(-1).index_select(0, order)[:, None]
        return torch.zeros_like(tokens).index_add(0, order // top_k, done.to(tokens.dtype))


class InChunks(torch.autograd.Function):
    """Dispatch, experts and combine, an equal part of every expert's rows at a time. Saves what came in, and nothing of
    the rows: backward dispatches again, and experts draw the numbers of forward and run in its types."""

    @staticmethod
    def forward(ctx, experts, counts, chunks, tokens, weights, order, *parameters):
        ctx.experts, ctx.parts, ctx.states = experts, list(_parts(counts, chunks)), PartStates(tokens.device)
        # Weights and places die in forward where nothing runs in chunks: a copy is in the way of nothing that was planned.
        ctx.save_for_backward(tokens, weights.clone(), order.clone())
        combined = torch.zeros_like(tokens)
        for part in ctx.parts:
            number, first, last = part
            with aside(), ctx.states.saved(part):
                where, at = _places(order, first, last, weights)
                done = experts[number](tokens.index_select(0, at))
                done = done * weights.reshape(-1).index_select(0, where)[:, None]
                combined.index_add_(0, at, done.to(tokens.dtype))
                del where, at, done
        return combined

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        tokens, weights, order = ctx.saved_tensors
        grad_tokens, grad_weights = torch.zeros_like(tokens), torch.zeros_like(weights)
        sums = {p: torch.zeros_like(p) for expert in ctx.experts for p in expert.parameters() if p.requires_grad}
        for part in ctx.parts:
            number, first, last = part
            with aside(), torch.enable_grad():
                where, at = _places(order, first, last, weights)
                rows = tokens.detach().index_select(0, at).requires_grad_()
                share = weights.detach().reshape(-1).index_select(0, where).requires_grad_()
                own = [p for p in ctx.experts[number].parameters() if p in sums]
                with ctx.states.restored(part):
                    done = (ctx.experts[number](rows) * share[:, None]).to(tokens.dtype)
                made = torch.autograd.grad(done, [rows, share, *own], grad.index_select(0, at), allow_unused=True)
                del done, rows, share
                with torch.no_grad():
                    grad_tokens.index_add_(0, at, made[0])
                    grad_weights.view(-1).index_add_(0, where, made[1])
                    for parameter, of_part in zip(own, made[2:], strict=True):
                        if of_part is not None:
                            sums[parameter].add_(of_part)
                del where, at, made
        parameters = (p for expert in ctx.experts for p in expert.parameters())
        return None, None, None, grad_tokens, grad_weights, None, *(sums.get(p) for p in parameters)


def _parts(counts, chunks):
    """(expert, first, last) of the sorted rows, chunk by chunk; none that is empty."""
    starts = [sum(counts[:number]) for number in range(len(counts))]
    for chunk in range(chunks):
        for number, (start, count) in enumerate(zip(starts, counts, strict=True)):
            first, last = start + count * chunk // chunks, start + count * (chunk + 1) // chunks
            if first < last:
                yield number, first, last


def _places(order, first, last, weights):
    """Of rows: where they stand among all that were chosen, and of which tokens they are."""
    where = order[first:last]
    return where, where // weights.shape[-1]
