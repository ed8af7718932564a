"""Trains a small language model, byte by byte, on the sources of Python's own library. Seconds on a CPU; nothing is fetched."""

import json
import logging

import torch
from torch import nn

LENGTH, BATCH, STEPS, WIDTH = 128, 16, 12, 128


class Decoder(nn.Module):
    """Bytes to the loss of the byte that comes next."""

    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        hidden = self.bytes(text) + self.places.weight
        logits = self.head(self.layers(hidden, mask=mask, is_causal=True))
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten())


def batch(step):
    with open(json.decoder.__file__, "rb") as source:
        text = torch.frombuffer(bytearray(source.read()), dtype=torch.uint8).long()
    begins = torch.randint(len(text) - LENGTH, (BATCH,), generator=torch.Generator().manual_seed(step))
    return torch.stack([text[begin : begin + LENGTH] for begin in begins])


logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def train():
    for step in range(STEPS):
        loss = model(batch(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step:2}  loss {loss.item():.9f}", flush=True)


train()
