"""Small models of the kinds that people train."""

import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, channels=8, blocks=3, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.blocks = nn.Sequential(*[ResidualBlock(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def resnet():
    torch.manual_seed(0)
    return ResNet(), (torch.randn(4, 3, 16, 16),), lambda out: nn.functional.cross_entropy(out, torch.arange(4))


def transformer(dropout=0.1, layers=3):
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(32, 4, 64, dropout, batch_first=True, norm_first=True) for _ in range(layers)]
    return nn.Sequential(*layers), (torch.randn(4, 16, 32),), lambda out: out.square().mean()


class TiedModel(nn.Module):
    """A parameter used twice, one without gradient, a buffer, a tensor as plain attribute, views kept for backward."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.out = nn.Linear(16, 50, bias=False)
        self.out.weight = self.embedding.weight
        self.qkv = nn.Linear(16, 48)
        self.frozen = nn.Parameter(torch.randn(16), requires_grad=False)
        self.register_buffer("scale", torch.ones(16))
        self.shift = torch.zeros(16)

    def forward(self, tokens):
        x = self.embedding(tokens) * self.frozen * self.scale + self.shift
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(x + torch.softmax(q @ k.mT, dim=-1) @ v)


def tied():
    torch.manual_seed(0)
    return TiedModel(), (torch.randint(0, 50, (2, 8)),), lambda out: out.logsumexp(-1).mean()


MODELS = {"resnet": resnet, "transformer": transformer, "tied": tied}
