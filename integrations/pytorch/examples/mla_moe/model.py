"""A small decoder of the DeepSeek kind: multi-head latent attention, a dropless mixture of experts with a shared
expert, and a head that predicts the token after next. Plain PyTorch; nothing here knows of Tidemark."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Config:
    vocabulary: int = 64
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    head: int = 32  # without position
    rope: int = 16  # with position, shared by the heads in keys
    query_rank: int = 64
    kv_rank: int = 48
    experts: int = 8
    top_k: int = 2
    expert_hidden: int = 128
    first_dense: int = 1  # layers before the first mixture
    dense_hidden: int = 384


def rotate(x, positions):
    """Rotary positions on the last axis."""
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = positions[:, None].float() * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class LatentAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.query_down = nn.Linear(c.hidden, c.query_rank, bias=False)
        self.query_norm = nn.LayerNorm(c.query_rank)
        self.query_up = nn.Linear(c.query_rank, c.heads * (c.head + c.rope), bias=False)
        self.kv_down = nn.Linear(c.hidden, c.kv_rank + c.rope, bias=False)
        self.kv_norm = nn.LayerNorm(c.kv_rank)
        self.kv_up = nn.Linear(c.kv_rank, c.heads * 2 * c.head, bias=False)
        self.out = nn.Linear(c.heads * c.head, c.hidden, bias=False)

    def forward(self, x):
        c, (batch, length, _) = self.c, x.shape
        positions = torch.arange(length)
        q = self.query_up(self.query_norm(self.query_down(x))).view(batch, length, c.heads, -1).transpose(1, 2)
        latent, k_rope = self.kv_down(x).split([c.kv_rank, c.rope], dim=-1)
        kv = self.kv_up(self.kv_norm(latent)).view(batch, length, c.heads, -1).transpose(1, 2)
        k, v = kv.split([c.head, c.head], dim=-1)
        k_rope = rotate(k_rope, positions)[:, None].expand(-1, c.heads, -1, -1)
        q = torch.cat([q[..., : c.head], rotate(q[..., c.head :], positions)], dim=-1)
        k = torch.cat([k, k_rope], dim=-1)
        scores = (q @ k.mT) * (c.head + c.rope) ** -0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        attended = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v
        return self.out(attended.transpose(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Every token goes to its `top_k` experts, however many choose the same one, and to the shared expert."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.router = nn.Linear(c.hidden, c.experts, bias=False)
        self.experts = nn.ModuleList(GatedMlp(c.hidden, c.expert_hidden) for _ in range(c.experts))
        self.shared = GatedMlp(c.hidden, c.expert_hidden)

    def forward(self, x):
        c, tokens = self.c, x.reshape(-1, x.shape[-1])
        weights, chosen = torch.sigmoid(self.router(tokens)).topk(c.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        flat = chosen.reshape(-1)
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=c.experts).tolist()
        rows = tokens.index_select(0, order // c.top_k)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, rows.split(counts), strict=True)])
        done = done * weights.reshape(-1).index_select(0, order)[:, None]
        combined = torch.zeros_like(tokens).index_add(0, order // c.top_k, done)
        return (combined + self.shared(tokens)).view_as(x)


class Layer(nn.Module):
    def __init__(self, c, dense):
        super().__init__()
        self.attention_norm = nn.LayerNorm(c.hidden)
        self.attention = LatentAttention(c)
        self.mlp_norm = nn.LayerNorm(c.hidden)
        self.mlp = GatedMlp(c.hidden, c.dense_hidden) if dense else Mixture(c)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """Returns the logits of the next token and of the one after it."""

    def __init__(self, c=Config()):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocabulary, c.hidden)
        self.layers = nn.ModuleList(Layer(c, dense=i < c.first_dense) for i in range(c.layers))
        self.norm = nn.LayerNorm(c.hidden)
        self.head = nn.Linear(c.hidden, c.vocabulary, bias=False)
        self.second_join = nn.Linear(2 * c.hidden, c.hidden, bias=False)
        self.second_layer = Layer(c, dense=False)
        self.second_norm = nn.LayerNorm(c.hidden)

    def forward(self, tokens):
        embedded = self.embedding(tokens)
        x = embedded
        for layer in self.layers:
            x = layer(x)
        following = torch.cat([embedded[:, 1:], embedded[:, -1:]], dim=1)
        second = self.second_layer(self.second_join(torch.cat([x, following], dim=-1)))
        return self.head(self.norm(x)), self.head(self.second_norm(second))


def loss_of(logits, tokens):
    first, second = logits
    next_token = F.cross_entropy(first[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    after_next = F.cross_entropy(second[:, :-2].flatten(0, 1), tokens[:, 2:].flatten())
    return next_token + 0.3 * after_next


def routed_rows(c, batch, length):
    """What capture cannot know: the rows each mixture reads off its router are shares of this, and no expert is planned
    to have more than two and a half times an equal one."""
    import tidemark

    total = batch * length * c.top_k
    return {"*mlp": tidemark.Routed(total, parts=c.experts, most=min(5 * total // (2 * c.experts), batch * length))}
