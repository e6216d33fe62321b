"""Choice of the tokens that a draft knows, and its stored form `d2t`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    special = [*tokenizer.all_special_ids, end]
    alphabet = [token for token, id_ in tokenizer.get_vocab().items() if id_ >= 0 and _is_byte(token)]
    return sorted({*special, *tokenizer.convert_tokens_to_ids(alphabet)})


def _is_byte(token: str) -> bool:
    return len(token) == 1 or (len(token) == 6 and token.startswith("<0x") and token.endswith(">"))
