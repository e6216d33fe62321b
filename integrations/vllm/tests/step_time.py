"""What the proposer adds to a step: `python tests/step_time.py` prints it."""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gateway import Gateway
from outrider_vllm import Proposer
from outrider_vllm.address import Address, UnixAddress
from stub_vllm import config

ROWS = 32
LENGTH = 4096
STEPS = 500


def main() -> None:
    """Measure steps without guesses, with one new guess a row and step, and under a flood."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OUTRIDER_GUESSES"] = f"unix:{folder}/guesses.sock"
        proposer = Proposer(config(vocabulary=50_000, max_model_len=2 * LENGTH, num_speculative_tokens=8))
        gateway = Gateway(UnixAddress(f"{folder}/guesses.sock"))
        texts = np.random.default_rng(0).integers(0, 50_000, (ROWS, 2 * LENGTH), dtype=np.int32)
        print(f"{ROWS} rows of {LENGTH} tokens, median and 99th percentile of {STEPS} steps:")
        show("no guesses", measure(proposer, texts, lambda _: None))

        def one_each(length: int) -> None:
            for row in texts:
                gateway.guess([0] * length, [1] * 8)
                gateway.guess(
                    [0] * (length - 16) + row[length - 16 : length].tolist(), row[length : length + 8].tolist()
                )

        show("64 new guesses of 8 tokens a step, half of them right", measure(proposer, texts, one_each))
        threading.Thread(target=pour, args=(UnixAddress(f"{folder}/guesses.sock"),), daemon=True).start()
        show("a gateway that sends as fast as it can", measure(proposer, texts, lambda _: None))
        proposer.close()


def pour(address: Address) -> None:
    """Send guesses of the largest size until the end."""
    gateway = Gateway(address)
    with contextlib.suppress(OSError):
        for length in itertools.count():
            gateway.guess([1] * length, [1] * 32)


def measure(proposer: Proposer, texts: npt.NDArray[np.int32], before: Callable[[int], None]) -> list[float]:
    """Seconds in `propose`, a step."""
    took = []
    for step in range(STEPS):
        length = LENGTH + step
        before(length)
        time.sleep(0.002)
        lengths = np.full(ROWS, length, dtype=np.int32)
        sampled = [[int(row[length - 1])] for row in texts]
        start = time.perf_counter()
        proposer.propose(sampled, lengths, texts)
        took.append(time.perf_counter() - start)
    return took


def show(what: str, took: list[float]) -> None:
    """One line."""
    took.sort()
    print(f"  {what}: {1e6 * statistics.median(took):.0f} µs, {1e6 * took[int(0.99 * len(took))]:.0f} µs")


if __name__ == "__main__":
    main()
