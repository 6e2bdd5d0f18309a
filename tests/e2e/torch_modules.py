"""Networks from their configurations, as PyTorch modules with random weights that are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """What a transformer's config is made from; the defaults are for tests."""

    layers: int = 2
    hidden: int = 32
    heads: int = 4
    vocabulary: int = 100
    positions: int = 64
    image: int = 32
    patch: int = 8


SMALL = Sizes()
BASE = Sizes(12, 768, 12, 30522, 512, 224, 16)
GPT2 = Sizes(12, 768, 12, 50257, 1024)


def torch_module(kind: str, sizes: Sizes = SMALL, attention: str = "eager") -> Any:
    """The module that `model_zoo.exported` writes, with the same weights; `attention` is how transformers
    computes it."""
    import torch

    torch.manual_seed(0)
    return _MODULES[kind](sizes, attention)


def _flat(module: Any, forward: Callable[..., Any]) -> Any:
    """A module with positional tensors in and tensors out: `forward(module, *tensors)`."""
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *tensors: Any) -> Any:
            return forward(self.inner, *tensors)

    return Flat().eval()


def _bert_module(sizes: Sizes, attention: str) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.hidden,
        max_position_embeddings=sizes.positions,
        attn_implementation=attention,
    )

    def forward(inner: Any, ids: Any, mask: Any, kinds: Any) -> Any:
        out = inner(input_ids=ids, attention_mask=mask, token_type_ids=kinds, return_dict=False)
        return out[0], out[1]

    return _flat(BertModel(config), forward)


def _gpt2_module(sizes: Sizes, attention: str) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.cache_utils import DynamicCache

    config = GPT2Config(
        vocab_size=sizes.vocabulary,
        n_positions=sizes.positions,
        n_embd=sizes.hidden,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        attn_implementation=attention,
    )

    def forward(inner: Any, ids: Any, mask: Any, positions: Any, *past: Any) -> Any:
        cache = DynamicCache()
        for layer in range(sizes.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = inner(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        )
        flat = [part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)]
        return (out.logits, *flat)

    return _flat(GPT2LMHeadModel(config), forward)


def _vit_module(sizes: Sizes, attention: str) -> Any:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.hidden,
        image_size=sizes.image,
        patch_size=sizes.patch,
        attn_implementation=attention,
    )

    def forward(inner: Any, pixels: Any) -> Any:
        out = inner(pixel_values=pixels, return_dict=False)
        return out[0], out[1]

    return _flat(ViTModel(config), forward)


def _resnet_module(sizes: Sizes, _attention: str) -> Any:
    """ResNet-50, whatever the sizes."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return _flat(_he_scaled(ResNetForImageClassification(ResNetConfig(num_labels=1000))), _logits)


def _mobilenet_module(sizes: Sizes, _attention: str) -> Any:
    """MobileNetV2 of width 1.0, whatever the sizes."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(num_labels=1000, tf_padding=False)
    return _flat(_he_scaled(MobileNetV2ForImageClassification(config)), _logits)


def _he_scaled(module: Any) -> Any:
    """Convolutions that keep the size of what goes through them: the default weights let it vanish."""
    import torch

    for part in module.modules():
        if isinstance(part, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
    return module


def _logits(inner: Any, pixels: Any) -> Any:
    return inner(pixel_values=pixels).logits


_MODULES: dict[str, Callable[[Sizes, str], Any]] = {
    "bert": _bert_module,
    "gpt2": _gpt2_module,
    "vit": _vit_module,
    "resnet": _resnet_module,
    "mobilenet": _mobilenet_module,
}
