"""How many guesses a step judges: as many as raise the expected tokens per second, down to none.

Let a step serve n requests. Request i is offered d(i) guesses; each is accepted with probability a(i), given that those
before it were. The step then writes

    E = Σ_i (1 + a(i) + a(i)² + … + a(i)^d(i))    tokens and takes    T = t1 + c · Σ_i d(i),

where c is the time of one judged row; a step that judges nothing takes t0, which may be less than t1. E / T is largest
when exactly those guesses are judged whose probability a(i)^depth exceeds c · E / T, what their time would write
otherwise. Beginning with E / T of no guesses, choosing and computing E / T anew ends at that choice (Dinkelbach 1967):
each time the threshold rises and guesses only drop out. If the choice writes no faster than n / t0, none is judged.

* a(i) is measured a request, and leans on all requests' rate until a few of its own guesses were judged.
* t1 and c are the least-squares line through (judged rows, time) of past steps with about as many requests, t0 the mean
  of those without guesses. Steps with prefill, and those in which requests came or went, are left out.
* While these are unknown, every other step judges two guesses a request and every other none. Later, now and then a
  step judges none, so that t0 stays known; and where no guess is worth it, now and then one is judged, or all, so that
  what is measured can recover.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MEMORY = 0.997
"""What a measured step counts for after one more: about the last 300 steps weigh."""

_RATE_MEMORY = 0.9
"""The same for the judged guesses of one request, a step."""

_ALL_MEMORY = 0.998
"""The same for those of all requests."""

_LEAN = 4.0
"""So many judged guesses of its own weigh as much for a request as all requests' rate."""

_START = 0.6
"""The acceptance rate before anything was judged."""

_HIGHEST = 0.98
"""No rate is taken to be higher."""

_ENOUGH = 4.0
"""Weight of measured steps, with and without guesses, before they are believed."""

_IDLE_EVERY = 128
"""A step in so many judges nothing, to measure t0."""

_PROBE_EVERY = 64
"""Where no guess is worth it, a step in so many judges one, and one in eight times as many judges all."""

_EXPLORED = 2
"""Guesses a request judged while the line is unknown."""

_OUTLIER = 3.0
"""A step that took so many times the mean counts as that."""


class _Line:
    """The least-squares line through (rows, time) of measured steps, the latest weighing most."""

    def __init__(self) -> None:
        self.weight = 0.0
        self._rows = 0.0
        self._time = 0.0
        self._rows_rows = 0.0
        self._rows_time = 0.0

    def add(self, rows: int, seconds: float) -> None:
        if self.weight >= _ENOUGH:
            seconds = min(seconds, _OUTLIER * self.time)
        self.weight = self.weight * _MEMORY + 1.0
        self._rows = self._rows * _MEMORY + rows
        self._time = self._time * _MEMORY + seconds
        self._rows_rows = self._rows_rows * _MEMORY + rows * rows
        self._rows_time = self._rows_time * _MEMORY + rows * seconds

    @property
    def rows(self) -> float:
        """The mean number of rows."""
        return self._rows / self.weight

    @property
    def time(self) -> float:
        """The mean time."""
        return self._time / self.weight

    @property
    def slope(self) -> float | None:
        """Time a row; unknown where steps differ too little."""
        variance = self._rows_rows / self.weight - self.rows**2
        if self.weight < 2 * _ENOUGH or variance < 0.05:
            return None
        return (self._rows_time / self.weight - self.rows * self.time) / variance


@dataclass
class Costs:
    """What a step takes, in seconds."""

    idle: float
    """One that judges nothing: t0."""
    base: float
    """One that judges something, but for its rows: t1."""
    row: float
    """One judged row: c."""


class StepTime:
    """Times of steps with about as many requests."""

    def __init__(self) -> None:
        """Begin without measurements."""
        self._idle = _Line()
        self._judging = _Line()
        self.since_idle = 0
        """Steps since one judged nothing."""

    def add(self, rows: int, seconds: float) -> None:
        """Take a measured step."""
        (self._judging if rows else self._idle).add(rows, seconds)
        self.since_idle = self.since_idle + 1 if rows else 0

    def costs(self) -> Costs | None:
        """The measured costs; ``None`` while too little was measured."""
        idle, judging = self._idle, self._judging
        if idle.weight < _ENOUGH or judging.weight < _ENOUGH:
            return None
        row = judging.slope
        # Noise may turn the line; a row takes no less than nothing, and judging no less than not judging.
        if row is None or row < 0.0 or judging.time - row * judging.rows < idle.time:
            row = max(0.0, (judging.time - idle.time) / judging.rows)
        return Costs(idle.time, max(judging.time - row * judging.rows, 0.0), row)


@dataclass
class Rate:
    """Judged guesses and how many of them were accepted, the latest weighing most."""

    judged: float = 0.0
    accepted: float = 0.0

    def add(self, judged: int, accepted: int, memory: float) -> None:
        """Take one proposal's outcome."""
        self.judged = self.judged * memory + judged
        self.accepted = self.accepted * memory + accepted

    def leaning(self, on: float) -> float:
        """The rate, as if a few guesses had been accepted at rate ``on`` before."""
        return min((self.accepted + _LEAN * on) / (self.judged + _LEAN), _HIGHEST)


class Pace:
    """Chooses how many guesses each request is offered."""

    def __init__(self, *, judge_all: bool = False) -> None:
        """Begin without measurements; ``judge_all`` asks for none."""
        self._judge_all = judge_all
        self._times: dict[int, StepTime] = {}
        self._all = Rate()
        self._steps = 0

    def measured(self, requests: int, rows: int, seconds: float) -> None:
        """Take the time of a step that served ``requests`` without prefill and judged ``rows`` guesses."""
        self._time(requests).add(rows, seconds)

    def judged(self, rate: Rate, judged: int, accepted: int) -> None:
        """Take the outcome of a request's guesses; ``rate`` is that request's."""
        rate.add(judged, accepted, _RATE_MEMORY)
        self._all.add(judged, accepted, _ALL_MEMORY)

    def choose(self, requests: int, offers: Sequence[tuple[Rate, int]]) -> list[int]:
        """How many of its guesses each of ``offers`` (a request's rate, its guesses) has judged.

        ``requests`` is how many the step serves, with and without guesses.
        """
        if self._judge_all:
            return [count for _, count in offers]
        self._steps += 1
        time = self._time(requests)
        if time.since_idle >= _IDLE_EVERY:
            return [0] * len(offers)
        costs = time.costs()
        if costs is None:
            return [min(count, _EXPLORED) if self._steps % 2 else 0 for _, count in offers]
        overall = self._all.leaning(_START)
        rated = [(rate.leaning(overall), count) for rate, count in offers]
        depths = best_depths(requests, rated, costs.base, costs.row)
        tokens = requests + sum(_expected(rate, depth) for (rate, _), depth in zip(rated, depths, strict=True))
        if tokens / (costs.base + costs.row * sum(depths)) > requests / costs.idle:
            return depths
        return self._probe(offers)

    def _probe(self, offers: Sequence[tuple[Rate, int]]) -> list[int]:
        probe, rest = divmod(self._steps, _PROBE_EVERY)
        if rest:
            return [0] * len(offers)
        if probe % 8 == 0:
            return [count for _, count in offers]
        return [1 if i == probe % len(offers) else 0 for i in range(len(offers))]

    def _time(self, requests: int) -> StepTime:
        """Steps with about as many requests: within a fifth."""
        return self._times.setdefault(int(4 * math.log2(max(requests, 1))), StepTime())

    def summary(self) -> str:
        """The rate of all requests in words."""
        return f"{100 * self._all.leaning(_START):.0f} % of judged guesses accepted of late"


def best_depths(requests: int, offers: Sequence[tuple[float, int]], base: float, cost: float) -> list[int]:
    """The depths that make expected tokens per second largest.

    ``offers`` are (acceptance rate, guesses at hand); the module's text has the derivation.
    """
    depths: list[int] | None = None
    tokens, seconds = float(requests), base
    while True:
        threshold = cost * tokens / seconds
        chosen = [_depth(rate, count, threshold) for rate, count in offers]
        if chosen == depths:
            return chosen
        depths = chosen
        tokens = requests + sum(_expected(rate, depth) for (rate, _), depth in zip(offers, chosen, strict=True))
        seconds = base + cost * sum(chosen)


def _depth(rate: float, count: int, threshold: float) -> int:
    """How many of ``count`` guesses have a probability above ``threshold``."""
    if threshold <= 0.0:
        return count
    if rate <= threshold:
        return 0
    # rate^depth > threshold; the small number takes back what the logarithms round up.
    return min(count, int(math.log(threshold) / math.log(rate) - 1e-9))


def _expected(rate: float, depth: int) -> float:
    """How many of ``depth`` guesses are accepted on average."""
    return rate * (1.0 - rate**depth) / (1.0 - rate)
