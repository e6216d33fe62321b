"""Choice of the tokens that a draft knows, and its stored form `d2t`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTES_OF_GPT2 = "".join(map(chr, (*_PRINTED, *range(0x100, 0x100 + 256 - len(_PRINTED)))))
"""The 256 characters that stand for bytes in byte-level vocabularies."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of the target that have a row in the draft.

    `tokens` int64 `[n]`, ascending: the target's id of each row. The embedding table has one row more, the last, which
    stands for every other token.
    """

    tokens: np.ndarray[Any, Any]
    target_size: int

    @property
    def size(self) -> int:
        """Number of rows of the draft's head."""
        return len(self.tokens)

    @property
    def d2t(self) -> np.ndarray[Any, Any]:
        """Difference between each row's token and the row, int64 `[n]`, as EAGLE-3 checkpoints store it."""
        return self.tokens - np.arange(self.size)

    @property
    def rows(self) -> np.ndarray[Any, Any]:
        """Row of each of the target's tokens, int64 `[target_size]`; `size` for tokens without one."""
        rows = np.full(self.target_size, self.size, np.int64)
        rows[self.tokens] = np.arange(self.size)
        return rows


def choose(counts: np.ndarray[Any, Any], always: Iterable[int], size: int) -> Vocabulary:
    """The `size` tokens that occur most often, and those of `always` in any case.

    Raises:
        ValueError: if `always` alone has more tokens than `size`.

    """
    always = np.unique(np.fromiter(always, np.int64))
    if len(always) > size:
        raise ValueError(f"a vocabulary of {size} is too small: {len(always)} tokens are bytes or special")
    if size >= len(counts):
        return Vocabulary(np.arange(len(counts)), len(counts))
    ranked = counts.astype(np.float64)
    ranked[always] = np.inf
    # Equal counts go to the lower id, which byte-pair encoding merged earlier.
    chosen = np.argsort(-ranked, kind="stable")[:size]
    return Vocabulary(np.sort(chosen), len(counts))


def indispensable(tokenizer: Any, end: int) -> list[int]:  # noqa: ANN401
    """Special tokens and those of single bytes, with which a draft can spell everything."""
    return sorted({*tokenizer.all_special_ids, end, *of_bytes(tokenizer)})


def of_bytes(tokenizer: Any) -> list[int]:  # noqa: ANN401
    """Tokens of single bytes: `<0x00>` to `<0xFF>`, or the characters that GPT-2's tokenizer writes for bytes."""
    known = tokenizer.get_vocab()
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    if not all(name in known for name in names):
        names = list(BYTES_OF_GPT2)
    return [known[name] for name in names if name in known]
