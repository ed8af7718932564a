"""A model of the kernels of stand_in_kernels.cc, which run through torch_npu's queue of launches, and on the CPU as well."""

import contextlib

import torch

S = torch.ops.stand_in
NUMBERS = 1 << 18  # 1 MiB
WEIGHTS = NUMBERS // 16
LAYERS = 6


@torch.library.register_fake("stand_in::scale")
def _scale(x, w):
    return torch.empty_like(x)


@torch.library.register_fake("stand_in::product")
def _product(a, b):
    return torch.empty_like(a)


@torch.library.register_fake("stand_in::folded")
def _folded(a, b, like):
    return torch.empty_like(like)


@torch.library.register_fake("stand_in::total")
def _total(x):
    return x.new_empty(())


@torch.library.register_fake("stand_in::spread")
def _spread(gradient, like):
    return torch.empty_like(like)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _scale_back(ctx, gradient):
    x, w = ctx.saved_tensors
    return S.product(gradient, w), S.folded(gradient, x, w)


torch.library.register_autograd("stand_in::scale", _scale_back, setup_context=_save)
torch.library.register_autograd(
    "stand_in::total", lambda ctx, gradient: S.spread(gradient, *ctx.saved_tensors), setup_context=_save
)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(WEIGHTS) * 0.5 + 0.5)

    def forward(self, x):
        return S.scale(x, self.weight)


def build(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
    inputs = torch.rand(NUMBERS)
    return model.to(device), inputs.to(device)


def train(device, context=None, steps=4):
    """Losses and, at the end, parameters, in host memory."""
    model, inputs = build(device)
    one = torch.ones(()).to(device)
    losses = []
    with contextlib.nullcontext() if context is None else context(model):
        for _ in range(steps):
            loss = S.total(model(inputs))
            torch.autograd.backward(loss, one)
            losses.append(loss.detach().cpu())
            with torch.no_grad():
                for parameter in model.parameters():
                    S.step_(parameter, parameter.grad)
                    parameter.grad = None
            del loss
    return [*losses, *(p.detach().cpu() for p in model.parameters())]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
