"""Distillation of the target into a draft."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from outrider_draft.draft import Draft
from outrider_draft.teacher import Lesson

SAVE_EVERY = 300.0
"""Seconds between checkpoints."""


@dataclass(frozen=True)
class Schedule:
    """Length and steps of the training."""

    epochs: float
    tokens_per_batch: int = 4096
    learning_rate: float = 1e-3
    warmup: float = 0.03
    """Share of the steps in which the learning rate rises."""
    acceptance: float = 0.5
    """Weight of the acceptance loss at the end; it rises from 0, and the KL divergence has the rest."""
    seed: int = 1


@dataclass(frozen=True)
class Batch:
    """Padded conversations: `ids` `[b, n]`, `places` `[k]` into them flattened, `top` and `chances` `[k, TOP]`."""

    ids: Tensor
    places: Tensor
    top: Tensor
    chances: Tensor


def batches(lessons: list[Lesson], limit: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Batches of at most `limit` tokens of conversations of like length, in random order."""
    order = sorted(range(len(lessons)), key=lambda i: len(lessons[i].ids) + rng.uniform(-16, 16))
    groups: list[list[int]] = [[]]
    for index in order:
        longest = max([len(lessons[i].ids) for i in [*groups[-1], index]])
        if groups[-1] and longest * (len(groups[-1]) + 1) > limit:
            groups.append([])
        groups[-1].append(index)
    for number in rng.permutation(len(groups)):
        yield collate([lessons[i] for i in groups[number]])


def collate(group: list[Lesson]) -> Batch:
    """One batch of these conversations; padding follows them, where causal attention does not see it."""
    length = max(len(lesson.ids) for lesson in group)
    ids = np.zeros((len(group), length), np.int64)
    for row, lesson in enumerate(group):
        ids[row, : len(lesson.ids)] = lesson.ids
    places = np.concatenate([lesson.places + row * length for row, lesson in enumerate(group)])
    top = np.concatenate([lesson.top for lesson in group])
    chances = np.concatenate([lesson.chances for lesson in group])
    return Batch(*(torch.from_numpy(array) for array in (ids, places, top, chances)))


def losses(logits: Tensor, rows: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """KL divergence and acceptance loss, means over positions.

    `logits` `[k, size]` of the draft, `rows` `[k, TOP]` of the target's likeliest tokens (`size` where the draft has
    none) and their `chances`. Probability beyond these tokens counts as one class. The target's distribution is
    renormalised over what the draft can say; the acceptance loss, 1 - sum of min(p, q), is not.
    """
    size = logits.shape[-1]
    logq = logits.float().log_softmax(-1)
    known = rows < size
    logq = torch.gather(logq, 1, rows.clamp(max=size - 1))
    q = torch.where(known, logq.exp(), 0.0)
    p = torch.where(known, chances, 0.0)
    rest_p = (1.0 - chances.sum(-1)).clamp(min=0.0)
    rest_q = (1.0 - q.sum(-1)).clamp(min=1e-6)
    total = (p.sum(-1) + rest_p).clamp(min=1e-6)
    entropy = torch.where(p > 0, p * p.clamp(min=1e-9).log(), 0.0).sum(-1) + rest_p * rest_p.clamp(min=1e-9).log()
    cross = torch.where(known, p * logq, 0.0).sum(-1) + rest_p * rest_q.log()
    divergence = (entropy - cross) / total - total.log()
    acceptance = 1.0 - torch.minimum(p, q).sum(-1)
    return divergence.mean(), acceptance.mean()


@torch.inference_mode()
def accepted(draft: Draft, lessons: list[Lesson], device: str) -> float:
    """Mean of sum min(p, q) at temperature 1 over the answered positions; tokens beyond the stored ones count 0."""
    draft.eval()
    total, count = 0.0, 0
    for lesson in lessons:
        batch = collate([lesson])
        with _mixed(device):
            logits = draft(batch.ids.to(device), batch.places.to(device))
        loss = losses(logits, draft.rows[batch.top.to(device)], batch.chances.to(device))[1]
        total, count = total + float(1.0 - loss) * len(lesson.places), count + len(lesson.places)
    draft.train()
    return total / max(count, 1)


def step_counts(lessons: list[Lesson], schedule: Schedule) -> tuple[int, int]:
    """Steps of a pass over the lessons, and of the whole training."""
    per_epoch = sum(1 for _ in batches(lessons, schedule.tokens_per_batch, np.random.default_rng(0)))
    return per_epoch, max(1, round(schedule.epochs * per_epoch))


def train(  # noqa: PLR0913
    draft: Draft, lessons: list[Lesson], held_out: list[Lesson], *, schedule: Schedule, path: Path, device: str
) -> list[tuple[int, float]]:
    """Train the draft; returns the learning curve, pairs of trained tokens and acceptance on `held_out`.

    Checkpoints go to `path`, from which an interrupted training goes on.
    """
    torch.manual_seed(schedule.seed)
    draft.to(device).train()
    decayed = [p for p in draft.parameters() if p.ndim > 1]
    others = [p for p in draft.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=schedule.learning_rate,
        betas=(0.9, 0.95),
    )
    per_epoch, steps = step_counts(lessons, schedule)
    step, tokens, curve = 0, 0, []
    if path.exists():
        state = torch.load(path, map_location=device, weights_only=True)
        draft.load_state_dict(state["draft"])
        optimizer.load_state_dict(state["optimizer"])
        step, tokens, curve = state["step"], state["tokens"], [(int(t), float(a)) for t, a in state["curve"]]
    started, first, saved = time.monotonic(), step, time.monotonic()
    epoch, skip = divmod(step, per_epoch)
    while step < steps:
        for batch in batches(lessons, schedule.tokens_per_batch, np.random.default_rng((schedule.seed, epoch))):
            if skip:
                skip -= 1
                continue
            share = step / steps
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate * _rate(share, schedule.warmup)
            loss = _loss(draft, batch, schedule.acceptance * share, device)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
            optimizer.step()
            step, tokens = step + 1, tokens + len(batch.places)
            now = time.monotonic()
            if now - saved > SAVE_EVERY or step == steps:
                curve.append((tokens, accepted(draft, held_out, device)))
                _save(path, draft, optimizer, step=step, tokens=tokens, curve=curve)
                left = (now - started) / (step - first) * (steps - step) / 60
                print(f"training: step {step} of {steps}, loss {loss.item():.3f}, "
                      f"accepted {curve[-1][1]:.3f}, {left:.0f} min left", flush=True)  # fmt: skip
                saved = time.monotonic()
            if step >= steps:
                break
        epoch += 1
    return curve


def _loss(draft: Draft, batch: Batch, weight: float, device: str) -> Tensor:
    """The acceptance loss by its weight, and the KL divergence by the rest."""
    with _mixed(device):
        logits = draft(batch.ids.to(device), batch.places.to(device))
    divergence, refused = losses(logits, draft.rows[batch.top.to(device)], batch.chances.to(device))
    return (1.0 - weight) * divergence + weight * refused


def settle(draft: Draft, lessons: list[Lesson], *, steps: int, schedule: Schedule, device: str) -> None:
    """Train the draft as its Q4_0 file will have it.

    Each pass computes with rounded matrices, and each step changes the unrounded ones. Afterwards only their
    rounded form is of use.
    """
    matrices = [p for p in draft.parameters() if p.ndim == 2]
    optimizer = torch.optim.AdamW(draft.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
    draft.to(device).train()
    rng, step = np.random.default_rng((schedule.seed, steps)), 0
    while step < steps:
        for batch in batches(lessons, schedule.tokens_per_batch, rng):
            for group in optimizer.param_groups:
                group["lr"] = 0.2 * schedule.learning_rate * _rate(step / steps, schedule.warmup)
            kept = [matrix.data.clone() for matrix in matrices]
            for matrix in matrices:
                matrix.data.copy_(as_q4_0(matrix.data))
            loss = _loss(draft, batch, schedule.acceptance, device)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            for matrix, weights in zip(matrices, kept, strict=True):
                matrix.data.copy_(weights)
            torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step >= steps:
                break


def as_q4_0(weights: Tensor) -> Tensor:
    """The weights as blocks of GGUF's Q4_0 store them."""
    blocks = weights.reshape(-1, 32)
    largest = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))
    scale = (largest / -8).half().float()
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale)
    return (((blocks * inverse + 8.5).floor().clamp(0, 15) - 8) * scale).reshape(weights.shape)


def _mixed(device: str) -> torch.autocast:
    """Products in bf16, sums in f32."""
    return torch.autocast(torch.device(device).type, torch.bfloat16)


def _rate(share: float, warmup: float) -> float:
    """Linear rise, then a half cosine to a tenth."""
    if share < warmup:
        return (share + 1e-3) / (warmup + 1e-3)
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * (share - warmup) / (1.0 - warmup)))


def _save(path: Path, draft: Draft, optimizer: torch.optim.Optimizer, **state: object) -> None:
    part = path.with_suffix(".part")
    torch.save({"draft": draft.state_dict(), "optimizer": optimizer.state_dict(), **state}, part)
    part.rename(path)
