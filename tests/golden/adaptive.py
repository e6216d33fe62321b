"""The adaptive code of FORMAT.md, and the ranks that it shares with the enumerative one: decode.py's other half."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any


class Refused(Exception):
    """What FORMAT.md does not allow."""


def need(condition: bool, why: str) -> None:
    """Refuses unless the condition holds."""
    if not condition:
        raise Refused(why)


def subset(n: int, k: int, rank: int) -> list[int]:
    """The k-subset of 0..n of this rank."""
    if 2 * k > n:
        missing = set(subset(n, n - k, rank))
        return [c for c in range(n) if c not in missing]
    found, c = [], n - 1
    binomial = math.comb(c, k) if n else 0
    for i in range(k, 0, -1):
        while binomial > rank:
            binomial, c = binomial * (c - i) // c, c - 1  # C(c − 1, i)
        rank -= binomial
        found.append(c)
        binomial, c = (binomial * i // c if c else 0), c - 1  # C(c − 1, i − 1)
    return found[::-1]


class RangeDecoder:
    """The range decoder, and beside it the encoder whose word the payload must be."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 7
        self.low, self.range, self.out = 0, 1 << 56, bytearray()
        self.offset = int.from_bytes(payload[:7].ljust(7, b"\0"), "big")

    def carry(self) -> None:
        at = len(self.out) - 1
        while self.out[at] == 255:
            self.out[at] = 0
            at -= 1
        self.out[at] += 1

    def look(self, total: int) -> int:
        value = self.offset // (self.range // total)
        need(value < total, "no symbol holds the value")
        return value

    def pass_(self, start: int, frequency: int, total: int) -> None:
        step = self.range // total
        self.offset -= step * start
        self.low += step * start
        self.range = step * frequency
        if self.low >= 1 << 56:
            self.low -= 1 << 56
            self.carry()
        while self.range <= 1 << 48:
            self.out.append(self.low >> 48)
            self.low = (self.low & ((1 << 48) - 1)) << 8
            self.range <<= 8
            byte = self.payload[self.at] if self.at < len(self.payload) else 0
            self.offset, self.at = self.offset << 8 | byte, self.at + 1

    def symbol(self, frequencies: list[int]) -> int:
        total = sum(frequencies)
        value, start = self.look(total), 0
        for which, frequency in enumerate(frequencies):
            if value < start + frequency:
                self.pass_(start, frequency, total)
                return which
            start += frequency
        raise AssertionError

    def uniform(self, total: int) -> int:
        value = self.look(total)
        self.pass_(value, 1, total)
        return value

    def rank(self, n: int, k: int) -> list[int]:
        last = math.comb(n, k) - 1
        digits = max(0, last.bit_length() - 17) // 16
        rank = self.uniform((last >> 16 * digits) + 1)
        for _ in range(digits):
            rank = rank << 16 | self.uniform(1 << 16)
        need(rank <= last, "rank out of range")
        return subset(n, k, rank)

    def end(self) -> None:
        if (self.low, self.range) != (0, 1 << 56):
            for size in (48, 40):
                a = -(-self.low >> size) << size
                if size == 40 or a + (1 << size) <= self.low + self.range:
                    break
            if a >= 1 << 56:
                a -= 1 << 56
                self.carry()
            self.out += (a >> size).to_bytes((56 - size) // 8, "big")
        need(self.payload == self.out, "not the encoder's word")


def learn(pair: list[int], yes: bool) -> None:
    """A decision adapts to what was decided."""
    pair[yes] += 32
    if sum(pair) > 4096:
        pair[:] = [half // 2 + 1 for half in pair]


def power(base: int, exponent: int) -> int:
    """P of FORMAT.md."""
    result = 1 << 31
    while exponent:
        if exponent & 1:
            result = result * base >> 31
        base = base * base >> 31
        exponent >>= 1
    return result


class Adaptive:
    """The adaptive code: its state and its rounds."""

    def __init__(self, vocab: int, resolution: int, most: int) -> None:
        self.vocab, self.resolution, self.most = vocab, resolution, most
        self.decisions: dict[tuple, list[int]] = {}
        self.prior = [4 + 6 * vocab // (300 + max(0, i - 256)) for i in range(vocab)]
        self.session = [0] * vocab
        self.prior_sum, self.session_sum = sum(self.prior), 0
        self.occurrence = max(1, self.prior_sum // 512)
        self.memory: list[tuple[int | None, list[int]]] = []
        self.last: int | None = None

    # State

    def occurred(self, which: int) -> None:
        if self.prior_sum + self.session_sum + self.occurrence > 1 << 31:
            self.session = [value // 2 for value in self.session]
            self.session_sum = sum(self.session)
        self.session[which] += self.occurrence
        self.session_sum += self.occurrence

    def text(self, ids: list[int]) -> None:
        for which in ids:
            if which < self.vocab:
                self.occurred(which)
                self.last = which

    def verdict(self, accepted: list[dict[str, Any]], token: list[int]) -> None:
        before = self.last
        for draft in accepted:
            shape = sorted(zip(draft["ids"], draft["counts"]), key=lambda pair: -pair[1])
            self.shape(None, [count for _, count in shape])
            for which, _ in shape:
                self.occurred(which)
            self.memory = (self.memory + [(before, [which for which, _ in shape[:64]])])[-128:]
            before = draft["id"]
        self.text([draft["id"] for draft in accepted] + token)

    # Rounds

    def round(self, payload: bytes, count: int) -> list[dict[str, Any]]:
        if count == 0:
            need(not payload, "a payload without drafts")
            return []
        decoder, drafts, before = RangeDecoder(payload), [], self.last
        ranks = decoder.symbol([63, 1])
        for _ in range(count):
            ids, counts = self.by_ranks(decoder) if ranks else self.by_model(decoder, before)
            place = decoder.uniform(len(ids)) if ranks else decoder.symbol(counts)
            drafts.append({"id": ids[place], "ids": ids, "counts": counts, "support_size": len(ids)})
            before = ids[place]
        decoder.end()
        return drafts

    def by_ranks(self, decoder: RangeDecoder) -> tuple[list[int], list[int]]:
        vocab, resolution, numbers = self.vocab, self.resolution, []
        left, right = vocab, 1  # C(V, j), C(ℓ − 1, j − 1)
        for j in range(1, self.most + 1):
            numbers.append(left * right)
            left, right = left * (vocab - j) // (j + 1), right * (resolution - j) // j
        shift = max(0, max(numbers).bit_length() - 20)
        m = 1 + decoder.symbol([1 + (number >> shift) for number in numbers])
        ids = decoder.rank(vocab, m)
        sums = [-1] + decoder.rank(resolution - 1, m - 1) + [resolution - 1]
        return ids, [b - a for a, b in zip(sums, sums[1:])]

    def by_model(self, decoder: RangeDecoder, before: int | None) -> tuple[list[int], list[int]]:
        counts = self.shape(decoder, [])
        found: dict[int, int] = {}
        added: dict[int, int] = {}
        looked_at: int | None = None
        for count in sorted(set(counts), reverse=True):
            if looked_at is None or len(found) >= max(1, 2 * looked_at):
                looked_at, added = len(found), self.neighbours(before, set(found))
            found |= {which: count for which in self.group(decoder, counts.count(count), found, added)}
        ids = sorted(found)
        return ids, [found[which] for which in ids]

    def shape(self, decoder: RangeDecoder | None, known: list[int]) -> list[int]:
        """The counts in descending order: decoded, or the known ones learned."""
        m = 1 + self.number(0, self.most - 1, decoder, len(known) - 1)
        counts, rest, previous = [], self.resolution, self.resolution
        for left in range(m, 0, -1):
            lowest, highest = -(-rest // left), min(previous, rest - left + 1)
            context = 1 if not counts else 2 + min(7, (highest - lowest + 1).bit_length() - 1)
            answer = known[m - left] - lowest if known else 0
            previous = lowest + self.number(context, highest - lowest, decoder, answer)
            rest -= previous
            counts.append(previous)
        return counts

    def number(self, context: int, limit: int, decoder: RangeDecoder | None, known: int) -> int:
        def decide(which: tuple, answer: bool) -> bool:
            pair = self.decisions.setdefault((context, *which), [16, 16]) if which else [1, 1]
            if decoder is not None:
                return decoder.symbol(pair) == 1
            learn(pair, answer)
            return answer

        limit, e = limit + 1, 0
        while limit >> (e + 1) > 0 and decide(("A", e), (known + 1) >> (e + 1) > 0):
            e += 1
        value = 1 << e
        for bit in range(e - 1, -1, -1):
            if value | 1 << bit > limit:
                continue
            which = ("B", e) if bit == e - 1 else ("C", value >> (e - 1) & 1, e) if bit == e - 2 else ()
            if decide(which, (known + 1) >> bit & 1 == 1):
                value |= 1 << bit
        return value - 1

    def neighbours(self, before: int | None, coded: set[int]) -> dict[int, int]:
        likeness = [3 * (token == before) + len(coded.intersection(ids)) for token, ids in self.memory]
        places = sorted((at for at, like in enumerate(likeness) if like), key=lambda at: (-likeness[at], -at))
        added: dict[int, int] = {}
        for at in places[:8]:
            weight = self.occurrence * (8 * likeness[at] ** 2 // (len(coded) + 1))
            for which in self.memory[at][1]:
                added[which] = added.get(which, 0) + weight
        return added

    def group(self, decoder: RangeDecoder, n: int, coded: dict[int, int], added: dict[int, int]) -> list[int]:
        weights = [prior + session for prior, session in zip(self.prior, self.session)]
        for which, more in added.items():
            weights[which] += more
        for which in coded:
            weights[which] = 0
        after = [0, *accumulate(reversed(weights))][::-1]  # W_rest
        found, start = [], 0
        for left in range(n, 0, -1):
            shift = max(0, after[start].bit_length() - 32)
            scale = after[start] >> shift
            need(scale > 0, "no id is left")

            def f(e: int) -> int:
                return (1 << 31) - power(((after[e] >> shift) << 31) // scale, left) + e - start

            total = (1 << 31) + self.vocab - start
            value, low, high = decoder.look(total), start, self.vocab
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if f(middle) <= value else (low, middle)
            need(weights[low] > 0, "an id of weight 0")
            decoder.pass_(f(low), f(low + 1) - f(low), total)
            found.append(low)
            start = low + 1
        return found
