"""Files of a draft: a safetensors folder and GGUF files.

A vocabulary of `n` of the target's tokens is stored as EAGLE-3 checkpoints store it: `draft_vocab_size` in the
settings, and `d2t`, int64 `[n]`, the difference between each row's token and the row. `vocab_size` is the target's.
Where the embedding table has `n + 1` rows instead of the target's, the last one stands for every other token.
`guess_chance` has the weights of `report.guess_chance`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from outrider_draft.draft import Draft, Shape
from outrider_draft.target import Target
from outrider_draft.vocabulary import Vocabulary

TYPES = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
FILE_TYPES = {"q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
LAYER_TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
Array = np.ndarray[Any, Any]


def settings(draft: Draft, target: Target) -> dict[str, Any]:
    """The draft's `config.json`."""
    shape, config = draft.shape, draft.config
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": draft.vocabulary.target_size,
        "draft_vocab_size": draft.vocabulary.size,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_parameters["rope_theta"],
        "tie_word_embeddings": True,
        "bos_token_id": target.tokenizer.bos_token_id,
        "eos_token_id": target.end_of_turn,
    }


def weights(draft: Draft) -> dict[str, Array]:
    """The draft's tensors, f32, by their names in transformers."""
    return {f"model.{name}": w.detach().float().cpu().numpy() for name, w in draft.body.state_dict().items()}


def write_folder(draft: Draft, target: Target, folder: Path, chance: dict[str, float] | None = None) -> None:
    """Write `config.json`, `model.safetensors` (f16) and the target's tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    config = settings(draft, target) | ({"guess_chance": chance} if chance else {})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors: dict[str, Array] = {name: w.astype(np.float16) for name, w in weights(draft).items()}
    tensors["d2t"] = draft.vocabulary.d2t.astype(np.int64)
    save_file(tensors, folder / "model.safetensors")
    target.tokenizer.save_pretrained(folder)


def write_gguf(draft: Draft, target: Target, path: Path, kind: str, chance: dict[str, float] | None = None) -> None:
    """Write a GGUF file without a tokenizer; its matrices have the type `kind`, `q8_0` or `q4_0`."""
    config = settings(draft, target)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(f"Draft for {target.name}")
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_uint32("llama.draft_vocab_size", config["draft_vocab_size"])
    for term, value in (chance or {}).items():
        writer.add_float32(f"llama.guess_chance.{term}", value)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config["bos_token_id"] is not None:
        writer.add_bos_token_id(config["bos_token_id"])
    # Without it readers take it that every text begins with that token.
    writer.add_add_bos_token(target.begins_texts)
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_tensor("d2t", draft.vocabulary.d2t.astype(np.int64))
    for name, weight in weights(draft).items():
        weight = _as_gguf(name, weight, draft)  # noqa: PLW2901
        chosen = TYPES[kind] if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(weight), chosen)
        writer.add_tensor(_gguf_name(name), data, raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_gguf(path: Path) -> tuple[Shape, Vocabulary, dict[str, Array]]:
    """Shape, vocabulary and weights, f32 by their names in transformers, of a file that `write_gguf` wrote.

    Raises:
        ValueError: if the file is another model's.

    """
    reader = gguf.GGUFReader(path)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    if "d2t" not in stored or "output.weight" in stored:
        raise ValueError(f"{path} is no draft of outrider-draft")

    def field(name: str) -> int:
        return int(reader.fields[f"llama.{name}"].contents())

    shape = Shape(
        field("embedding_length"), field("feed_forward_length"), field("block_count"),
        field("attention.head_count"), field("attention.head_count_kv"), field("attention.key_length"),
    )  # fmt: skip
    rows = stored["d2t"].data.astype(np.int64)
    vocabulary = Vocabulary(rows + np.arange(len(rows)), field("vocab_size"))
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    names += [f"model.layers.{layer}.{part}.weight" for layer in range(shape.layers) for part in LAYER_TENSORS]
    weights = {}
    for name in names:
        tensor = stored[_gguf_name(name)]
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
        if heads is not None:
            count, columns = weight.shape
            weight = weight.reshape(heads, count // heads // 2, 2, columns).swapaxes(1, 2).reshape(count, columns)
        weights[name] = weight
    return shape, vocabulary, weights


def rounded(draft: Draft, kind: str) -> dict[str, Array]:
    """The draft's tensors as a GGUF file of type `kind` stores them, f32."""
    stored = {}
    for name, weight in weights(draft).items():
        if weight.ndim == 2:
            weight = gguf.quants.dequantize(gguf.quants.quantize(weight, TYPES[kind]), TYPES[kind])  # noqa: PLW2901
        stored[name] = weight
    return stored


def _gguf_name(name: str) -> str:
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[rest.removesuffix('.weight')]}.weight"


def _as_gguf(name: str, weight: Array, draft: Draft) -> Array:
    """Rows of the q and k projections in pairs, as GGUF's `llama` has them, instead of in halves."""
    if name.endswith("q_proj.weight"):
        heads = draft.shape.heads
    elif name.endswith("k_proj.weight"):
        heads = draft.shape.kv_heads
    else:
        return weight
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
