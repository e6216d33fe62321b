"""Make families.json beside this script: small random models of every family, as transformers computes them.

Usage: make_families.py

Weights are not stored: `draw` makes them from the tensor's name, here and in the tests.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
TOKENS = 44
GREEDY = 64
# Rows of logits that are kept: within a first window, behind it, and the last.
ROWS = [2, 37, TOKENS - 1]
# The least distance between the best token and the next in greedy texts.
GAP = 2e-3

SHAPE = dict(
    vocab_size=41, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128,
)
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
GPT = dict(vocab_size=41, layer_norm_epsilon=1e-5)


def gemma3_rope(full: dict) -> dict:
    """Both kinds of layers."""
    return {
        "full_attention": {"rope_theta": 100000.0, **full},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
    }


# Three of each family: each of its deviations is in one of them, and off in another where it can be off.
FAMILIES = {
    "llama": [
        dict(SHAPE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=LLAMA3),
        dict(SHAPE, head_dim=12, rope_parameters=YARN, rms_norm_eps=1e-5),
        dict(SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0}),
    ],
    "mistral": [
        dict(SHAPE, sliding_window=7),
        dict(SHAPE, sliding_window=None, head_dim=12),
        dict(SHAPE, sliding_window=40, num_key_value_heads=4, tie_word_embeddings=True),
    ],
    "qwen2": [
        dict(SHAPE, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        dict(SHAPE, use_sliding_window=True, sliding_window=9, max_window_layers=1),
        dict(SHAPE, num_key_value_heads=1, rope_parameters=YARN),
    ],
    "qwen3": [
        dict(SHAPE, head_dim=16, tie_word_embeddings=True),
        dict(SHAPE, head_dim=8, attention_bias=True),
        dict(SHAPE, head_dim=12, use_sliding_window=True, sliding_window=9, max_window_layers=2),
    ],
    "gemma": [
        dict(SHAPE, head_dim=16),
        dict(SHAPE, head_dim=8, num_key_value_heads=1, tie_word_embeddings=False),
        dict(SHAPE, head_dim=12, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    ],
    "gemma2": [
        dict(SHAPE, head_dim=16, sliding_window=8, query_pre_attn_scalar=16),
        dict(SHAPE, head_dim=8, sliding_window=33, query_pre_attn_scalar=40, attn_logit_softcapping=3.0,
             final_logit_softcapping=2.0),
        dict(SHAPE, head_dim=12, num_hidden_layers=4, sliding_window=5, attn_logit_softcapping=None,
             final_logit_softcapping=None),
    ],
    "gemma3_text": [
        dict(SHAPE, head_dim=16, num_hidden_layers=7, sliding_window=8, query_pre_attn_scalar=16,
             rope_parameters=gemma3_rope({"rope_type": "default"})),
        dict(SHAPE, head_dim=8, sliding_window=33, query_pre_attn_scalar=40, final_logit_softcapping=4.0,
             layer_types=["full_attention", "sliding_attention", "full_attention"],
             rope_parameters=gemma3_rope({"rope_type": "linear", "factor": 8.0})),
        dict(SHAPE, head_dim=12, num_hidden_layers=6, sliding_window=5,
             rope_parameters=gemma3_rope({"rope_type": "default"})),
    ],
    "phi3": [
        dict(SHAPE, pad_token_id=0),
        dict(SHAPE, pad_token_id=0, sliding_window=9, num_key_value_heads=4),
        dict(SHAPE, pad_token_id=0, max_position_embeddings=256, original_max_position_embeddings=128,
             rope_parameters={
                 "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                 "short_factor": [1.0, 1.1, 1.3], "long_factor": [2.0, 4.0, 8.0],
                 "original_max_position_embeddings": 128,
             }),
    ],
    "smollm3": [
        dict(SHAPE, pad_token_id=0, num_hidden_layers=5),
        dict(SHAPE, pad_token_id=0, no_rope_layers=[0, 1, 0], attention_bias=True),
        dict(SHAPE, pad_token_id=0, no_rope_layer_interval=2, tie_word_embeddings=False),
    ],
    "olmo2": [
        dict(SHAPE, pad_token_id=0),
        dict(SHAPE, pad_token_id=0, num_key_value_heads=4, tie_word_embeddings=True),
        dict(SHAPE, pad_token_id=0, rope_parameters={"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.0}),
    ],
    "granite": [
        dict(SHAPE, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.1),
        dict(SHAPE, attention_multiplier=0.35, tie_word_embeddings=True),
        dict(SHAPE, attention_multiplier=0.5, attention_bias=True, mlp_bias=True, residual_multiplier=0.5),
    ],
    "stablelm": [
        dict(SHAPE),
        dict(SHAPE, use_qkv_bias=True, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
        dict(SHAPE, num_key_value_heads=4, hidden_size=64, layer_norm_eps=1e-4, tie_word_embeddings=True),
    ],
    "gpt2": [
        dict(GPT, n_positions=128, n_embd=32, n_layer=3, n_head=4),
        dict(GPT, n_positions=120, n_embd=40, n_layer=2, n_head=2, n_inner=56),
        dict(GPT, n_positions=128, n_embd=24, n_layer=2, n_head=3, tie_word_embeddings=False),
    ],
    "gpt_neo": [
        dict(GPT, max_position_embeddings=128, hidden_size=32, num_layers=4, num_heads=4, window_size=8,
             attention_types=[[["global", "local"], 2]]),
        dict(GPT, max_position_embeddings=120, hidden_size=40, num_layers=3, num_heads=2, window_size=33,
             attention_types=[[["local"], 2], [["global"], 1]], intermediate_size=56),
        dict(GPT, max_position_embeddings=128, hidden_size=24, num_layers=2, num_heads=3,
             attention_types=[[["global"], 2]]),
    ],
    "opt": [
        dict(vocab_size=41, hidden_size=32, num_hidden_layers=3, ffn_dim=48, num_attention_heads=4,
             max_position_embeddings=128, pad_token_id=1),
        dict(vocab_size=41, hidden_size=40, num_hidden_layers=2, ffn_dim=56, num_attention_heads=2,
             max_position_embeddings=120, pad_token_id=1),
        dict(vocab_size=41, hidden_size=24, num_hidden_layers=2, ffn_dim=96, num_attention_heads=3,
             max_position_embeddings=128, pad_token_id=1, tie_word_embeddings=False),
    ],
}


def drawn_bits(name: str, count: int) -> np.ndarray:
    """Return 64 bits for each element of the weights of this name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


def draw(name: str, shape: tuple) -> np.ndarray:
    """Return the weights of this name, which no file stores."""
    # In [-1, 1), exact in f32.
    unit = (drawn_bits(name, int(np.prod(shape))) >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0
    if name.endswith("bias"):
        values = unit / 4
    elif len(shape) == 1:
        values = 1.0 + unit / 2
    else:
        values = unit / 2.0
    return values.astype(np.float32).reshape(shape)


def model_of(kind: str, settings: dict) -> tuple:
    """A model with weights from their names, and what its `config.json` says."""
    config = AutoConfig.for_model(kind, **settings, bos_token_id=0, eos_token_id=[1, 2])
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    tensors = []
    with torch.no_grad():
        for name, parameter in model.state_dict().items():
            if name == "lm_head.weight" and config.tie_word_embeddings:
                continue
            parameter.copy_(torch.from_numpy(draw(name, tuple(parameter.shape))))
            tensors.append([name, list(parameter.shape)])
    model.tie_weights()
    return model, tensors, config.to_diff_dict()


def golden(kind: str, settings: dict, number: int) -> dict:
    """Logits of some tokens and a greedy text behind them, by a seed whose text has no near-ties."""
    model, tensors, config = model_of(kind, settings)
    vocabulary = settings["vocab_size"]
    for seed in range(1000):
        tokens = np.random.default_rng(1000 * number + seed).integers(3, vocabulary, TOKENS).tolist()
        with torch.no_grad():
            rows = model(torch.tensor([tokens])).logits[0]
            text, gap = list(tokens), 1e9
            for _ in range(GREEDY):
                last = model(torch.tensor([text])).logits[0, -1]
                best = last.topk(2)
                gap = min(gap, float(best.values[0] - best.values[1]))
                text.append(int(best.indices[0]))
                if gap < GAP:
                    break
        # A text that repeats one token says little.
        if gap >= GAP and len(set(text[TOKENS:])) >= 3:
            break
    else:
        raise SystemExit(f"{kind} {number}: no text without near-ties")
    kept = {key: value for key, value in config.items() if key not in ("transformers_version", "dtype")}
    logits = [[float(f"{x:.7g}") for x in rows[row].tolist()] for row in ROWS]
    print(kind, number, "seed", seed, "gap", gap, flush=True)
    return {
        "family": kind, "config": kept, "tensors": tensors, "tokens": tokens, "rows": ROWS, "logits": logits,
        "greedy": text[TOKENS:],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    all_of_them = [
        golden(kind, settings, number)
        for kind, three in FAMILIES.items()
        for number, settings in enumerate(three)
    ]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in all_of_them)
    (HERE / "families.json").write_text(f"[\n{lines}\n]\n")
