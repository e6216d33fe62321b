"""Make experts.json beside this script: small random mixtures of experts, computed in float64 by numpy.

Usage: make_experts.py

An oracle of its own, after the equations of transformers' modeling_qwen3_moe.py and modeling_mixtral.py (eager
attention): neither torch nor transformers is needed. Weights are drawn from their names, as in make_families.py.
"""

import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
TOKENS = 44
GREEDY = 32
ROWS = [2, 37, TOKENS - 1]
# The least distance between the best token and the next in greedy texts, and between the last chosen expert and the
# first that is not.
GAP = 2e-3
EXPERT_GAP = 1e-4

SHAPE = dict(
    vocab_size=41, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=False,
    bos_token_id=0, eos_token_id=[1, 2],
)
MODELS = [
    dict(SHAPE, model_type="qwen3_moe", intermediate_size=96, moe_intermediate_size=24, head_dim=16, num_experts=8,
         num_experts_per_tok=3, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
    dict(SHAPE, model_type="qwen3_moe", intermediate_size=96, moe_intermediate_size=16, head_dim=8, num_experts=6,
         num_experts_per_tok=2, norm_topk_prob=False, tie_word_embeddings=True, attention_bias=True),
    dict(SHAPE, model_type="mixtral", intermediate_size=48, num_local_experts=4, num_experts_per_tok=2,
         sliding_window=None, rope_theta=1000000.0, rms_norm_eps=1e-5),
    dict(SHAPE, model_type="mixtral", intermediate_size=40, num_local_experts=5, num_experts_per_tok=1,
         sliding_window=None, num_key_value_heads=4),
]


def draw(name: str, shape: tuple) -> np.ndarray:
    """Return the weights of this name, in [-1, 1) before scaling and exact in f32."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    unit = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0
    values = unit / 4 if name.endswith("bias") else 1.0 + unit / 2 if len(shape) == 1 else unit / 2.0
    return values.astype(np.float32).reshape(shape).astype(np.float64)


class Oracle:
    """One model: its settings and its weights by name."""

    def __init__(self, config: dict):
        self.config, self.weights = config, {}
        get = config.get
        self.is_mixtral = config["model_type"] == "mixtral"
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = get("head_dim", config["hidden_size"] // self.heads)
        self.used = config["num_experts_per_tok"]
        self.experts = config["num_local_experts"] if self.is_mixtral else config["num_experts"]
        self.least_gap = np.inf
        hidden, width = config["hidden_size"], get("moe_intermediate_size", config["intermediate_size"])
        self.add("model.embed_tokens.weight", config["vocab_size"], hidden)
        for layer in range(config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            for part, rows, columns in [
                ("q_proj", self.heads * self.head_dim, hidden), ("k_proj", self.kv_heads * self.head_dim, hidden),
                ("v_proj", self.kv_heads * self.head_dim, hidden), ("o_proj", hidden, self.heads * self.head_dim),
            ]:
                self.add(f"{at}self_attn.{part}.weight", rows, columns)
                if get("attention_bias"):
                    self.add(f"{at}self_attn.{part}.bias", rows)
            if not self.is_mixtral:
                self.add(f"{at}self_attn.q_norm.weight", self.head_dim)
                self.add(f"{at}self_attn.k_norm.weight", self.head_dim)
            self.add(f"{at}input_layernorm.weight", hidden)
            self.add(f"{at}post_attention_layernorm.weight", hidden)
            self.add(f"{at}{self.part}.gate.weight", self.experts, hidden)
            for expert in range(self.experts):
                gate, up, down = self.names
                self.add(f"{at}{self.part}.experts.{expert}.{gate}.weight", width, hidden)
                self.add(f"{at}{self.part}.experts.{expert}.{up}.weight", width, hidden)
                self.add(f"{at}{self.part}.experts.{expert}.{down}.weight", hidden, width)
        self.add("model.norm.weight", hidden)
        if not config["tie_word_embeddings"]:
            self.add("lm_head.weight", config["vocab_size"], hidden)

    @property
    def part(self) -> str:
        return "block_sparse_moe" if self.is_mixtral else "mlp"

    @property
    def names(self) -> list:
        return ["w1", "w3", "w2"] if self.is_mixtral else ["gate_proj", "up_proj", "down_proj"]

    def add(self, name: str, *shape: int) -> None:
        self.weights[name] = draw(name, shape)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * self.weights[name]

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def rotate(self, x: np.ndarray) -> np.ndarray:
        """Rotate `[tokens, heads, head_dim]`, pairing halves."""
        half = self.head_dim // 2
        frequencies = self.config["rope_theta"] ** (-np.arange(half) * 2.0 / self.head_dim)
        angles = np.arange(len(x))[:, None, None] * frequencies
        a, b = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x: np.ndarray, at: str) -> np.ndarray:
        tokens = len(x)
        query, key, value = (
            self.linear(x, f"{at}self_attn.{part}_proj").reshape(tokens, -1, self.head_dim) for part in "qkv"
        )
        if not self.is_mixtral:
            query, key = self.norm(query, f"{at}self_attn.q_norm.weight"), self.norm(key, f"{at}self_attn.k_norm.weight")
        group = self.heads // self.kv_heads
        key, value = np.repeat(self.rotate(key), group, 1), np.repeat(value, group, 1)
        scores = np.einsum("qhd,khd->hqk", self.rotate(query), key) / np.sqrt(self.head_dim)
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
        weights = softmax(scores)
        context = np.einsum("hqk,khd->qhd", weights, value).reshape(tokens, -1)
        return self.linear(context, f"{at}self_attn.o_proj")

    def mixture(self, x: np.ndarray, at: str) -> np.ndarray:
        routing = softmax(self.linear(x, f"{at}{self.part}.gate"))
        order = np.argsort(-routing, -1, kind="stable")
        out = np.zeros_like(x)
        for row, (probabilities, ranked) in enumerate(zip(routing, order)):
            chosen, rest = ranked[: self.used], ranked[self.used:]
            self.least_gap = min(self.least_gap, probabilities[chosen[-1]] - probabilities[rest[0]])
            total = probabilities[chosen].sum() if self.is_mixtral or self.config["norm_topk_prob"] else 1.0
            for expert in chosen:
                name = f"{at}{self.part}.experts.{expert}."
                gate, up, down = (name + part for part in self.names)
                inner = self.linear(x[row], gate)
                inner = inner / (1.0 + np.exp(-inner)) * self.linear(x[row], up)
                out[row] += probabilities[expert] / total * self.linear(inner, down)
        return out

    def logits(self, tokens: list) -> np.ndarray:
        hidden = self.weights["model.embed_tokens.weight"][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            hidden = hidden + self.attention(self.norm(hidden, f"{at}input_layernorm.weight"), at)
            hidden = hidden + self.mixture(self.norm(hidden, f"{at}post_attention_layernorm.weight"), at)
        head = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        return self.norm(hidden, "model.norm.weight") @ head.T


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def golden(config: dict, number: int) -> dict:
    """Logits of some tokens and a greedy text after them, from the first seed without near-ties."""
    oracle = Oracle(config)
    for seed in range(1000):
        oracle.least_gap = np.inf
        tokens = np.random.default_rng(1000 * number + seed).integers(3, config["vocab_size"], TOKENS).tolist()
        rows = oracle.logits(tokens)
        text, gap = list(tokens), np.inf
        for _ in range(GREEDY):
            if min(gap / GAP, oracle.least_gap / EXPERT_GAP) < 1.0:
                break
            last = np.sort(oracle.logits(text)[-1])
            gap = min(gap, last[-1] - last[-2])
            text.append(int(np.argmax(oracle.logits(text)[-1])))
        if min(gap / GAP, oracle.least_gap / EXPERT_GAP) >= 1.0 and len(set(text[TOKENS:])) >= 3:
            break
    else:
        raise SystemExit(f"model {number}: no text without near-ties")
    print(config["model_type"], number, "seed", seed, "gaps", gap, oracle.least_gap, flush=True)
    return {
        "family": config["model_type"], "config": config,
        "tensors": [[name, list(values.shape)] for name, values in oracle.weights.items()], "tokens": tokens,
        "rows": ROWS, "logits": [[float(f"{x:.7g}") for x in rows[row]] for row in ROWS], "greedy": text[TOKENS:],
    }


if __name__ == "__main__":
    lines = ",\n".join(
        json.dumps(golden(config, number), separators=(",", ":")) for number, config in enumerate(MODELS)
    )
    (HERE / "experts.json").write_text(f"[\n{lines}\n]\n")
