"""Convert a Hugging Face Llama checkpoint into a GGUF file.

Usage: convert.py MODEL_DIR TOKENIZER_JSON OUT.gguf [--type q8_0] [--name NAME]

The file follows the conventions of GGUF architecture `llama`, so that other engines can load it:

* tensors are named `token_embd`, `blk.N.attn_q`, ...; a tied output head is left out;
* the rows of the q and k projections are permuted from the half-split rotary layout of
  Hugging Face to interleaved pairs;
* norms are F32, matrices the chosen type;
* the byte-level BPE vocabulary and its merges are embedded.
"""

import argparse
import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import load_file

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
FILE_TYPES = {
    "f32": gguf.LlamaFileType.ALL_F32,
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
}
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
# Token types of the GGUF vocabulary.
NORMAL, CONTROL = 1, 3


def gguf_name(name: str) -> str:
    """The GGUF name of a Hugging Face tensor."""
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[rest.removesuffix('.weight')]}.weight"


def interleave_rotary(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of each head from (first halves, second halves) to pairs."""
    rows, columns = weight.shape
    by_half = weight.reshape(heads, 2, rows // heads // 2, columns)
    return by_half.swapaxes(1, 2).reshape(rows, columns)


def add_config(writer: gguf.GGUFWriter, config: dict, file_type: gguf.LlamaFileType) -> None:
    """Write the shape of the model."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or {}
    theta = config.get("rope_theta") or rope.get("rope_theta", 10000.0)
    scaling = config.get("rope_scaling") or rope
    if scaling.get("rope_type", "default") != "default":
        raise SystemExit(f"rope scaling is not supported: {scaling}")
    writer.add_file_type(file_type)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict, config: dict) -> None:
    """Embed a byte-level BPE vocabulary."""
    vocabulary = dict(tokenizer["model"]["vocab"])
    special = set()
    for token in tokenizer["added_tokens"]:
        vocabulary[token["content"]] = token["id"]
        if token["special"]:
            special.add(token["content"])
    tokens = sorted(vocabulary, key=vocabulary.get)
    if [vocabulary[token] for token in tokens] != list(range(config["vocab_size"])):
        raise SystemExit("the vocabulary does not number its tokens from 0 without gaps")
    merges = tokenizer["model"]["merges"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def add_weights(writer: gguf.GGUFWriter, weights: dict, config: dict, kind: str) -> None:
    """Write every tensor, matrices in the type `kind`."""
    for name in sorted(weights):
        weight = weights[name].astype(np.float32)
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if name.endswith("q_proj.weight"):
            weight = interleave_rotary(weight, config["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            weight = interleave_rotary(weight, config["num_key_value_heads"])
        chosen = TYPES[kind] if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(weight), chosen)
        writer.add_tensor(gguf_name(name), data, raw_dtype=chosen)


def convert(config: dict, weights: dict, tokenizer: dict | None, out: str, kind: str, name: str) -> None:
    """Write one GGUF file."""
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name(name)
    add_config(writer, config, FILE_TYPES[kind])
    if tokenizer is not None:
        add_tokenizer(writer, tokenizer, config)
    add_weights(writer, weights, config, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="folder with config.json and model.safetensors")
    parser.add_argument("tokenizer", type=pathlib.Path, help="tokenizer.json")
    parser.add_argument("out", type=pathlib.Path, help="file to write")
    parser.add_argument("--type", choices=TYPES, default="q8_0", help="element type of the matrices")
    parser.add_argument("--name", default="", help="general.name of the file")
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text())
    weights = load_file(args.model / "model.safetensors")
    tokenizer = json.loads(args.tokenizer.read_text())
    convert(config, weights, tokenizer, str(args.out), args.type, args.name or args.model.name)


if __name__ == "__main__":
    main()
