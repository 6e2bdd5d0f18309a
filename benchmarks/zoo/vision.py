"""Networks on images: batch, height and width are free where their users leave them free."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.zoo.blocks import (
    ChannelNorm,
    Head,
    InvertedResidual,
    Outputs,
    Residual,
    SqueezeExcite,
    conv,
    upsampled,
)
from benchmarks.zoo.network import Input, Network

CLASSIFIED = tuple(
    {"batch": n, "height": h, "width": w} for n, h, w in ((1, 224, 224), (4, 160, 160), (1, 192, 320))
)
IMAGES = tuple({"batch": 1, "height": h, "width": w} for h, w in ((256, 256), (192, 320), (512, 384)))
IMAGE = {"x": Input(("batch", 3, "height", "width"))}


def resnet18():
    stem = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    plan = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
    ]
    return Head(nn.Sequential(*stem, *(Residual(*item) for item in plan), Residual(512, 512)), 512)


def mobilenet_v3():
    plan = [(16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1), (80, 112, 1)]
    parts = [InvertedResidual(i, o, s, 4, 5 if o == 40 else 3, nn.Hardswish) for i, o, s in plan]
    return Head(nn.Sequential(conv(3, 16, 3, 2, act=nn.Hardswish), *parts), 112)


def efficientnet():
    plan = [
        (32, 16, 1),
        (16, 24, 2),
        (24, 24, 1),
        (24, 40, 2),
        (40, 40, 1),
        (40, 80, 2),
        (80, 80, 1),
        (80, 192, 2),
    ]
    parts = [InvertedResidual(i, o, s, 6, 5 if o in (40, 80) else 3) for i, o, s in plan]
    return Head(nn.Sequential(conv(3, 32, 3, 2, act=nn.SiLU), *parts), 192)


class ConvNextBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, 1, 3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.mlp(y) * self.scale).permute(0, 3, 1, 2)


def convnext():
    parts: list[nn.Module] = [nn.Conv2d(3, 48, 4, 4), ChannelNorm(48)]
    for ins, outs in ((48, 96), (96, 192)):
        parts += [ConvNextBlock(ins), ConvNextBlock(ins), ChannelNorm(ins), nn.Conv2d(ins, outs, 2, 2)]
    return Head(nn.Sequential(*parts, ConvNextBlock(192), ChannelNorm(192)), 192)


class ShuffleUnit(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            conv(half, half, 1), conv(half, half, 3, 1, half, None), conv(half, half, 1)
        )

    def forward(self, x):
        kept, changed = x.chunk(2, 1)
        y = torch.cat([kept, self.body(changed)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2():
    parts: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    for ins, outs in ((24, 116), (116, 232), (232, 464)):
        parts += [conv(ins, outs, 3, 2), ShuffleUnit(outs), ShuffleUnit(outs)]
    return Head(nn.Sequential(*parts), 464)


def regnet():
    plan = [(32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 288, 2)]
    parts = [nn.Sequential(Residual(i, o, s, 8), SqueezeExcite(o, o // 4)) for i, o, s in plan]
    return Head(nn.Sequential(conv(3, 32, 3, 2), *parts), 288)


class DenseLayer(nn.Module):
    def __init__(self, ins):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(ins), nn.ReLU(), nn.Conv2d(ins, 64, 1), nn.ReLU(), nn.Conv2d(64, 16, 3, 1, 1)
        )

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet():
    parts: list[nn.Module] = [conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 32
    for _ in range(3):
        for _ in range(6):
            parts.append(DenseLayer(channels))
            channels += 16
        parts += [conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
        channels //= 2
    return Head(nn.Sequential(*parts), channels)


def vit():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=768,
        attn_implementation="eager",
    )
    return Outputs(ViTModel(config), ("pooler_output",))


def swin():
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=224, embed_dim=48, depths=[2, 2], num_heads=[3, 6], window_size=7)
    return Outputs(SwinModel(config), ("pooler_output",))


class Pyramid(nn.Module):
    """A backbone of four steps and what a feature pyramid makes of it."""

    def __init__(self, width=32, outs=64):
        super().__init__()
        sizes = [width, width * 2, width * 4, width * 8]
        self.stem = conv(3, width, 7, 2)
        self.steps = nn.ModuleList(Residual(i, o, 2) for i, o in zip([width, *sizes], sizes, strict=False))
        self.sides = nn.ModuleList(nn.Conv2d(size, outs, 1) for size in sizes)
        self.smooth = nn.ModuleList(nn.Conv2d(outs, outs, 3, 1, 1) for _ in sizes)

    def forward(self, x):
        x, levels = self.stem(x), []
        for step in self.steps:
            x = step(x)
            levels.append(x)
        sides = [side(level) for side, level in zip(self.sides, levels, strict=True)]
        for k in range(len(sides) - 2, -1, -1):
            sides[k] = sides[k] + upsampled(sides[k + 1], sides[k])
        return [smooth(side) for smooth, side in zip(self.smooth, sides, strict=True)]


class TextDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.pyramid = Pyramid()
        self.head = nn.Sequential(
            conv(256, 64),
            nn.ConvTranspose2d(64, 32, 2, 2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 2, 2),
        )

    def forward(self, x):
        levels = self.pyramid(x)
        return torch.sigmoid(self.head(torch.cat([upsampled(level, levels[0]) for level in levels], 1)))


class Detector(nn.Module):
    """Boxes and scores of all levels; with `keeps`, the best of them without overlaps."""

    def __init__(self, keeps=False):
        super().__init__()
        self.pyramid, self.keeps = Pyramid(24, 64), keeps
        self.out = nn.Conv2d(64, 3 * 9, 1)

    def forward(self, x):
        found = []
        for level in self.pyramid(x):
            y = self.out(level)
            found.append(y.view(y.shape[0], 3, 9, -1).permute(0, 1, 3, 2).reshape(y.shape[0], -1, 9))
        y = torch.cat(found, 1).sigmoid()
        center, size = y[..., :2] * 2 - 0.5, (y[..., 2:4] * 2) ** 2
        boxes, scores = torch.cat([center - size / 2, center + size / 2], -1), y[..., 4:5] * y[..., 5:]
        if not self.keeps:
            return torch.cat([boxes, scores], -1)
        best, which = scores.max(-1)
        top, at = best.topk(100, 1)
        return boxes.gather(1, at.unsqueeze(-1).expand(-1, -1, 4)), top, which.gather(1, at)


class C3(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.left, self.right = conv(channels, half, 1, act=nn.SiLU), conv(channels, half, 1, act=nn.SiLU)
        self.body = nn.Sequential(conv(half, half, 1, act=nn.SiLU), conv(half, half, 3, act=nn.SiLU))
        self.out = conv(channels, channels, 1, act=nn.SiLU)

    def forward(self, x):
        left = self.left(x)
        return self.out(torch.cat([left + self.body(left), self.right(x)], 1))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        act = nn.SiLU
        self.a = nn.Sequential(
            conv(3, 16, 6, 2, act=act),
            conv(16, 32, 3, 2, act=act),
            C3(32),
            conv(32, 64, 3, 2, act=act),
            C3(64),
        )
        self.b = nn.Sequential(conv(64, 128, 3, 2, act=act), C3(128))
        self.c = nn.Sequential(conv(128, 256, 3, 2, act=act), C3(256))
        self.pools = nn.ModuleList(nn.MaxPool2d(5, 1, 2) for _ in range(3))
        self.join = conv(1024, 128, 1, act=act)
        self.mix = nn.Sequential(conv(256, 64, 1, act=act), C3(64))
        self.outs = nn.ModuleList(nn.Conv2d(channels, 3 * 85, 1) for channels in (64, 128))

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        c = self.c(b)
        pools = [c]
        for pool in self.pools:
            pools.append(pool(pools[-1]))
        deep = self.join(torch.cat(pools, 1))
        mixed = self.mix(torch.cat([upsampled(deep, b), b], 1))
        found = []
        for out, level in zip(self.outs, (mixed, deep), strict=True):
            y = out(level)
            n, _, h, w = y.shape
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack([columns, rows], -1).view(1, 1, h, w, 2).float()
            y = y.view(n, 3, 85, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            y = torch.cat([y[..., :2] * 2 - 0.5 + grid, (y[..., 2:4] * 2) ** 2, y[..., 4:]], -1)
            found.append(y.reshape(n, -1, 85))
        return torch.cat(found, 1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        pair = lambda i, o: nn.Sequential(conv(i, o), conv(o, o))  # noqa: E731
        sizes = [24, 48, 96, 192]
        self.down = nn.ModuleList(pair(i, o) for i, o in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in itertools.pairwise(sizes))
        self.mix = nn.ModuleList(pair(2 * i, i) for i in sizes[:-1])
        self.out = nn.Conv2d(24, 5, 1)

    def forward(self, x):
        kept = []
        for k, step in enumerate(self.down):
            x = step(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k in (2, 1, 0):
            x = self.mix[k](torch.cat([self.up[k](x), kept[k]], 1))
        return self.out(x)


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, 32, 3, 2), Residual(32, 64, 2), Residual(64, 128, 2), Residual(128, 128)
        )
        self.rates = nn.ModuleList(nn.Conv2d(128, 64, 3, 1, rate, rate) for rate in (6, 12, 18))
        self.whole, self.point = nn.Conv2d(128, 64, 1), nn.Conv2d(128, 64, 1)
        self.out = nn.Sequential(conv(320, 64, 1), nn.Conv2d(64, 21, 1))

    def forward(self, x):
        y = self.body(x)
        whole = F.interpolate(self.whole(y.mean((2, 3), keepdim=True)), size=y.shape[2:], mode="bilinear")
        y = self.out(torch.cat([self.point(y), *(rate(y) for rate in self.rates), whole], 1))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


def segformer():
    # The package's own names want torchvision, for images that nobody reads here.
    from transformers.models.segformer.configuration_segformer import SegformerConfig
    from transformers.models.segformer.modeling_segformer import SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[32, 64, 160, 256], decoder_hidden_size=64, num_labels=19
    )
    return Outputs(SegformerForSemanticSegmentation(config), ("logits",))


class Pose(nn.Module):
    """Two resolutions that exchange what they know."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2))
        self.split, self.fine, self.coarse = conv(32, 64, 3, 2), Residual(32, 32), Residual(64, 64)
        self.up, self.down = conv(64, 32, 1, act=None), conv(32, 64, 3, 2, act=None)
        self.out = nn.Conv2d(32, 17, 1)

    def forward(self, x):
        fine = self.stem(x)
        coarse = self.split(fine)
        for _ in range(2):
            a, b = self.fine(fine), self.coarse(coarse)
            fine, coarse = F.relu(a + upsampled(self.up(b), a)), F.relu(b + self.down(a))
        return self.out(fine)


def espcn():
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, 1, 2),
        nn.Tanh(),
        nn.Conv2d(64, 32, 3, 1, 1),
        nn.Tanh(),
        nn.Conv2d(32, 27, 3, 1, 1),
        nn.PixelShuffle(3),
    )


class Edsr(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, 1, 1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.PReLU(64), nn.Conv2d(64, 64, 3, 1, 1))
            for _ in range(4)
        )
        self.out = nn.Sequential(nn.Conv2d(64, 256, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(64, 3, 3, 1, 1))

    def forward(self, x):
        first = y = self.first(x)
        for part in self.body:
            y = y + part(y) * 0.1
        return self.out(y + first)


def dcgan():
    parts: list[nn.Module] = []
    for ins, outs in ((100, 256), (256, 128), (128, 64), (64, 32)):
        stride, padding = (1, 0) if ins == 100 else (2, 1)
        parts += [
            nn.ConvTranspose2d(ins, outs, 4, stride, padding, bias=False),
            nn.BatchNorm2d(outs),
            nn.ReLU(),
        ]
    return nn.Sequential(*parts, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())


class GroupBlock(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, ins),
            nn.SiLU(),
            nn.Conv2d(ins, outs, 3, 1, 1),
            nn.GroupNorm(8, outs),
            nn.SiLU(),
            nn.Conv2d(outs, outs, 3, 1, 1),
        )
        self.skip = nn.Identity() if ins == outs else nn.Conv2d(ins, outs, 1)

    def forward(self, x):
        return self.skip(x) + self.body(x)


class PixelAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(8, channels),
            nn.Conv2d(channels, 3 * channels, 1),
            nn.Conv2d(channels, channels, 1),
        )

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).transpose(2, 3).unbind(1)
        y = torch.softmax(q @ k.transpose(1, 2) * c**-0.5, -1) @ v
        return x + self.out(y.transpose(1, 2).reshape(n, c, h, w))


class VaeDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(4, 128, 3, 1, 1), GroupBlock(128, 128), PixelAttention(128))
        self.parts = nn.ModuleList([GroupBlock(128, 128), GroupBlock(128, 64), GroupBlock(64, 32)])
        self.out = nn.Sequential(nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 3, 3, 1, 1))

    def forward(self, x):
        x = self.first(x)
        for part in self.parts:
            x = part(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.out(x)


class Video(nn.Module):
    """Convolutions over time too."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, 16, 3, (1, 2, 2), 1),
            nn.BatchNorm3d(16),
            nn.ReLU(),
            nn.Conv3d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Conv3d(32, 64, 3, 2, 1),
            nn.ReLU(),
        )
        self.out = nn.Linear(64, 101)

    def forward(self, x):
        return self.out(self.body(x).mean((2, 3, 4)))


class TextRecogniser(nn.Module):
    """Columns of a line of text, read both ways."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, 32),
            nn.MaxPool2d(2),
            conv(32, 64),
            nn.MaxPool2d(2),
            conv(64, 128),
            nn.MaxPool2d((2, 1)),
            conv(128, 128),
            nn.MaxPool2d((4, 1)),
        )
        self.rnn, self.out = nn.LSTM(128, 96, bidirectional=True), nn.Linear(192, 97)

    def forward(self, x):
        y = self.body(x).squeeze(2).permute(2, 0, 1)
        return self.out(self.rnn(y)[0]).log_softmax(-1)


LATENTS = tuple({"batch": 1, "height": h, "width": w} for h, w in ((32, 32), (24, 40), (16, 16)))
SMALL = tuple({"batch": n, "height": h, "width": w} for n, h, w in ((1, 96, 96), (1, 120, 64), (4, 48, 48)))
LINES = tuple({"batch": n, "width": w} for n, w in ((1, 160), (8, 320), (1, 96)))
BATCHES = tuple({"batch": n} for n in (1, 4, 16))

VISION: tuple[Network, ...] = (
    Network("resnet18", "classification", IMAGE, CLASSIFIED, resnet18),
    Network("mobilenet-v3", "classification", IMAGE, CLASSIFIED, mobilenet_v3),
    Network("efficientnet", "classification", IMAGE, CLASSIFIED, efficientnet),
    Network("convnext", "classification", IMAGE, CLASSIFIED, convnext),
    Network("shufflenet-v2", "classification", IMAGE, CLASSIFIED, shufflenet_v2),
    Network("regnet", "classification", IMAGE, CLASSIFIED, regnet),
    Network("densenet", "classification", IMAGE, CLASSIFIED, densenet),
    Network("vit", "classification", {"x": Input(("batch", 3, 224, 224))}, BATCHES[:2], vit),
    Network("swin", "classification", {"x": Input(("batch", 3, 224, 224))}, BATCHES[:2], swin),
    Network("text-detector", "OCR", IMAGE, IMAGES, TextDetector),
    Network("text-recogniser", "OCR", {"x": Input(("batch", 3, 32, "width"))}, LINES, TextRecogniser),
    Network("detector", "detection", IMAGE, IMAGES, Detector),
    Network(
        "detector-top",
        "detection",
        IMAGE,
        IMAGES,
        lambda: Detector(True),
        outputs=("boxes", "scores", "classes"),
    ),
    Network("yolo", "detection", IMAGE, IMAGES, Yolo),
    Network("unet", "segmentation", IMAGE, IMAGES, UNet),
    Network("deeplab", "segmentation", IMAGE, IMAGES, DeepLab),
    Network("segformer", "segmentation", IMAGE, IMAGES, segformer),
    Network("pose", "pose", IMAGE, IMAGES, Pose),
    Network("espcn", "super-resolution", IMAGE, SMALL, espcn),
    Network("edsr", "super-resolution", IMAGE, SMALL, Edsr),
    Network("dcgan", "generation", {"x": Input(("batch", 100, 1, 1))}, BATCHES, dcgan),
    Network("vae-decoder", "generation", {"x": Input(("batch", 4, "height", "width"))}, LATENTS, VaeDecoder),
    Network(
        "video",
        "video",
        {"x": Input(("batch", 3, "time", 64, 64))},
        ({"batch": 1, "time": 16}, {"batch": 2, "time": 8}),
        Video,
    ),
)
