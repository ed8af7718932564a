"""Trains the decoder of model.py for a minute, within a memory budget.

python train.py                    without a plan: shows the peak
python train.py --budget 56MiB     the same losses within the budget
"""

import argparse
import time

import torch
from model import Config, Decoder, loss_of, routed_rows

import tidemark

BATCH, LENGTH = 8, 64


def batches(config, seed):
    """Sequences in which a token mostly decides the next: there is something to learn."""
    generator = torch.Generator().manual_seed(seed)
    following = torch.randint(0, config.vocabulary, (config.vocabulary,), generator=generator)
    while True:
        tokens = torch.randint(0, config.vocabulary, (BATCH, LENGTH), generator=generator)
        for i in range(1, LENGTH):
            keep = torch.rand(BATCH, generator=generator) < 0.9
            tokens[:, i] = torch.where(keep, following[tokens[:, i - 1]], tokens[:, i])
        yield tokens


def train(config, steps, budget=None):
    """Losses of every step, and the session that ran them (None without a budget)."""
    torch.manual_seed(0)
    model = Decoder(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = batches(config, seed=1)
    tokens = next(data)

    def step(tokens):
        optimizer.zero_grad()
        loss = loss_of(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        return loss.item()

    if budget is None:
        return [step(next(data)) for _ in range(steps)], None

    graph = tidemark.capture(
        model,
        (tokens,),
        lambda logits: loss_of(logits, tokens),
        optimizer=optimizer,
        bounds=routed_rows(config, BATCH, LENGTH),
        measured=True,
        holds_output=False,
    )
    plan = tidemark.plan(graph, budget)
    again = len(plan.schedule) - len(graph.ops)
    print(f"plan: {plan.status}, {again} operations recomputed, {plan.added_cost_percent:.1f} % more time")
    with tidemark.session(plan, model) as session:
        return [step(next(data)) for _ in range(steps)], session


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", help="most memory to use, such as 56MiB")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    tidemark.allocator.install()
    torch.set_num_threads(1)  # the tensors are small
    begin = time.perf_counter()
    losses, session = train(Config(), arguments.steps, arguments.budget)
    for i in range(0, len(losses), 10):
        print(f"step {i:4}  loss {losses[i]:.6f}")
    print(f"last       loss {losses[-1]:.6f}   {time.perf_counter() - begin:.1f} s")
    if session is not None:
        print(session.report())
    else:
        print(f"peak {tidemark.allocator.statistics().allocated_peak_bytes / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
