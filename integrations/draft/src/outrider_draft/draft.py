"""The draft's network: a Llama with few blocks and a small vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from outrider_draft.vocabulary import Vocabulary

LAYER_OF_LLAMA = ("llama", "mistral")
"""Families whose blocks are those of the draft, so that it can start from them."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a draft."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def weights(self, rows: int) -> int:
        """Number of weights, with an embedding table of `rows` that is the head as well."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return rows * self.hidden + self.layers * (attention + 3 * self.hidden * self.intermediate)


def shape_for(config: Any, size: int, rows: int) -> tuple[Shape, bool]:  # noqa: ANN401
    """Shape of about `size` weights, and whether it has blocks of the target's shape.

    Blocks of a Llama or Mistral are taken if the budget holds at least two of them next to the table. Otherwise at most
    about a third of the budget goes to the table and the rest to three blocks or more.

    Raises:
        ValueError: if the budget cannot hold the vocabulary and three blocks.

    """
    heads, hidden = int(config.num_attention_heads), int(config.hidden_size)
    head_dim = int(getattr(config, "head_dim", None) or hidden // heads)
    kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    target = Shape(hidden, int(config.intermediate_size), 0, heads, kv_heads, head_dim)
    one = Shape(target.hidden, target.intermediate, 1, heads, kv_heads, head_dim)
    layer = one.weights(0)
    layers = (size - target.weights(rows)) // layer
    if layers >= 2 and config.model_type in LAYER_OF_LLAMA and not getattr(config, "attention_bias", False):
        layers = min(int(layers), int(config.num_hidden_layers))
        return Shape(target.hidden, target.intermediate, layers, heads, kv_heads, head_dim), True
    for width in range(max(64, round(size / 3 / rows / 64) * 64), 0, -64):
        heads = width // 64
        kv_heads = max(count for count in range(1, max(1, heads // 3) + 1) if heads % count == 0)
        narrow = Shape(width, -(-width * 8 // 3 // 32) * 32, 1, heads, kv_heads, 64)
        blocks = (size - rows * width) / narrow.weights(0)
        if blocks >= 3:
            return replace(narrow, layers=round(blocks)), False
    raise ValueError(f"a draft of {size:,} weights cannot hold {rows:,} tokens and three blocks: raise --size, or "
                     "lower --vocabulary")  # fmt: skip


class Draft(nn.Module):
    """A Llama whose table has a row for each of its tokens and a last one for all others; the table is the head."""

    def __init__(self, shape: Shape, vocabulary: Vocabulary, target: Any) -> None:  # noqa: ANN401
        """Make a draft with random weights. `target` is the target's configuration."""
        super().__init__()
        self.shape, self.vocabulary = shape, vocabulary
        self.config = LlamaConfig(
            vocab_size=vocabulary.size + 1,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            max_position_embeddings=int(target.max_position_embeddings),
            rms_norm_eps=float(getattr(target, "rms_norm_eps", 1e-5)),
            rope_parameters={"rope_type": "default", "rope_theta": _theta(target)},
            attn_implementation="sdpa",
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None,
        )
        self.body = LlamaModel(self.config)
        self.register_buffer("rows", torch.from_numpy(vocabulary.rows), persistent=False)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """Logits `[k, size]` at `places`, indices into the flattened `[batch, length]` of target token ids `ids`."""
        hidden = self.body(input_ids=self.rows[ids], use_cache=False).last_hidden_state
        return hidden.flatten(0, 1)[places] @ self.body.embed_tokens.weight[: self.vocabulary.size].T

    def start_from(self, model: Any) -> None:  # noqa: ANN401
        """Copy blocks of the target, the first and the last and evenly between, its table's rows and its last norm."""
        source = model.base_model
        count, blocks = self.shape.layers, len(source.layers)
        chosen = np.unique(np.linspace(0, blocks - 1, count).round().astype(int))
        with torch.no_grad():
            table = model.get_output_embeddings().weight.float()
            tokens = torch.from_numpy(self.vocabulary.tokens).to(table.device)
            weight = self.body.embed_tokens.weight
            weight[:-1] = table[tokens].to(weight.device)
            weight[-1] = table.mean(0).to(weight.device)
            self.body.norm.weight.copy_(source.norm.weight.float())
            for block, index in zip(self.body.layers, chosen, strict=True):
                block.load_state_dict({name: w.float() for name, w in source.layers[int(index)].state_dict().items()})

    def go_on_from(
        self,
        known: Vocabulary,
        weights: dict[str, np.ndarray[Any, Any]],
        model: Any,  # noqa: ANN401
    ) -> None:
        """Take the weights of an earlier draft of the same shape; tokens that it did not know get the target's rows."""
        table = torch.from_numpy(weights["model.embed_tokens.weight"])
        mine = torch.from_numpy(known.rows[self.vocabulary.tokens])
        rows = torch.cat([table[mine], table[-1:]])
        source = model.get_output_embeddings().weight
        if source.shape[1] == table.shape[1]:
            new = torch.from_numpy(self.vocabulary.tokens)[mine == known.size]
            rows[:-1][mine == known.size] = source[new.to(source.device)].float().to(rows.device).detach()
        self.load({**weights, "model.embed_tokens.weight": rows.numpy()})

    def load(self, weights: dict[str, np.ndarray[Any, Any]]) -> None:
        """Take weights by their names in transformers, f32."""
        self.body.load_state_dict({name.removeprefix("model."): torch.from_numpy(w) for name, w in weights.items()})


def _theta(config: Any) -> float:  # noqa: ANN401
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0)
