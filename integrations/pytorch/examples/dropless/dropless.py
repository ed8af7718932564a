"""A dropless mixture of experts whose routing drifts to one expert, trained within a budget that was planned for much
less: the memory ladder of a session, rung by rung.

python dropless.py                 the shipped layer: runs in chunks where its rows are more than planned for
python dropless.py --plain         experts as people write them: free memory and spilling serve, by a link to the host
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import tidemark

TOKENS, HIDDEN, INNER, EXPERTS, WORDS = 4096, 64, 128, 8, 64
PLANNED = 5 * TOKENS // (4 * EXPERTS)  # rows of one expert: one and a quarter equal shares


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, INNER, bias=False)
        self.up = nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class PlainExperts(nn.Module):
    """Rows sorted by expert, a loop over experts, and rows added back to their tokens."""

    def __init__(self, experts):
        super().__init__()
        self.experts = nn.ModuleList(experts)

    def forward(self, tokens, chosen, weights):
        flat, top_k = chosen.reshape(-1), chosen.shape[-1]
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=len(self.experts)).tolist()
        rows = tokens.index_select(0, order // top_k)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, rows.split(counts), strict=True)])
        done = done * weights.reshape(-1).index_select(0, order)[:, None]
        return torch.zeros_like(tokens).index_add(0, order // top_k, done)


class Mixture(nn.Module):
    """`bias` is added to the scores by which experts are chosen, and drives the routing."""

    def __init__(self, make_experts):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.mix = make_experts([Expert() for _ in range(EXPERTS)])
        self.register_buffer("bias", torch.zeros(EXPERTS))

    def forward(self, x):
        tokens = self.norm(x)
        scores = torch.sigmoid(self.router(tokens))
        chosen = (scores + self.bias).topk(1, dim=-1).indices
        return x + self.mix(tokens, chosen, scores.gather(1, chosen))


class Net(nn.Module):
    def __init__(self, make_experts, layers=1):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.mixtures = nn.ModuleList(Mixture(make_experts) for _ in range(layers))
        self.dense = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN))
            for _ in range(layers)
        )
        self.head = nn.Linear(HIDDEN, WORDS)

    def forward(self, words):
        x = self.words(words)
        for mixture, dense in zip(self.mixtures, self.dense, strict=True):
            x = mixture(x)
            x = x + dense(x)
        return self.head(x)

    def drive(self, bias):
        for mixture in self.mixtures:
            mixture.bias[0] = bias


def loss_of(logits, words):
    return F.cross_entropy(logits, words.roll(-1))


def build(make_experts, layers=1):
    torch.manual_seed(0)
    return Net(make_experts, layers)


def captured(make_experts, layers=1, link=None):
    model = build(make_experts, layers)
    words = torch.zeros(TOKENS, dtype=torch.long)
    return tidemark.capture(
        model,
        (words,),
        lambda logits: loss_of(logits, words),
        optimizer=torch.optim.AdamW(model.parameters()),
        bounds={"*.mix": tidemark.Routed(TOKENS, parts=EXPERTS, most=PLANNED)},
        measured=True,
        host_link=link,
        holds_output=False,
    )


def train(model, session, steps=6, lengths=(TOKENS,), watch=lambda step: None):
    """Losses; the routing drifts until every token goes to the first expert: eight times an equal share."""
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(5)
    losses = []
    with session:
        for step in range(steps):
            model.drive(2.0 * min(step / (steps // 2), 1.0))
            words = torch.randint(0, WORDS, (lengths[step % len(lengths)],), generator=generator)
            loss = loss_of(model(words), words)
            loss.backward()
            stepper.step()
            stepper.zero_grad()
            losses.append(loss.item())
            del loss
            watch(step)
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="experts without a callback, and a link to the host")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    tidemark.allocator.install()
    torch.set_num_threads(1)  # the tensors are small
    make_experts = PlainExperts if arguments.plain else tidemark.DroplessExperts
    graph = captured(make_experts, layers=2, link=tidemark.HostLink(5e9, 5e9) if arguments.plain else None)
    plan = tidemark.plan(graph, int((0.5 if arguments.plain else 0.65) * graph.keep_all_peak_bytes()))
    model = build(make_experts, layers=2)
    session = tidemark.session(plan, model)
    losses = train(model, session, arguments.steps, watch=lambda step: print(f"step {step:3}  {session.rungs()}"))
    print(f"losses {losses[0]:.4f} to {losses[-1]:.4f}")
    print(session.report())


if __name__ == "__main__":
    main()
