"""Models whose steps depend on data: what fake tensors cannot say, and a recorded step shows."""

import torch
from torch import nn
from torch.nn import functional as F


class Masked(nn.Module):
    """Decides by its padding mask, as transformers does."""

    def __init__(self, width=32, layers=3):
        super().__init__()
        self.embedding = nn.Embedding(40, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 64, 0.1, batch_first=True) for _ in range(layers))

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        padding = None if mask.all() else ~mask
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return x[mask]


class LoopedExperts(nn.Module):
    """One expert at a time over the rows that chose it, one_hot and all, as in published mixtures."""

    def __init__(self, width=24, experts=4, chosen=2):
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 48), nn.SiLU(), nn.Linear(48, width)) for _ in range(experts))

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = torch.topk(self.gate(rows).softmax(-1), self.chosen, dim=-1)
        out = torch.zeros_like(rows)
        mask = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            which, row = torch.where(mask[expert].squeeze(0))
            out.index_add_(0, row, self.experts[expert](rows[row]) * weights[row, which, None])
        return out.view_as(x)


class Mixture(nn.Module):
    def __init__(self, width=24, layers=3):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.layers = nn.ModuleList(LoopedExperts(width) for _ in range(layers))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return x


class Recurrent(nn.Module):
    """oneDNN keeps a workspace of a format of its own."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 48, num_layers=2, batch_first=True)
        self.out = nn.Linear(48, 8)

    def forward(self, x):
        hidden, _ = self.lstm(x)
        if hidden.abs().max().item() > 1e6:
            hidden = hidden.clamp(-1, 1)
        return self.out(torch.relu(hidden))


def masked():
    torch.manual_seed(0)
    mask = torch.ones(4, 16, dtype=torch.bool)
    mask[1, 9:] = mask[3, 5:] = False
    return Masked(), (torch.randint(0, 40, (4, 16)), mask), lambda out: out.square().mean()


def mixture():
    torch.manual_seed(0)
    return Mixture(), (torch.randn(4, 16, 24),), lambda out: out.square().mean()


def recurrent():
    torch.manual_seed(0)
    return Recurrent(), (torch.randn(4, 12, 32),), lambda out: out.square().mean()


DATA_MODELS = {"masked": masked, "mixture": mixture, "recurrent": recurrent}
