"""Make encoder_decoder.json beside this script: small random T5 models, as transformers computes them.

Usage: make_encoder_decoder.py

Weights are drawn from their names, as `make_families.py` draws them.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from make_families import draw

HERE = pathlib.Path(__file__).parent
TOKENS = 44
GREEDY = 64
# Rows of logits that are kept: the first, within the logarithmic buckets, and the last.
ROWS = [0, 23, TOKENS - 1]
# The least distance between the best token and the next in greedy texts.
GAP = 2e-3

# Each of gate, head of its own, widths, numbers of blocks, buckets and distances is once so and once otherwise. Those
# with the usual distance can be said in GGUF. Sources reach behind the last bucket.
MODELS = [
    dict(vocab_size=41, d_model=32, d_kv=12, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=4,
         feed_forward_proj="gated-gelu", tie_word_embeddings=False, source=150),
    dict(vocab_size=41, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="relu",
         relative_attention_num_buckets=16, layer_norm_epsilon=1e-5, source=37),
    dict(vocab_size=53, d_model=24, d_kv=10, d_ff=56, num_layers=2, num_decoder_layers=3, num_heads=2,
         feed_forward_proj="gated-gelu", tie_word_embeddings=True, relative_attention_num_buckets=8,
         relative_attention_max_distance=20, decoder_start_token_id=3, source=64),
    dict(vocab_size=41, d_model=40, d_kv=6, d_ff=32, num_layers=1, num_decoder_layers=2, num_heads=3,
         feed_forward_proj="relu", tie_word_embeddings=False, relative_attention_num_buckets=13,
         relative_attention_max_distance=40, source=1),
    dict(vocab_size=41, d_model=24, d_kv=16, d_ff=40, num_layers=2, num_heads=3, feed_forward_proj="gated-gelu",
         tie_word_embeddings=True, source=70),
]
# Buckets and distances whose tables are kept, for distances below 300.
BUCKETS = [[32, 128], [16, 128], [8, 20], [13, 40], [64, 512], [32, 17], [5, 100], [4, 3]]


def model_of(settings: dict) -> tuple:
    """A model with weights from their names, and its tensors' names and shapes."""
    model = T5ForConditionalGeneration(T5Config(**settings)).float().eval()
    if settings.get("tie_word_embeddings") is False:
        # As checkpoints have it: the library ties what is not loaded.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    tensors = []
    with torch.no_grad():
        for name, parameter in model.state_dict().items():
            is_tied = name == "lm_head.weight" and model.lm_head.weight is model.shared.weight
            if name.endswith("embed_tokens.weight") or is_tied:
                continue
            parameter.copy_(torch.from_numpy(draw(name, tuple(parameter.shape))))
            tensors.append([name, list(parameter.shape)])
    assert model.encoder.embed_tokens.weight is model.shared.weight
    return model, tensors


def golden(settings: dict, number: int) -> dict:
    """Logits of some tokens and a greedy text behind them, by a seed whose text has no near-ties."""
    settings = dict(settings)
    length = settings.pop("source")
    settings.setdefault("decoder_start_token_id", 0)
    model, tensors = model_of(settings)
    vocabulary = settings["vocab_size"]
    for seed in range(1000):
        random = np.random.default_rng(1000 * number + seed)
        source = random.integers(3, vocabulary, length).tolist()
        tokens = [settings["decoder_start_token_id"], *random.integers(3, vocabulary, TOKENS - 1).tolist()]
        with torch.no_grad():
            encoded = model.encoder(torch.tensor([source]))
            rows = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([tokens])).logits[0]
            text, gap = list(tokens), 1e9
            for _ in range(GREEDY):
                last = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([text])).logits[0, -1]
                best = last.topk(2)
                gap = min(gap, float((best.values[0] - best.values[1]) / last.abs().max()))
                text.append(int(best.indices[0]))
                if gap < GAP:
                    break
        # A text that repeats one token says little.
        if gap >= GAP and len(set(text[TOKENS:])) >= 3:
            break
    else:
        raise SystemExit(f"{number}: no text without near-ties")
    print(number, "seed", seed, "gap", gap, flush=True)
    config = {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True,
        "pad_token_id": 0, "eos_token_id": 1, "dropout_rate": 0.1, "initializer_factor": 1.0, "use_cache": True,
        **settings,
    }
    logits = [[float(f"{x:.7g}") for x in rows[row].tolist()] for row in ROWS]
    return {
        "config": config, "tensors": tensors, "source": source, "tokens": tokens, "rows": ROWS, "logits": logits,
        "greedy": text[TOKENS:],
    }


def buckets(count: int, distance: int) -> dict:
    """The buckets of keys before the query and behind it, for a decoder and for an encoder."""
    distances = torch.arange(300)

    def of(positions: torch.Tensor, both: bool) -> list:
        return T5Attention._relative_position_bucket(positions, both, count, distance).tolist()

    return {
        "buckets": count, "distance": distance, "decoder": of(-distances, False), "encoder": of(-distances, True),
        "encoder_behind": of(distances, True),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    models = [json.dumps(golden(settings, number), separators=(",", ":")) for number, settings in enumerate(MODELS)]
    tables = [json.dumps(buckets(*both), separators=(",", ":")) for both in BUCKETS]
    text = '{{"models":[\n{}\n],"buckets":[\n{}\n]}}\n'.format(",\n".join(models), ",\n".join(tables))
    (HERE / "encoder_decoder.json").write_text(text)
