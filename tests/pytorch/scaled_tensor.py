"""A quantised tensor as TransformerEngine's FP8 tensors are: two storages, the data in one byte a number and a scale, with
a number type of its own towards autograd."""

import torch
from torch import nn
from torch.utils._python_dispatch import return_and_correct_aliasing

ATEN = torch.ops.aten


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale, dtype):
        strides = data.stride()
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, strides=strides, dtype=dtype, device=data.device)

    def __init__(self, data, scale, dtype):
        self.data_bytes, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_bytes", "scale"], self.dtype

    @staticmethod
    def __tensor_unflatten__(parts, dtype, size, stride):
        return Scaled(parts["data_bytes"], parts["scale"], dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func in (ATEN.detach.default, ATEN.clone.default, ATEN.t.default, ATEN.view.default):
            whole = args[0]
            scale = whole.scale.clone() if func is ATEN.clone.default else whole.scale
            made = Scaled(func(whole.data_bytes, *args[1:], **(kwargs or {})), scale, whole.dtype)
            return return_and_correct_aliasing(func, args, kwargs, made)
        args = [arg.read() if isinstance(arg, Scaled) else arg for arg in args]
        return func(*args, **(kwargs or {}))

    def read(self):
        return self.data_bytes.to(self.dtype) * self.scale


def quantised(tensor):
    scale = tensor.detach().abs().amax().clamp(min=1e-12) / 127
    return Scaled((tensor.detach() / scale).round().to(torch.int8), scale, tensor.dtype)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x_small, weight_small = quantised(x), quantised(weight)
        ctx.save_for_backward(x_small, weight_small)
        return x_small.read() @ weight_small.read().t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        small = quantised(gradient)
        rows = small.read().flatten(0, -2)
        return small.read() @ weight.read(), rows.t() @ x.read().flatten(0, -2)


class ScaledLinear(nn.Linear):
    """Its product is of quantised tensors, which are what is saved for backward."""

    def forward(self, x):
        return _Product.apply(x, self.weight) + self.bias


class FrozenScaledLinear(nn.Module):
    """Its weight is a quantised parameter, read anew in each call."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(quantised(torch.randn(width, width) / width**0.5), requires_grad=False)

    def forward(self, x):
        return x @ self.weight.t()
