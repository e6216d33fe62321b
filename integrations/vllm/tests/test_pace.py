"""How many guesses are judged."""

import itertools
import json
import random
from pathlib import Path

import pytest

from outrider_vllm.pace import Pace, Rate, StepTime, best_depths


def speed(requests: int, offers: list[tuple[float, int]], depths: tuple[int, ...], base: float, cost: float) -> float:
    """Expected tokens per second, term by term."""
    tokens = float(requests)
    for (rate, _), depth in zip(offers, depths, strict=True):
        tokens += sum(rate**d for d in range(1, depth + 1))
    return tokens / (base + cost * sum(depths))


def test_no_other_depths_are_faster() -> None:
    source = random.Random(3)
    different = set()
    for _ in range(400):
        offers = [(source.uniform(0.02, 0.98), source.randrange(5)) for _ in range(source.randrange(1, 4))]
        requests = len(offers) + source.randrange(3)
        base, cost = source.uniform(0.5, 2.0), source.choice([0.0, source.uniform(0.0, 1.0)])
        chosen = tuple(best_depths(requests, offers, base, cost))
        choices = itertools.product(*(range(count + 1) for _, count in offers))
        best = max(speed(requests, offers, depths, base, cost) for depths in choices)
        assert speed(requests, offers, chosen, base, cost) == pytest.approx(best, rel=1e-9)
        different.add(chosen)
    assert len(different) > 50


def test_choices_are_those_of_the_server() -> None:
    # The crate `control` runs the same file.
    vectors = Path(__file__).parents[3] / "control" / "vectors" / "allocation.json"
    for case in json.loads(vectors.read_text())["cases"]:
        offers = [(rate, count) for rate, count in case["offers"]]
        depths = best_depths(case["requests"], offers, case["base"], case["row"])
        assert depths == case["depths"], case
        found = 1000 * speed(case["requests"], offers, tuple(depths), case["base"], case["row"])
        assert found == pytest.approx(case["tokensPerSecond"])


def test_costs_are_found_in_noise() -> None:
    source = random.Random(4)
    time = StepTime()
    for _ in range(2000):
        rows = source.randrange(9)
        seconds = 0.013 + 0.002 * rows if rows else 0.010
        time.add(rows, seconds * source.uniform(0.9, 1.1) * (50 if source.random() < 0.01 else 1))
    costs = time.costs()
    assert costs is not None
    assert costs.idle == pytest.approx(0.010, rel=0.1)
    assert costs.base == pytest.approx(0.013, rel=0.15)
    assert costs.row == pytest.approx(0.002, rel=0.25)


def test_without_differences_costs_go_through_the_idle_steps() -> None:
    time = StepTime()
    for _ in range(100):
        time.add(4, 0.018)
    assert time.costs() is None
    for _ in range(100):
        time.add(0, 0.010)
    costs = time.costs()
    assert costs is not None
    assert costs.base == pytest.approx(0.010)
    assert costs.row == pytest.approx(0.002)


def simulate(
    steps: int, requests: int, rate: float, base: float, cost: float, *, judging: float = 0.0
) -> tuple[float, float]:
    """Tokens per second with the pace, over those without guesses; and the mean of judged guesses."""
    source = random.Random(5)
    pace = Pace()
    rates = [Rate() for _ in range(requests)]
    tokens = seconds = 0.0
    rows = 0
    for _ in range(steps):
        depths = pace.choose(requests, [(one, 8) for one in rates])
        for one, depth in zip(rates, depths, strict=True):
            accepted = 0
            while accepted < depth and source.random() < rate:
                accepted += 1
            tokens += accepted + 1
            if depth:
                pace.judged(one, min(accepted + 1, depth), accepted)
        took = (base + cost * sum(depths) + judging * any(depths)) * source.uniform(0.85, 1.15)
        pace.measured(requests, sum(depths), took)
        seconds += took
        rows += sum(depths)
    return tokens / seconds / (requests / base), rows / steps / requests


@pytest.mark.parametrize("requests", [1, 8, 32])
def test_never_slower_for_long(requests: int) -> None:
    # A judged row costs as much as a request's own: nothing is gained from it.
    gain, rows = simulate(3000, requests, 0.6, 0.010, 0.010 / requests)
    assert gain > 0.97
    assert rows < 0.5
    # Rows cost nothing to speak of.
    gain, rows = simulate(3000, requests, 0.8, 0.010, 0.000_01 / requests)
    assert gain > 3.0
    assert rows > 7.0
    # Judging at all costs half a step, rows next to nothing: worth it, or not.
    gain, rows = simulate(3000, requests, 0.8, 0.010, 0.000_01 / requests, judging=0.005)
    assert gain > 2.0
    gain, rows = simulate(3000, requests, 0.3, 0.010, 0.000_01 / requests, judging=0.005)
    assert gain > 0.97
    # Guesses are always wrong.
    gain, _ = simulate(3000, requests, 0.0, 0.010, 0.001 / requests)
    assert gain > 0.97


def test_rates_recover() -> None:
    pace = Pace()
    rate = Rate()
    for _ in range(100):
        pace.measured(1, 0, 0.010)
        pace.measured(1, 8, 0.018)
        pace.judged(rate, 1, 0)
    judged = 0
    for _ in range(2000):
        (depth,) = pace.choose(1, [(rate, 8)])
        if depth:
            pace.judged(rate, depth, depth)
            judged += depth
        pace.measured(1, depth, 0.010 + 0.001 * depth)
    assert judged > 1000


def test_all_are_judged_where_that_is_asked_for() -> None:
    pace = Pace(judge_all=True)
    rate = Rate()
    for _ in range(500):
        assert pace.choose(2, [(rate, 8), (rate, 3)]) == [8, 3]
        pace.measured(2, 11, 1.0)
        pace.judged(rate, 1, 0)
