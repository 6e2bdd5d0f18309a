"""Parts that several networks of the zoo are made of, as PyTorch modules."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def conv(
    ins: int, outs: int, size: int = 3, stride: int = 1, groups: int = 1, act: type | None = nn.ReLU
) -> nn.Module:
    parts = [nn.Conv2d(ins, outs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outs)]
    return nn.Sequential(*parts, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(ins, outs, 3, stride, groups), conv(outs, outs, 3, 1, groups, None))
        self.skip = nn.Identity() if ins == outs and stride == 1 else conv(ins, outs, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, hidden: int, gate: type = nn.Sigmoid) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, hidden, 1),
            nn.ReLU(),
            nn.Conv2d(hidden, channels, 1),
            gate(),
        )

    def forward(self, x):
        return x * self.gate(x)


class InvertedResidual(nn.Module):
    def __init__(
        self, ins: int, outs: int, stride: int = 1, grow: int = 4, size: int = 3, act: type = nn.SiLU
    ) -> None:
        super().__init__()
        hidden = ins * grow
        self.body = nn.Sequential(
            conv(ins, hidden, 1, act=act),
            conv(hidden, hidden, size, stride, hidden, act),
            SqueezeExcite(hidden, max(8, ins // 4), nn.Hardsigmoid if act is nn.Hardswish else nn.Sigmoid),
            conv(hidden, outs, 1, act=None),
        )
        self.keeps = ins == outs and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.keeps else self.body(x)


class Head(nn.Module):
    """Features to classes."""

    def __init__(self, body: nn.Module, channels: int, classes: int = 1000) -> None:
        super().__init__()
        self.body, self.out = body, nn.Linear(channels, classes)

    def forward(self, x):
        return self.out(self.body(x).mean((2, 3)))


class ChannelNorm(nn.Module):
    """Layer norm over channels of images."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Outputs(nn.Module):
    """Some outputs of a module of `transformers`."""

    def __init__(self, inner: nn.Module, names: tuple[str, ...], **given: object) -> None:
        super().__init__()
        self.inner, self.names, self.given = inner, names, given

    def forward(self, *args):
        found = self.inner(*args, **self.given)
        out = tuple(getattr(found, name) for name in self.names)
        return out[0] if len(out) == 1 else out


def upsampled(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=like.shape[2:], mode="nearest")
