"""An installed package at work: a small model is captured, planned to the least memory there is, and trained within it, with
the losses and gradients that it has without. One line says what was done.

    python wheel_trial.py FOLDER    FOLDER: where the environment is that the package must come from
"""

import contextlib
import ctypes
import gc
import hashlib
import pathlib
import sys

import tidemark
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(96, 4, 384, 0.1, batch_first=True, norm_first=True) for _ in range(4)]
    return nn.Sequential(*layers), torch.randn(8, 48, 96)


def loss_of(out):
    return out.square().mean()


def train(context, steps=3):
    """(loss, digest of all gradients) of every step: copies of them would take of the budget."""
    model, inputs = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1)
    seen = []
    with context(model):
        for _ in range(steps):
            stepper.zero_grad()
            loss = loss_of(model(inputs))
            loss.backward()
            digest = hashlib.sha256()
            for p in model.parameters():
                digest.update(ctypes.string_at(p.grad.data_ptr(), p.grad.nbytes))
            stepper.step()
            seen.append((loss.item(), digest.hexdigest()))
            del loss
    return seen


def captured():
    model, inputs = build()
    return tidemark.capture(model, (inputs,), loss_of, optimizer=torch.optim.AdamW(model.parameters()), measured=True)


def least_plan(graph):
    try:
        return tidemark.plan(graph, 1 << 20)
    except tidemark.InfeasibleError as refusal:
        return tidemark.plan(graph, refusal.smallest_bytes)


def main(folder):
    place = pathlib.Path(tidemark.__file__).resolve()
    if pathlib.Path(folder).resolve() not in place.parents:
        sys.exit(f"the package comes from {place}, not from {folder}")
    tidemark.allocator.install()
    torch.set_num_threads(1)
    reference = train(lambda _: contextlib.nullcontext())
    graph = captured()
    plan = least_plan(graph)
    gc.collect()
    sessions = []

    def within(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    planned = train(within)
    report = sessions[0].report()
    if planned != reference:
        sys.exit("losses or gradients differ from those without a session")
    if report.recomputed == 0 or report.off_plan > 0 or report.measured_reserved_bytes > plan.budget_bytes:
        sys.exit(f"the plan was not followed: {report}")
    kept, least = (round(bytes_ / 2**20, 1) for bytes_ in (graph.keep_all_peak_bytes(), plan.budget_bytes))
    print(
        f"PyTorch {torch.__version__}, 3 steps within {least} MiB instead of {kept}, {report.recomputed} recomputed, bit for bit"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
