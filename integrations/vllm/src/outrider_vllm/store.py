"""Guesses by what they follow, bounded.

A text is known by its number of tokens and its last 16 ids (:data:`Key`). A guess of ids g0 … g(c-1) is kept under c
keys, one for each j: the text with g0 … g(j-1) behind it goes on with g(j) …. So a text that has grown into a guess
since it was sent still finds the rest of it, and guesses sent one after another join.

Keys collide when texts agree in length and in their last 16 ids. Then one is offered the other's guess, which costs a
row of the engine's work and never changes a text.

Storing a key, finding one and dropping the oldest take constant time. One thread adds while another finds: each
touches the dictionary in single operations, which Python makes whole, and only the thread that adds changes it. So
neither waits for the other.
"""

from __future__ import annotations

from collections import deque

from outrider_vllm.messages import TAIL, Guess, pack_ids

Key = tuple[int, bytes]
"""A text's number of tokens and its last ``min(16, tokens)`` ids, four little-endian bytes each."""

MAX_KEYS = 65_536
"""Keys kept; about 350 bytes each, 23 MB in all."""

_TAIL_BYTES = 4 * TAIL


class Store:
    """The guesses that may still come true, the oldest dropped first."""

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        """Begin empty, to hold at most ``max_keys``."""
        self._max_keys = max_keys
        # A guess's ids, where in them the key's continuation begins, and whether that was rejected before.
        self._by_key: dict[Key, tuple[tuple[int, ...], int, bool]] = {}
        # The same keys, the oldest first.
        self._oldest: deque[Key] = deque()
        self._rejected: deque[Key] = deque(maxlen=max_keys)

    def __len__(self) -> int:
        """Count the keys held."""
        return len(self._by_key)

    def add(self, guess: Guess) -> None:
        """Keep a guess.

        Of two guesses for one text the first stays, because the likeliest is sent first. It is replaced by one that
        begins alike and is longer, and by any other once it was rejected.
        """
        self._take_rejected()
        ids = guess.ids
        raw = guess.tail + pack_ids(ids)
        at = len(guess.tail)
        by_key = self._by_key
        for j in range(len(ids)):
            end = at + 4 * j
            key = (guess.position + j, raw[max(0, end - _TAIL_BYTES) : end])
            held = by_key.get(key)
            if held is None:
                self._oldest.append(key)
            else:
                held_ids, start, rejected = held
                alike = held_ids[start] == ids[j]
                if (len(held_ids) - start >= len(ids) - j) if alike else not rejected:
                    continue
            by_key[key] = (ids, j, False)
        while len(by_key) > self._max_keys:
            del by_key[self._oldest.popleft()]

    def find(self, key: Key, limit: int) -> list[int]:
        """What follows the text of ``key``, at most ``limit`` ids, joined from as many guesses as it takes."""
        found: list[int] = []
        while len(found) < limit:
            held = self._by_key.get(key)
            if held is None:
                break
            ids, start, _ = held
            new = ids[start : start + limit - len(found)]
            found.extend(new)
            position, tail = key
            key = (position + len(new), (tail + pack_ids(new))[-_TAIL_BYTES:])
        return found

    def rejected(self, key: Key) -> None:
        """Take that the first id offered for a text was rejected.

        The guess is still offered to other requests with that text: at a temperature above 0 it may be accepted there.
        """
        self._rejected.append(key)

    def _take_rejected(self) -> None:
        while self._rejected:
            key = self._rejected.popleft()
            held = self._by_key.get(key)
            if held is not None:
                self._by_key[key] = (held[0], held[1], True)
