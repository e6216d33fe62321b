"""How many guesses a step judges: as many as raise the expected tokens per second, down to none.

Let a step serve n requests. Request i is offered d(i) guesses; each is accepted with probability a(i), given that those
before it were. The step then writes

    E = Σ_i (1 + a(i) + a(i)² + … + a(i)^d(i))    tokens and takes    T = t0 + c · Σ_i d(i),

where t0 is the time of a step that judges nothing and c that of one judged row more. E / T is largest when exactly
those guesses are judged whose probability a(i)^depth exceeds c · E / T, what their time would write otherwise.
Beginning with E / T of no guesses, choosing and computing E / T anew ends at that choice (Dinkelbach 1967): each time
the threshold rises and guesses only drop out.

* a(i) is measured a request, and leans on all requests' rate until a few of its own guesses were judged.
* t0 and c are the least-squares line through (judged rows, time) of past steps with about as many requests. Steps with
  prefill, and those in which requests came or went, are left out.
* While the line is unknown, every other step judges two guesses a request and every other none. Later, now and then a
  step judges none, so that t0 stays known; and where no guess is worth it, now and then one is judged, so that a(i)
  can recover.
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

_ENOUGH = 8.0
"""Weight of measured steps before their line is believed."""

_IDLE_EVERY = 128
"""A step in so many judges nothing, to measure t0."""

_PROBE_EVERY = 64
"""Where no guess is worth it, a step in so many judges one."""

_EXPLORED = 2
"""Guesses a request judged while the line is unknown."""

_OUTLIER = 3.0
"""A step that took so many times the mean counts as that."""


class StepTime:
    """The line time = t0 + c · rows through measured steps, the latest weighing most."""

    def __init__(self) -> None:
        """Begin without measurements."""
        self._weight = 0.0
        self._rows = 0.0
        self._time = 0.0
        self._rows_rows = 0.0
        self._rows_time = 0.0
        self.since_idle = 0
        """Steps since one judged nothing."""

    def add(self, rows: int, seconds: float) -> None:
        """Take a measured step."""
        if self._weight >= _ENOUGH:
            seconds = min(seconds, _OUTLIER * self._time / self._weight)
        self._weight = self._weight * _MEMORY + 1.0
        self._rows = self._rows * _MEMORY + rows
        self._time = self._time * _MEMORY + seconds
        self._rows_rows = self._rows_rows * _MEMORY + rows * rows
        self._rows_time = self._rows_time * _MEMORY + rows * seconds
        self.since_idle = 0 if rows == 0 else self.since_idle + 1

    def line(self) -> tuple[float, float] | None:
        """``(t0, c)`` in seconds; ``None`` while too little was measured."""
        if self._weight < _ENOUGH:
            return None
        rows = self._rows / self._weight
        time = self._time / self._weight
        variance = self._rows_rows / self._weight - rows * rows
        if variance < 0.05:
            return None
        slope = (self._rows_time / self._weight - rows * time) / variance
        # Noise may turn the line; a row never takes less than nothing, nor a step without any.
        slope = min(max(slope, 0.0), time / max(rows, 1.0))
        return max(time - slope * rows, time * 0.01), slope


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
        line = time.line()
        if line is None:
            return [min(count, _EXPLORED) if self._steps % 2 else 0 for _, count in offers]
        if line[1] <= 0.0:
            return [count for _, count in offers]
        base, cost = line
        overall = self._all.leaning(_START)
        rates = [rate.leaning(overall) for rate, _ in offers]
        depths = best_depths(requests, [(a, count) for a, (_, count) in zip(rates, offers, strict=True)], base, cost)
        if offers and not any(depths) and self._steps % _PROBE_EVERY == 0:
            depths[self._steps // _PROBE_EVERY % len(depths)] = 1
        return depths

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
