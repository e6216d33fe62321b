"""Make a folder that vLLM serves of a GGUF file of architecture `llama`, such as the built-in pair's target.

    python tests/make_checkpoint.py ../../pair/target/target-f16.gguf ../../pair/tokenizer.json FOLDER

needs gguf and safetensors from PyPI. `pair/recipe/convert.py` is the other way round.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def checkpoint_name(name: str) -> str:
    """The Hugging Face name of a GGUF tensor."""
    stem = name.removesuffix(".weight")
    if stem in TOP:
        return f"{TOP[stem]}.weight"
    _, layer, rest = stem.split(".", 2)
    return f"model.layers.{layer}.{LAYER[rest]}.weight"


def halves(weight: npt.NDArray[np.floating[Any]], heads: int) -> npt.NDArray[np.floating[Any]]:
    """Reorder each head's rows from interleaved pairs to first halves and second halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def convert(gguf_file: Path, tokenizer: Path, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer's files."""
    gguf: Any = importlib.import_module("gguf")
    save_file = importlib.import_module("safetensors.numpy").save_file
    reader = gguf.GGUFReader(gguf_file)

    def field(name: str) -> Any:  # noqa: ANN401 - numbers of several kinds
        return reader.get_field(f"llama.{name}").contents()

    heads, key_heads = field("attention.head_count"), field("attention.head_count_kv")
    tensors = {}
    for tensor in reader.tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type)
        if tensor.tensor_type != gguf.GGMLQuantizationType.F32:
            weight = weight.astype(np.float16)
        name = checkpoint_name(tensor.name)
        if ".q_proj." in name or ".k_proj." in name:
            weight = halves(weight, heads if ".q_proj." in name else key_heads)
        tensors[name] = np.ascontiguousarray(weight)
    embedding = tensors["model.embed_tokens.weight"]
    bos, eos = (int(reader.get_field(f"tokenizer.ggml.{one}_token_id").contents()) for one in ("bos", "eos"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": embedding.shape[1],
        "intermediate_size": field("feed_forward_length"),
        "num_hidden_layers": field("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": field("context_length"),
        "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
        "rope_theta": field("rope.freq_base"),
        "hidden_act": "silu",
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "torch_dtype": "float16",
    }
    ends = {one["id"]: one["content"] for one in json.loads(tokenizer.read_text())["added_tokens"]}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": ends[bos],
        "eos_token": ends[eos],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    shutil.copyfile(tokenizer, folder / "tokenizer.json")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    convert(arguments.gguf, arguments.tokenizer, arguments.folder)


if __name__ == "__main__":
    main()
