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
DRAWS = 8
"""Draws of shared noise at each position."""


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
    generator = torch.Generator(device).manual_seed(1)
    sums, count = np.zeros((len(TEMPERATURES), 2)), 0
    tokens = torch.from_numpy(draft.vocabulary.tokens).to(device)
    for sequence in sequences:
        ids = torch.from_numpy(sequence.ids)[None].to(device)
        places = torch.from_numpy(np.flatnonzero(sequence.answered[1:])).to(device)
        hidden = target.model.base_model(input_ids=ids).last_hidden_state[0, places]
        p = target.model.get_output_embeddings()(hidden).float()
        q = torch.full_like(p, -torch.inf)
        q[:, tokens] = draft(ids, places).float()
        for row, temperature in enumerate(TEMPERATURES):
            sums[row] += _agree(p, q, temperature, generator)
        count += len(places)
    means = sums / max(count, 1)
    return [Agreement(t, float(m[0]), float(m[1]), count) for t, m in zip(TEMPERATURES, means, strict=True)]


def _agree(p: Tensor, q: Tensor, temperature: float, generator: torch.Generator) -> tuple[float, float]:
    """Sums over positions of sum min(p, q) and of coupled agreement, from logits `[k, vocab]`."""
    if temperature == 0.0:
        same = float((p.argmax(-1) == q.argmax(-1)).sum())
        return same, same
    p, q = (p / temperature).log_softmax(-1), (q / temperature).log_softmax(-1)
    overlap = float(torch.minimum(p.exp(), q.exp()).sum())
    same = 0.0
    for _ in range(DRAWS):
        noise = -torch.log(-torch.log(torch.rand(p.shape, generator=generator, device=p.device).clamp(1e-20, 1 - 1e-7)))
        same += float(((p + noise).argmax(-1) == (q + noise).argmax(-1)).sum()) / DRAWS
    return overlap, same


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
