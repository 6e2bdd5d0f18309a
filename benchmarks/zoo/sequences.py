"""Networks on texts, sounds and steps: batch and length are free."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.zoo.blocks import Outputs
from benchmarks.zoo.network import Input, Network

TEXTS = tuple({"batch": n, "length": length} for n, length in ((1, 64), (4, 32), (1, 200)))
STEPS = tuple({"batch": n, "length": length} for n, length in ((1, 100), (8, 50), (1, 333)))
SOUNDS = tuple({"batch": n, "length": length} for n, length in ((1, 8000), (2, 4000), (1, 16000)))
TOKENS = {
    "ids": Input(("batch", "length"), "int64", 1000),
    "mask": Input(("batch", "length"), "int64", 2),
}


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        attn_implementation="eager",
    )
    return Outputs(BertModel(config), ("last_hidden_state", "pooler_output"))


class SentenceEncoder(nn.Module):
    """Means of what is not padding."""

    def __init__(self):
        super().__init__()
        from transformers import DistilBertConfig, DistilBertModel

        config = DistilBertConfig(vocab_size=1000, n_layers=3, n_heads=4, dim=192, hidden_dim=768)
        self.inner = DistilBertModel(config)

    def forward(self, ids, mask):
        states = self.inner(ids, mask).last_hidden_state
        weights = mask.unsqueeze(-1).float()
        return F.normalize((states * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=-1)


class RootMeanSquare(nn.Module):
    """A norm without a mean, as decoders of language write it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Rotary(nn.Module):
    """A decoder with grouped heads, rotated positions and a cache that grows."""

    def __init__(self, width=256, heads=8, groups=2, layers=2, vocabulary=1000):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        self.heads, self.groups, self.size = heads, groups, size
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": RootMeanSquare(width),
                    "q": nn.Linear(width, width, bias=False),
                    "k": nn.Linear(width, groups * size, bias=False),
                    "v": nn.Linear(width, groups * size, bias=False),
                    "o": nn.Linear(width, width, bias=False),
                    "norm2": RootMeanSquare(width),
                    "gate": nn.Linear(width, 3 * width, bias=False),
                    "up": nn.Linear(width, 3 * width, bias=False),
                    "down": nn.Linear(3 * width, width, bias=False),
                }
            )
            for _ in range(layers)
        )
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, size, 2).float() / size))

    def rotated(self, x, angles):
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, ids, past):
        n, length = ids.shape
        seen = past.shape[4]
        places = torch.arange(length) + seen
        angles = places.float().unsqueeze(-1) * self.rates
        hidden = places.unsqueeze(-1) >= torch.arange(length + seen)
        x, kept = self.embed(ids), []
        for layer, old in zip(self.layers, past, strict=True):
            y = layer["norm1"](x)
            q = layer["q"](y).view(n, length, self.heads, self.size).transpose(1, 2)
            k, v = (layer[name](y).view(n, length, self.groups, self.size).transpose(1, 2) for name in "kv")
            k, v = torch.cat([old[0], self.rotated(k, angles)], 2), torch.cat([old[1], v], 2)
            kept.append(torch.stack([k, v]))
            times = self.heads // self.groups
            wide = [
                t.unsqueeze(2).expand(-1, -1, times, -1, -1).reshape(n, self.heads, -1, self.size)
                for t in (k, v)
            ]
            scores = self.rotated(q, angles) @ wide[0].transpose(2, 3) * self.size**-0.5
            y = torch.softmax(scores.masked_fill(~hidden, -1e9), -1) @ wide[1]
            x = x + layer["o"](y.transpose(1, 2).reshape(n, length, -1))
            y = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.out(x), torch.stack(kept)


def t5_encoder():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=1000,
        d_model=192,
        d_kv=32,
        d_ff=512,
        num_layers=3,
        num_heads=6,
        feed_forward_proj="gated-gelu",
    )
    return Outputs(T5EncoderModel(config), ("last_hidden_state",))


class Attend(nn.Module):
    """What some tokens make of others."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.q, self.kv, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, other, hidden=None):
        q = self.split(self.q(self.norm(x)))
        k, v = (self.split(part) for part in self.kv(other).chunk(2, -1))
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
        y = torch.softmax(scores, -1) @ v
        return x + self.out(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class Translator(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed, self.out = nn.Embedding(1000, width), nn.Linear(width, 1000)
        self.source = nn.ModuleList(Attend(width, 4) for _ in range(2))
        self.target = nn.ModuleList(Attend(width, 4) for _ in range(4))
        self.feed = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, width))
            for _ in range(4)
        )

    def forward(self, source, target):
        x, y = self.embed(source), self.embed(target)
        steps = torch.arange(target.shape[1])
        later = steps.unsqueeze(0) > steps.unsqueeze(1)
        for attend, feed in zip(self.source, self.feed[:2], strict=True):
            x = attend(x, x)
            x = x + feed(x)
        for k, feed in enumerate(self.feed[2:]):
            y = self.target[2 * k + 1](self.target[2 * k](y, y, later), x)
            y = y + feed(y)
        return self.out(y)


def whisper_encoder():
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=1000,
        num_mel_bins=80,
        encoder_layers=3,
        encoder_attention_heads=4,
        decoder_layers=1,
        decoder_attention_heads=4,
        d_model=192,
        encoder_ffn_dim=768,
        max_source_positions=200,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        attn_implementation="eager",
    )
    return Outputs(WhisperModel(config).encoder, ("last_hidden_state",))


class Conformer(nn.Module):
    def __init__(self, width=144):
        super().__init__()
        self.first = nn.Linear(80, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
        )
        self.norm, self.attend = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.before, self.point = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, 15, 1, 7, groups=width)
        self.batch, self.after = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.out = nn.Linear(width, 128)

    def forward(self, x):
        x = self.first(x)
        for _ in range(2):
            x = x + 0.5 * self.feed(x)
            y = self.norm(x)
            x = x + self.attend(y, y, y, need_weights=False)[0]
            y = F.glu(self.point(self.before(x).transpose(1, 2)), 1)
            x = x + self.after(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
            x = x + 0.5 * self.feed(x)
        return self.out(x).log_softmax(-1)


class VoiceDetector(nn.Module):
    """One chunk of sound, and a state that the caller keeps."""

    def __init__(self):
        super().__init__()
        self.basis = nn.Conv1d(1, 130, 128, 64, bias=False)
        self.body = nn.Sequential(
            nn.Conv1d(65, 64, 3, 1, 1), nn.ReLU(), nn.Conv1d(64, 64, 3, 2, 1), nn.ReLU()
        )
        self.rnn, self.out = nn.LSTM(64, 64, batch_first=True), nn.Conv1d(64, 1, 1)

    def forward(self, x, h, c):
        real, imaginary = self.basis(F.pad(x, (32, 32), mode="reflect").unsqueeze(1)).chunk(2, 1)
        y = self.body(torch.sqrt(real**2 + imaginary**2))
        y, (h, c) = self.rnn(y.transpose(1, 2), (h, c))
        return torch.sigmoid(self.out(F.relu(y).transpose(1, 2))).mean(2), h, c


class KeywordSpotter(nn.Module):
    def __init__(self):
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
        for _ in range(4):
            parts += [nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
            parts += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
        self.body, self.out = nn.Sequential(*parts), nn.Linear(64, 12)

    def forward(self, x):
        return self.out(self.body(x.unsqueeze(1)).mean((2, 3)))


class Causal(nn.Module):
    """Convolutions that see the past, twice as far each."""

    def __init__(self, ins, width, layers):
        super().__init__()
        self.first = nn.Conv1d(ins, width, 1)
        self.parts = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, dilation=2**k) for k in range(layers))
        self.points = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.out = nn.Conv1d(width, ins, 1)

    def forward(self, x):
        x, total = self.first(x), 0.0
        for k, (part, point) in enumerate(zip(self.parts, self.points, strict=True)):
            y = point(F.glu(part(F.pad(x, (2 * 2**k, 0))), 1))
            x, total = x + y, total + y
        return self.out(F.relu(total))


class Separator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = (
            nn.Conv1d(1, 128, 16, 8, bias=False),
            nn.ConvTranspose1d(128, 1, 16, 8, bias=False),
        )
        self.norm, self.first = nn.GroupNorm(1, 128), nn.Conv1d(128, 64, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(64, 128, 1),
                nn.PReLU(),
                nn.GroupNorm(1, 128),
                nn.Conv1d(128, 128, 3, 1, 2**k, 2**k, 128),
                nn.PReLU(),
                nn.GroupNorm(1, 128),
                nn.Conv1d(128, 64, 1),
            )
            for k in range(5)
        )
        self.mask = nn.Conv1d(64, 256, 1)

    def forward(self, x):
        coded = self.encode(x.unsqueeze(1))
        y = self.first(self.norm(coded))
        for block in self.blocks:
            y = y + block(y)
        n, _, frames = coded.shape
        masks = torch.sigmoid(self.mask(y)).view(n, 2, 128, frames) * coded.unsqueeze(1)
        return self.decode(masks.reshape(2 * n, 128, frames)).view(n, 2, -1)


class Demucs(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [1, 16, 32, 64]
        self.down = nn.ModuleList(nn.Conv1d(i, o, 8, 4, 2) for i, o in itertools.pairwise(sizes))
        self.up = nn.ModuleList(nn.ConvTranspose1d(o, i, 8, 4, 2) for i, o in itertools.pairwise(sizes))
        self.rnn, self.mix = nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 64)

    def forward(self, x):
        x, kept = x.unsqueeze(1), []
        for step in self.down:
            x = F.relu(step(x))
            kept.append(x)
        x = self.mix(self.rnn(x.transpose(1, 2))[0]).transpose(1, 2)
        for k in (2, 1, 0):
            x = self.up[k](x + kept[k][..., : x.shape[-1]])
            x = F.relu(x) if k else x
        return x.squeeze(1)


class Gru(nn.Module):
    """Sequences of several lengths: what lies behind an end is not read."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(40, 128, 2, batch_first=True), nn.Linear(128, 30)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(y)


class SmallLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


class Forecaster(nn.Module):
    """Patches of a series as tokens."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 128)
        layer = nn.TransformerEncoderLayer(128, 8, 256, batch_first=True, norm_first=True)
        self.inner, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 24)

    def forward(self, x):
        mean, deviation = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        y = self.inner(self.first(((x - mean) / deviation).unfold(1, 16, 16)))
        return self.out(y.mean(1)) * deviation + mean


SOUND = {"x": Input(("batch", "length"))}
SEQUENCES: tuple[Network, ...] = (
    Network("bert", "text encoder", TOKENS, TEXTS, bert, outputs=("states", "pooled")),
    Network("sentence-encoder", "text encoder", TOKENS, TEXTS, SentenceEncoder),
    Network(
        "rotary-decoder",
        "decoder",
        {"ids": Input(("batch", "length"), "int64", 1000), "past": Input((2, 2, "batch", 2, "past", 32))},
        tuple({"batch": n, "length": k, "past": p} for n, k, p in ((1, 1, 64), (1, 48, 1), (4, 1, 31))),
        Rotary,
        outputs=("y", "kept"),
    ),
    Network("t5-encoder", "encoder-decoder", TOKENS, TEXTS, t5_encoder),
    Network(
        "translator",
        "encoder-decoder",
        {
            "source": Input(("batch", "length"), "int64", 1000),
            "target": Input(("batch", "steps"), "int64", 1000),
        },
        tuple({"batch": n, "length": a, "steps": b} for n, a, b in ((1, 40, 20), (4, 30, 30), (1, 100, 7))),
        Translator,
    ),
    Network(
        "whisper-encoder",
        "speech",
        {"x": Input(("batch", 80, 400))},
        ({"batch": 1}, {"batch": 2}),
        whisper_encoder,
    ),
    Network("conformer", "speech", {"x": Input(("batch", "length", 80))}, STEPS, Conformer, dynamo=True),
    Network(
        "voice-detector",
        "voice activity",
        {"x": Input(("batch", 576)), "h": Input((1, "batch", 64)), "c": Input((1, "batch", 64))},
        ({"batch": 1}, {"batch": 8}),
        VoiceDetector,
        outputs=("y", "hn", "cn"),
    ),
    Network(
        "keyword-spotter",
        "keyword spotting",
        {"x": Input(("batch", "length", 40))},
        STEPS[:2],
        KeywordSpotter,
    ),
    Network(
        "causal-convolutions",
        "1-D convolution",
        {"x": Input(("batch", 8, "length"))},
        STEPS,
        lambda: Causal(8, 64, 6),
    ),
    Network(
        "wavenet",
        "1-D convolution",
        {"x": Input(("batch", 1, "length"))},
        SOUNDS[:2],
        lambda: Causal(1, 32, 9),
    ),
    Network("separator", "audio separation", SOUND, SOUNDS, Separator),
    Network(
        "demucs",
        "audio separation",
        SOUND,
        ({"batch": 1, "length": 4096}, {"batch": 2, "length": 2048}),
        Demucs,
    ),
    Network(
        "gru-lengths",
        "recurrent",
        {"x": Input(("batch", "length", 40)), "lengths": Input(("batch",), "int64", 30)},
        STEPS[:2],
        Gru,
    ),
    Network("small-lstm", "recurrent", {"x": Input(("batch", "length", 16))}, STEPS, SmallLstm),
    Network(
        "forecaster", "time series", {"x": Input(("batch", 96))}, ({"batch": 1}, {"batch": 32}), Forecaster
    ),
)
