"""A stack of layers trained by hand as the pieces of a step: kernels with out= over tensors of fixed addresses, for
tidemark.CapturedPieces, and the same over ordinary tensors."""

import functools

import torch
from tidemark.captured_pieces import PieceTensor

LAYERS, BATCH, WIDTH = 6, 1024, 512
PIECES = 2 * LAYERS
RATE, MOMENTUM = 0.05, 0.5


def back(layer):
    """The piece of a layer's backward; a layer's number is the piece of its forward."""
    return PIECES - 1 - layer


def layer_tensors():
    """Of a stack of layers: activations `h`, gradients of them `d` from one backward piece to the next, weights `w` on the
    device, momenta `m` in host memory."""
    tensors = {
        "x": PieceTensor((BATCH, WIDTH), reads=(0, back(0)), between="device"),
        "norm": PieceTensor((1,), writes=(LAYERS - 1,), between="device"),
    }
    for layer in range(LAYERS):
        here, last = back(layer), layer == LAYERS - 1
        above = () if last else (layer + 1, here - 1)
        tensors[f"h{layer}"] = PieceTensor((BATCH, WIDTH), writes=(layer,), reads=(*above, here))
        given = () if last else (here - 1,)
        tensors[f"d{layer}"] = PieceTensor((BATCH, WIDTH), writes=(*given, here), reads=given and (here,))
        tensors[f"w{layer}"] = PieceTensor((WIDTH, WIDTH), writes=(here,), reads=(layer, here), between="device")
        tensors[f"m{layer}"] = PieceTensor((WIDTH, WIDTH), writes=(here,), reads=(here,), between="host")
        tensors[f"dw{layer}"] = PieceTensor((WIDTH, WIDTH), writes=(here,))
    return tensors


def capture_forward(tensors, layer):
    source = tensors["x"] if layer == 0 else tensors[f"h{layer - 1}"]
    out = tensors[f"h{layer}"]
    yield functools.partial(torch.mm, source, tensors[f"w{layer}"], out=out)
    yield functools.partial(torch.tanh, out, out=out)
    if layer == LAYERS - 1:  # the loss: half of the sum of squares over the batch
        yield functools.partial(torch.linalg.vector_norm, out, dim=(0, 1), out=tensors["norm"].view(()))


def capture_backward(tensors, layer):
    source = tensors["x"] if layer == 0 else tensors[f"h{layer - 1}"]
    out, gradient, weight = tensors[f"h{layer}"], tensors[f"d{layer}"], tensors[f"w{layer}"]
    momentum, change = tensors[f"m{layer}"], tensors[f"dw{layer}"]
    if layer == LAYERS - 1:
        yield functools.partial(torch.mul, out, 1 / BATCH, out=gradient)
    yield functools.partial(torch.ops.aten.tanh_backward, gradient, out, grad_input=gradient)
    if layer > 0:
        yield functools.partial(torch.mm, gradient, weight.t(), out=tensors[f"d{layer - 1}"])
    yield functools.partial(torch.mm, source.t(), gradient, out=change)
    yield functools.partial(torch.add, change, momentum, alpha=MOMENTUM, out=momentum)
    yield functools.partial(torch.sub, weight, momentum, alpha=RATE, out=weight)


def capture_layers(tensors):
    """The pieces, as kernels that have their tensors written into them."""
    forward = [list(capture_forward(tensors, layer)) for layer in range(LAYERS)]
    return forward + [list(capture_backward(tensors, layer)) for layer in reversed(range(LAYERS))]


def replay(kernels):
    for kernel in kernels:
        kernel()


def first_values():
    torch.manual_seed(0)
    for layer in range(LAYERS):
        yield f"w{layer}", torch.randn(WIDTH, WIDTH) / WIDTH**0.5
        yield f"m{layer}", torch.zeros(WIDTH, WIDTH)


def batches(count):
    torch.manual_seed(1)
    return [torch.randn(BATCH, WIDTH) for _ in range(count)]


def train_plainly(steps):
    """What training over ordinary tensors leaves, and the norms."""
    tensors = {name: torch.zeros(tensor.shape) for name, tensor in layer_tensors().items()}
    for name, value in first_values():
        tensors[name].copy_(value)
    pieces, norms = capture_layers(tensors), []
    for batch in batches(steps):
        tensors["x"].copy_(batch)
        for kernels in pieces:
            replay(kernels)
        norms.append(tensors["norm"].item())
    return {name: tensors[name].cpu() for name, _ in first_values()}, norms


def fill(captured):
    for name, value in first_values():
        captured.put(name, value)


def train(captured, launches, steps, look=lambda: None):
    """The norms. `launches`: by piece; `look` at every boundary."""
    norms = []
    for batch in batches(steps):
        captured.put("x", batch)
        for piece in captured.step():
            look()
            launches[piece]()
        look()
        norms.append(captured.content("norm").item())
    return norms
