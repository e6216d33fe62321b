"""Figures of a draft on conversations that it was not trained on."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from outrider_draft.draft import Draft
from outrider_draft.target import Sequence, Target

TEMPERATURES = (0.0, 0.7, 1.0)
TEMPERATURE, TOP_P = 0.7, 0.95
"""Sampling of a session that chooses none."""


@dataclass(frozen=True)
class Agreement:
    """Means over answered positions at one temperature.

    `overlap` is the sum of min(p, q): the probability that a drafted token is accepted under the exact rule. `coupled`
    is the probability that draft and target choose the same token by the same Gumbel noise. Both are exact at
    temperature 0.
    """

    temperature: float
    overlap: float
    coupled: float
    positions: int


@torch.inference_mode()
def agreement(draft: Draft, target: Target, sequences: list[Sequence], device: str) -> list[Agreement]:
    """Agreement of draft and target over all answered positions of the sequences, from whole distributions."""
    draft.to(device).eval()
    sums, count = np.zeros((len(TEMPERATURES), 2)), 0
    tokens = torch.from_numpy(draft.vocabulary.tokens).to(device)
    for sequence in sequences:
        ids = torch.from_numpy(sequence.ids)[None].to(device)
        places = np.flatnonzero(sequence.answered[1:])
        p = target.logits(sequence.ids, places, device)
        q = draft(ids, torch.from_numpy(places).to(device)).float()
        for row, temperature in enumerate(TEMPERATURES):
            sums[row] += agree(p, q, tokens, temperature)
        count += len(places)
    means = sums / max(count, 1)
    return [Agreement(t, float(m[0]), float(m[1]), count) for t, m in zip(TEMPERATURES, means, strict=True)]


def agree(p: Tensor, q: Tensor, tokens: Tensor, temperature: float) -> tuple[float, float]:
    """Sums over positions of sum min(p, q) and of coupled agreement, both exact.

    `p` `[k, vocab]` has the target's logits, `q` `[k, size]` the draft's at `tokens` `[size]`. By the same Gumbel noise
    both choose token v with probability 1 / (sum over w of max(p_w / p_v, q_w / q_v)) (Daliri et al., arXiv
    2408.07978). Tokens sorted by p / q make that two running sums.
    """
    if temperature == 0.0:
        same = float((p.argmax(-1) == tokens[q.argmax(-1)]).sum())
        return same, same
    p = _double((p / temperature).softmax(-1)[:, tokens])
    q = _double((q / temperature).softmax(-1))
    overlap = float(torch.minimum(p, q).sum())
    order = (p / q).argsort(-1)
    p, q = p.gather(1, order), q.gather(1, order)
    # Probability of the target beyond each token of this order, tokens that the draft lacks included.
    larger = 1.0 - p.cumsum(-1)
    both = 1.0 / (larger / p + q.cumsum(-1) / q)
    return overlap, float(torch.nan_to_num(both, 0.0).sum())


@torch.inference_mode()
def guess_chance(draft: Draft, target: Target, sequences: list[Sequence], device: str) -> dict[str, float]:
    """Weights of the chance that a guess is the target's token, with which an edge begins.

    Both models choose by the same Gumbel noise, each from its nucleus, as in a session. The chance is a logistic
    regression on the square roots of the guess's margin over the next best token, at most 12, and of its probability.
    """
    draft.to(device).eval()
    tokens = torch.from_numpy(draft.vocabulary.tokens).to(device)
    generator = torch.Generator(device).manual_seed(1)
    inputs, right = [], []
    for sequence in sequences:
        ids = torch.from_numpy(sequence.ids)[None].to(device)
        places = np.flatnonzero(sequence.answered[1:])
        p = target.logits(sequence.ids, places, device)
        q = draft(ids, torch.from_numpy(places).to(device)).float()
        noise = -torch.empty_like(p).exponential_(generator=generator).log()
        best = (_nucleus(q) + noise[:, tokens]).topk(2)
        choice = best.indices[:, :1]
        margin = (best.values[:, 0] - best.values[:, 1]).clamp(0.0, 12.0)
        probability = q.softmax(-1).gather(1, choice)[:, 0]
        inputs.append(torch.stack([torch.ones_like(margin), margin.sqrt(), probability.sqrt()], 1))
        right.append((_nucleus(p) + noise).argmax(-1) == tokens[choice[:, 0]])
    bias, margin, probability = _logistic(_double(torch.cat(inputs)), _double(torch.cat(right))).tolist()
    return {"bias": bias, "margin": margin, "probability": probability}


def _double(values: Tensor) -> Tensor:
    """The values in f64; on the CPU if they were on Apple's GPU, which has no f64."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def _nucleus(logits: Tensor) -> Tensor:
    """Logits over the temperature of the tokens of the nucleus, and minus infinity for the others."""
    logits = logits / TEMPERATURE
    chances, order = logits.softmax(-1).sort(-1, descending=True)
    beyond = chances.cumsum(-1) - chances >= TOP_P
    return logits.masked_fill(beyond.scatter(-1, order, beyond), -torch.inf)


def _logistic(inputs: Tensor, right: Tensor, steps: int = 25) -> Tensor:
    """Weights of the logistic regression of `right` `[n]` on `inputs` `[n, 3]`, by Newton's method."""
    ridge = torch.eye(inputs.shape[1], dtype=inputs.dtype, device=inputs.device)
    weights = torch.zeros_like(inputs[0])
    for _ in range(steps):
        chance = (inputs @ weights).sigmoid()
        slope = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + ridge
        weights += torch.linalg.solve(slope, inputs.T @ (right - chance) - weights)
    return weights


@torch.inference_mode()
def step_time(draft: Draft, device: str, steps: int = 20) -> float:
    """Median seconds of a forward pass of one token in torch; the browser's kernels read quantized weights instead."""
    draft.to(device).eval()
    ids, place = torch.zeros((1, 1), dtype=torch.int64, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    times = []
    for _ in range(steps):
        started = time.perf_counter()
        draft(ids, place)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def table(rows: dict[str, list[Agreement]]) -> str:
    """Markdown table of the agreement of each stored form of the draft."""
    lines = ["| weights | temperature | Σ min(p, q) | coupled agreement |", "|---|--:|--:|--:|"]
    for name, entries in rows.items():
        lines += [f"| {name} | {e.temperature:g} | {e.overlap:.3f} | {e.coupled:.3f} |" for e in entries]
    return "\n".join(lines)
