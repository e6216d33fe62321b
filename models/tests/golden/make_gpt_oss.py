"""Make gpt_oss.json beside this script: small random gpt-oss models, as transformers computes them.

Usage: make_gpt_oss.py

Weights are drawn from their names, as in make_families.py. The last model has experts in MXFP4, whose bytes are drawn;
transformers' own conversion widens them.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from make_families import SHAPE, draw, drawn_bits

HERE = pathlib.Path(__file__).parent
TOKENS = 44
GREEDY = 32
# Rows of logits that are kept: within a first window, after it, and the last.
ROWS = [2, 37, TOKENS - 1]
# The least distance between the best token and the next in greedy texts, and between the logits of the last chosen
# expert and the first that is not.
GAP = 5e-3
EXPERT_GAP = 2e-3

ROPE = {
    "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
    "truncate": False, "original_max_position_embeddings": 512,
}
GPT_OSS = dict(SHAPE, num_hidden_layers=4, head_dim=16, num_local_experts=4, num_experts_per_tok=2, rope_parameters=ROPE)
MODELS = [
    dict(GPT_OSS, sliding_window=7),
    dict(GPT_OSS, sliding_window=33, num_local_experts=6, num_experts_per_tok=3, swiglu_limit=0.75, swiglu_alpha=1.25,
         num_hidden_layers=3, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    dict(GPT_OSS, sliding_window=5, head_dim=8, num_key_value_heads=1, attention_bias=False,
         rope_parameters=dict(ROPE, factor=8.0, original_max_position_embeddings=64)),
    dict(GPT_OSS, sliding_window=9, hidden_size=64, intermediate_size=32, num_hidden_layers=3, quantization_config={
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                   "lm_head"],
    }),
]


def draw_bytes(name: str, shape: list) -> torch.Tensor:
    """Return bytes of this name: blocks are random, scales are 2^-5 to 2^-2."""
    values = drawn_bits(name, int(np.prod(shape))) >> np.uint64(56)
    values = np.uint64(122) + values % np.uint64(4) if name.endswith("_scales") else values
    return torch.from_numpy(values.astype(np.uint8).reshape(shape))


def packed(name: str, parameter: torch.Tensor, tensors: list) -> torch.Tensor:
    """Return the values of an experts' matrix `[experts, inputs, outputs]` stored as blocks and scales."""
    experts, inputs, outputs = parameter.shape
    shapes = {f"{name}_blocks": [experts, outputs, inputs // 32, 16], f"{name}_scales": [experts, outputs, inputs // 32]}
    tensors.extend([part, shape] for part, shape in shapes.items())
    blocks, scales = (draw_bytes(part, shape) for part, shape in shapes.items())
    return convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)


def model_of(settings: dict) -> tuple:
    """Return a model with weights from their names, its tensors and its `config.json`."""
    quantization = settings.pop("quantization_config", None)
    config = AutoConfig.for_model("gpt_oss", **settings, bos_token_id=0, eos_token_id=[1, 2])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    tensors = []
    with torch.no_grad():
        for name, parameter in model.state_dict().items():
            if quantization and name.endswith("_proj") and ".experts." in name:
                parameter.copy_(packed(name, parameter, tensors))
            else:
                parameter.copy_(torch.from_numpy(draw(name, tuple(parameter.shape))))
                tensors.append([name, list(parameter.shape)])
    kept = config.to_diff_dict()
    if quantization:
        kept["quantization_config"] = quantization
    return model, tensors, kept


def golden(settings: dict, number: int) -> dict:
    """Logits of some tokens and a greedy text after them, from the first seed without near-ties."""
    model, tensors, config = model_of(dict(settings))
    used, gaps = settings["num_experts_per_tok"], []

    def watch(_module, _inputs, outputs):
        ranked = outputs[0].sort(-1, descending=True).values
        gaps.append(float((ranked[:, used - 1] - ranked[:, used]).min()))

    for layer in model.model.layers:
        layer.mlp.router.register_forward_hook(watch)
    for seed in range(2000):
        gaps.clear()
        tokens = np.random.default_rng(1000 * number + seed).integers(3, settings["vocab_size"], TOKENS).tolist()
        with torch.no_grad():
            rows = model(torch.tensor([tokens])).logits[0]
            text, gap = list(tokens), 1e9
            for _ in range(GREEDY):
                if gap < GAP or min(gaps) < EXPERT_GAP:
                    break
                best = model(torch.tensor([text])).logits[0, -1].topk(2)
                gap = min(gap, float(best.values[0] - best.values[1]))
                text.append(int(best.indices[0]))
        if gap >= GAP and min(gaps) >= EXPERT_GAP and len(set(text[TOKENS:])) >= 3:
            break
    else:
        raise SystemExit(f"model {number}: no text without near-ties")
    print(number, "seed", seed, "gaps", gap, min(gaps), flush=True)
    kept = {key: value for key, value in config.items() if key not in ("transformers_version", "dtype")}
    logits = [[float(f"{x:.7g}") for x in rows[row].tolist()] for row in ROWS]
    return {
        "family": "gpt_oss", "config": kept, "tensors": tensors, "tokens": tokens, "rows": ROWS, "logits": logits,
        "greedy": text[TOKENS:],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = ",\n".join(
        json.dumps(golden(settings, number), separators=(",", ":")) for number, settings in enumerate(MODELS)
    )
    (HERE / "gpt_oss.json").write_text(f"[\n{lines}\n]\n")
