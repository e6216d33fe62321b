"""Teacher signal: the target's most likely tokens at every answered position, stored in shards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outrider_draft.target import Sequence, Target

TOP = 64
"""Number of tokens whose probabilities are stored; their sum is 0.97 or more for most positions of a chat model."""
SHARD = 256
"""Number of conversations in a file."""


@dataclass(frozen=True)
class Lesson:
    """A conversation with the target's distributions.

    `ids` int64 `[n]`; `places` int64 `[m]`: the positions whose next token is answered; `top` int64 `[m, TOP]` and
    `chances` float32 `[m, TOP]`: tokens and probabilities of the target after them.
    """

    ids: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    top: np.ndarray[Any, Any]
    chances: np.ndarray[Any, Any]


def teach(target: Target, sequences: list[Sequence], folder: Path, device: str) -> None:
    """Write the shards that `folder` lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = -(-len(sequences) // SHARD)
    started, done = time.monotonic(), 0
    for shard in range(shards):
        path = folder / f"{shard:05}.npz"
        if path.exists():
            continue
        part = sequences[shard * SHARD : (shard + 1) * SHARD]
        save(path, [_lesson(target, sequence, device) for sequence in part])
        done += 1
        left = (time.monotonic() - started) / done * (shards - shard - 1) / 60
        print(f"teacher: shard {shard + 1} of {shards}, {left:.0f} min left")


@torch.inference_mode()
def _lesson(target: Target, sequence: Sequence, device: str) -> Lesson:
    places = np.flatnonzero(sequence.answered[1:])
    chances, top = target.logits(sequence.ids, places, device).softmax(-1).topk(TOP)
    return Lesson(sequence.ids, places, top.cpu().numpy(), chances.cpu().numpy())


def save(path: Path, lessons: list[Lesson]) -> None:
    """Write a shard, whole or not at all."""
    columns = {
        "lengths": np.array([len(lesson.ids) for lesson in lessons], np.int32),
        "answered": np.array([len(lesson.places) for lesson in lessons], np.int32),
        "ids": np.concatenate([lesson.ids for lesson in lessons]).astype(np.int32),
        "places": np.concatenate([lesson.places for lesson in lessons]).astype(np.int32),
        "top": np.concatenate([lesson.top for lesson in lessons]).astype(np.int32),
        "chances": np.concatenate([lesson.chances for lesson in lessons]).astype(np.float16),
    }
    part = path.with_suffix(".part.npz")
    np.savez(part, **columns)  # type: ignore[arg-type]
    part.rename(path)


def lessons(folder: Path) -> Iterator[Lesson]:
    """All stored conversations, in order."""
    for path in sorted(folder.glob("[0-9]*[0-9].npz")):
        shard = np.load(path)
        ends, rows = np.cumsum(shard["lengths"]), np.cumsum(shard["answered"])
        ids, places, top, chances = (shard[name] for name in ("ids", "places", "top", "chances"))
        for index in range(len(ends)):
            begin, row = (int(ends[index - 1]), int(rows[index - 1])) if index else (0, 0)
            end, last = int(ends[index]), int(rows[index])
            yield Lesson(
                ids[begin:end].astype(np.int64),
                places[row:last].astype(np.int64),
                top[row:last].astype(np.int64),
                chances[row:last].astype(np.float32),
            )
