"""Train a small language model of the Llama architecture, alone or by distillation.

The target is trained on the text alone; the draft learns from the target's distributions as
well (`--teacher`), since what matters for a draft is agreement. The result is a folder that
`transformers` loads as LlamaForCausalLM: `config.json` and `model.safetensors`, matrices
f16, norms f32. README.md has the commands of the default pair.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

ROPE_THETA = 10000.0
NORM_EPSILON = 1e-5
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD = ("gate_proj", "up_proj", "down_proj")


def rotary_table(context: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every position, [context, head_dim], half-split layout."""
    frequencies = 1 / ROPE_THETA ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(context).float(), frequencies)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each head by its position's angles."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), NORM_EPSILON)


class Layer(nn.Module):
    """A transformer block: grouped-query attention and SwiGLU, each behind a norm."""

    def __init__(self, shape: dict):
        super().__init__()
        dim, hidden = shape["dim"], shape["hidden"]
        self.heads, self.kv_heads = shape["heads"], shape["kv"]
        self.head_dim = dim // self.heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, self.head_dim * self.kv_heads, bias=False)
        self.v_proj = nn.Linear(dim, self.head_dim * self.kv_heads, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.input_layernorm = Norm(dim)
        self.post_attention_layernorm = Norm(dim)

    def attention(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, tokens, dim = x.shape

        def split(projected: torch.Tensor, heads: int) -> torch.Tensor:
            return projected.view(batch, tokens, heads, self.head_dim).transpose(1, 2)

        query = split(self.q_proj(x), self.heads)
        key = split(self.k_proj(x), self.kv_heads)
        value = split(self.v_proj(x), self.kv_heads)
        cos, sin = cos.to(query.dtype), sin.to(query.dtype)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        group = self.heads // self.kv_heads
        if group > 1:
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, tokens, dim))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.input_layernorm(x), cos, sin)
        normed = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(normed)) * self.up_proj(normed))


class LanguageModel(nn.Module):
    """The model; the output head is the embedding table."""

    def __init__(self, shape: dict):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape["vocab"], shape["dim"])
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape["layers"])])
        self.norm = Norm(shape["dim"])
        cos, sin = rotary_table(shape["ctx"], shape["dim"] // shape["heads"])
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        # Projections back into the residual stream start smaller, so that its variance does not
        # grow with depth.
        residual = 0.02 / math.sqrt(2 * shape["layers"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, 0, residual if "o_proj" in name or "down_proj" in name else 0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(ids)
        tokens = ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:tokens], self.sin[:tokens])
        return F.linear(self.norm(x), self.embed_tokens.weight)


def hugging_face_name(name: str) -> str:
    """The name `transformers` gives a weight."""
    for part in ATTENTION:
        name = name.replace(f".{part}", f".self_attn.{part}")
    for part in FEED_FORWARD:
        name = name.replace(f".{part}", f".mlp.{part}")
    return f"model.{name}"


def save(model: LanguageModel, out: pathlib.Path) -> None:
    """Write `config.json` and `model.safetensors`."""
    out.mkdir(parents=True, exist_ok=True)
    shape = model.shape
    weights = {}
    for name, weight in model.state_dict().items():
        weight = weight.detach().float().cpu().contiguous()
        weights[hugging_face_name(name)] = weight.half() if weight.dim() == 2 else weight
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape["dim"],
        "intermediate_size": shape["hidden"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv"],
        "vocab_size": shape["vocab"],
        "max_position_embeddings": shape["ctx"],
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROPE_THETA,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "torch_dtype": "float16",
    }
    (out / "config.json").write_text(json.dumps(config, indent=1))


def load(folder: pathlib.Path) -> LanguageModel:
    """Read what `save` wrote."""
    config = json.loads((folder / "config.json").read_text())
    model = LanguageModel(
        dict(
            dim=config["hidden_size"],
            hidden=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv=config["num_key_value_heads"],
            vocab=config["vocab_size"],
            ctx=config["max_position_embeddings"],
        )
    )
    stored = load_file(folder / "model.safetensors")
    model.load_state_dict({name: stored[hugging_face_name(name)].float() for name in model.state_dict()})
    return model


def distillation_loss(
    logits: torch.Tensor, labels: torch.Tensor, teacher: torch.Tensor, weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """weight · cross-entropy to the teacher + (1 − weight) · cross-entropy to the text; and the latter."""
    log_probabilities = F.log_softmax(logits, -1)
    text_loss = F.nll_loss(log_probabilities, labels)
    teacher_loss = -(F.softmax(teacher, -1) * log_probabilities).sum(-1).mean()
    return (1 - weight) * text_loss + weight * teacher_loss, text_loss


def learning_rate(peak: float, step: int, warm_up: int, done: float) -> float:
    """Linear warm-up, then a cosine from the peak to a twentieth of it; `done` runs from 0 to 1."""
    return peak * min(1, (step + 1) / warm_up) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def validation_loss(model: LanguageModel, ids: np.ndarray, device: str) -> float:
    """Mean loss in nats a token over about 64 windows spread over the validation text."""
    context = model.shape["ctx"]
    losses = []
    model.eval()
    with torch.no_grad(), torch.autocast(device.split(":")[0], torch.bfloat16):
        for start in range(0, len(ids) - context - 1, max(1, len(ids) // 64)):
            window = torch.from_numpy(ids[start : start + context + 1].astype(np.int64)).to(device)
            logits = model(window[None, :-1])[0].float()
            losses.append(F.cross_entropy(logits, window[1:]).item())
    model.train()
    return float(np.mean(losses))


def arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shape = parser.add_argument_group("shape")
    shape.add_argument("--dim", type=int, required=True)
    shape.add_argument("--layers", type=int, required=True)
    shape.add_argument("--heads", type=int, required=True)
    shape.add_argument("--kv", type=int, required=True, help="key and value heads")
    shape.add_argument("--hidden", type=int, required=True, help="width of the feed-forward part")
    shape.add_argument("--vocab", type=int, default=4096)
    shape.add_argument("--ctx", type=int, default=512, help="context length in tokens")
    parser.add_argument("--data", type=pathlib.Path, default=".", help="folder with train.bin and valid.bin")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    parser.add_argument("--teacher", type=pathlib.Path, help="folder of the model to distil from")
    parser.add_argument("--kd", type=float, default=0.7, help="weight of the teacher's distribution")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3, help="peak learning rate")
    parser.add_argument("--steps", type=int, default=1_000_000, help="stop after so many steps")
    parser.add_argument("--minutes", type=float, default=math.inf, help="or after so many minutes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Train one model."""
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    random = np.random.default_rng(3)
    train = np.fromfile(args.data / "train.bin", dtype="<u2")
    valid = np.fromfile(args.data / "valid.bin", dtype="<u2")
    names = ("dim", "layers", "heads", "kv", "hidden", "vocab", "ctx")
    model = LanguageModel({name: getattr(args, name) for name in names}).to(args.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    teacher = load(args.teacher).to(args.device).eval() if args.teacher else None
    matrices = [p for p in model.parameters() if p.dim() == 2]
    norms = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0}],
        lr=args.lr, betas=(0.9, 0.95), fused=True,
    )
    forward = torch.compile(model) if args.compile else model
    began = time.time()
    warm_up = min(300, args.steps // 20 + 1)
    smoothed = None
    for step in range(args.steps):
        done = max(step / args.steps, (time.time() - began) / 60 / args.minutes)
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args.lr, step, warm_up, done)
        starts = random.integers(0, len(train) - args.ctx - 1, args.batch)
        windows = np.stack([train[start : start + args.ctx + 1] for start in starts]).astype(np.int64)
        windows = torch.from_numpy(windows).to(args.device)
        inputs, labels = windows[:, :-1], windows[:, 1:].reshape(-1)
        with torch.autocast(args.device.split(":")[0], torch.bfloat16):
            logits = forward(inputs).float().view(-1, args.vocab)
            if teacher is None:
                loss = text_loss = F.cross_entropy(logits, labels)
            else:
                with torch.no_grad():
                    taught = teacher(inputs).float().view(-1, args.vocab)
                loss, text_loss = distillation_loss(logits, labels, taught, args.kd)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smoothed = text_loss.item() if smoothed is None else 0.98 * smoothed + 0.02 * text_loss.item()
        if step % 50 == 0:
            rate = (step + 1) * args.batch * args.ctx / (time.time() - began)
            print(f"{step}: loss {smoothed:.3f}, {rate:.0f} tokens/s", flush=True)
        if step % 500 == 499:
            print(f"  validation {validation_loss(model, valid, args.device):.4f}", flush=True)
            save(model, args.out)
    print(f"final validation {validation_loss(model, valid, args.device):.4f} after {step + 1} steps")
    save(model, args.out)


if __name__ == "__main__":
    main()
