"""Make the golden files beside this script. See README.md for what they prove.

Usage: make_golden.py PAIR_DIR

PAIR_DIR holds `draft/` and `target/` as Hugging Face checkpoints and `tokenizer.json`.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "pair" / "recipe"))
import convert  # noqa: E402

TOKENS = 23
RANDOM = {
    # Odd sizes, untied head, two query heads a key head, another theta.
    "grouped": dict(
        hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=10, vocab_size=61, max_position_embeddings=48,
        tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    ),
    # One key head, heads wider than hidden / heads, Llama 3's rope scaling, f16 weights.
    "llama3_rope": dict(
        hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=24, vocab_size=50, max_position_embeddings=64,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
        },
    ),
    # As many key heads as query heads, linear rope scaling, bf16 weights.
    "linear_rope": dict(
        hidden_size=60, intermediate_size=36, num_hidden_layers=1, num_attention_heads=6,
        num_key_value_heads=6, vocab_size=37, max_position_embeddings=64, tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
    ),
}
STORED = {"grouped": torch.float32, "llama3_rope": torch.float16, "linear_rope": torch.bfloat16}
# Whole blocks of 32, for quantized types.
BLOCKS = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, vocab_size=64, max_position_embeddings=48,
    tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 20000.0},
)


def random_model(seed: int, shape: dict, stored: torch.dtype) -> LlamaForCausalLM:
    """A model whose weights are large enough that attention is far from uniform."""
    torch.manual_seed(seed)
    config = LlamaConfig(**shape, bos_token_id=0, eos_token_id=[1, 2], rms_norm_eps=1e-5)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 1.3 / parameter.shape[1] ** 0.5)
            else:
                parameter.uniform_(0.5, 1.5)
            parameter.copy_(parameter.to(stored))
    return model


def logits(model: LlamaForCausalLM, tokens: list[int]) -> torch.Tensor:
    """Next-token logits at every position, in f32."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def rounded(row: torch.Tensor) -> list[float]:
    """Seven significant digits."""
    return [float(f"{x:.7g}") for x in row.tolist()]


def write_json(name: str, value: dict) -> None:
    """One golden file, one row of numbers a line."""
    text = json.dumps(value, indent=1)
    (HERE / name).write_text(compact(text) + "\n")


def compact(text: str) -> str:
    """Put arrays of numbers on one line."""
    import re

    return re.sub(r"\[\s+([-+0-9.e,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)


def weights_of(model: LlamaForCausalLM) -> dict:
    """The state, without the second name of a tied head."""
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    return state


def make_random() -> None:
    """Hugging Face checkpoints of odd shapes."""
    for seed, (name, shape) in enumerate(RANDOM.items()):
        model = random_model(seed, shape, STORED[name])
        config = model.config.to_dict()
        tokens = np.random.default_rng(seed).integers(0, shape["vocab_size"], TOKENS).tolist()
        state = {key: value.to(STORED[name]).contiguous() for key, value in weights_of(model).items()}
        save_file(state, HERE / f"{name}.safetensors", metadata={"format": "pt"})
        kept = [*shape, "model_type", "hidden_act", "rms_norm_eps", "bos_token_id", "eos_token_id"]
        write_json(f"{name}.config.json", {key: config[key] for key in kept})
        write_json(f"{name}.json", {"tokens": tokens, "logits": [rounded(r) for r in logits(model, tokens)]})


def make_blocks() -> None:
    """GGUF files of one model; the reference computes with the weights as the file's type rounds them."""
    model = random_model(9, BLOCKS, torch.float32)
    config = model.config.to_dict()
    original = {key: value.numpy().copy() for key, value in weights_of(model).items()}
    tokens = np.random.default_rng(9).integers(0, BLOCKS["vocab_size"], TOKENS).tolist()
    golden = {"tokens": tokens}
    for kind in ("f32", "f16", "q8_0", "q4_0"):
        convert.convert(config, original, None, str(HERE / f"blocks-{kind}.gguf"), kind, "golden")
        state = {}
        for key, value in original.items():
            if value.ndim == 2:
                chosen = convert.TYPES[kind]
                value = gguf.quants.dequantize(gguf.quants.quantize(value, chosen), chosen)
            state[key] = torch.from_numpy(np.ascontiguousarray(value.astype(np.float32)))
        model.load_state_dict(state)
        golden[kind] = [rounded(row) for row in logits(model, tokens)]
    write_json("blocks.json", golden)


def make_pair(folder: pathlib.Path) -> None:
    """The default pair in f32: every argmax, and at some positions the logits of the most probable
    tokens and of an even sample of the others."""
    prompt = "Once upon a time there was a little girl who lived with her grandmother in a small house at the edge of the wood. One morning she said,"
    from tokenizers import Tokenizer

    tokens = [0, *Tokenizer.from_file(str(folder / "tokenizer.json")).encode(prompt).ids]
    golden = {"prompt": prompt, "tokens": tokens}
    for name in ("draft", "target"):
        model = LlamaForCausalLM.from_pretrained(
            folder / name, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        rows = logits(model, tokens)
        sampled = {}
        for position in range(0, len(tokens), 6):
            ids = sorted(set(rows[position].topk(24).indices.tolist()) | set(range(5, rows.shape[1], 127)))
            sampled[str(position)] = {"ids": ids, "logits": rounded(rows[position][ids])}
        golden[name] = {"argmax": rows.argmax(-1).tolist(), "rows": sampled}
    write_json("pair.json", golden)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    torch.set_num_threads(1)
    make_random()
    make_blocks()
    make_pair(pathlib.Path(sys.argv[1]))
