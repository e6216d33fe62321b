"""What a proposer sees of vLLM 0.32, without vLLM: an engine that writes from a small known distribution.

It calls the proposer as ``vllm/v1/worker/gpu_model_runner.py`` does and judges proposals as
``vllm/v1/sample/rejection_sampler.py`` does where they have no probabilities. ``compare_interface.py`` compares this
file's idea of both with an installed vLLM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.float64]
Target = Callable[[list[int]], Probabilities]


class Proposes(Protocol):
    """What vLLM asks of a proposer."""

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: npt.NDArray[np.int32],
        token_ids_cpu: npt.NDArray[np.int32],
        slot_mappings: object = None,
    ) -> list[list[int]]:
        """Propose continuations of the batch's texts."""


def config(**changes: object) -> SimpleNamespace:
    """The parts of vLLM's configuration that a proposer reads."""
    parallel = {
        "rank": 0,
        "world_size": 1,
        "pipeline_parallel_size": 1,
        "tensor_parallel_size": 1,
        "data_parallel_index": 0,
        "distributed_executor_backend": None,
    }
    values: dict[str, object] = {
        "vocabulary": 12,
        "max_model_len": 512,
        "num_speculative_tokens": 4,
        "async_scheduling": False,
        **parallel,
        **changes,
    }
    vocabulary = values["vocabulary"]
    return SimpleNamespace(
        speculative_config=SimpleNamespace(num_speculative_tokens=values["num_speculative_tokens"]),
        model_config=SimpleNamespace(max_model_len=values["max_model_len"], get_vocab_size=lambda: vocabulary),
        scheduler_config=SimpleNamespace(async_scheduling=values["async_scheduling"]),
        parallel_config=SimpleNamespace(**{name: values[name] for name in parallel}),
    )


def random_target(vocabulary: int, seed: int) -> Target:
    """A target whose next token depends on the last two."""
    logits = np.random.default_rng(seed).normal(0.0, 1.5, (vocabulary, vocabulary, vocabulary))
    weights = np.exp(logits)
    table: Probabilities = weights / weights.sum(axis=2, keepdims=True)

    def target(text: list[int]) -> Probabilities:
        row: Probabilities = table[text[-2] if len(text) > 1 else 0, text[-1]]
        return row

    return target


def likeliest(target: Target, text: list[int], count: int) -> list[int]:
    """The greedy continuation."""
    written = list(text)
    for _ in range(count):
        written.append(int(target(written).argmax()))
    return written[len(text) :]


Judge = Callable[[Probabilities, int, np.random.Generator], int]


def judge(p: Probabilities, guess: int, random: np.random.Generator) -> int:
    """The token at the place of a guess without a probability: the guess with p(guess), else one of the others."""
    if p[guess] >= random.random():
        return guess
    others = p.copy()
    others[guess] = 0.0
    return int(random.choice(len(p), p=others / others.sum()))


@dataclass
class Request:
    """A text being written."""

    text: list[int]
    end: int
    """The length at which it is finished."""
    read: int = 0
    """How many of its tokens the engine has read; all but the last are in its cache while it writes."""
    proposals: list[int] = field(default_factory=list)
    steps: int = 0


class Engine:
    """Steps a batch of requests, the proposer asked after each."""

    def __init__(
        self,
        proposer: Proposes,
        target: Target,
        *,
        greedy: bool,
        seed: int = 0,
        rows: int = 8,
        max_model_len: int = 512,
        num_speculative_tokens: int = 4,
        chunk: int = 64,
        judge: Judge = judge,
    ) -> None:
        """Begin without requests."""
        self.random = np.random.default_rng(seed)
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.steps = 0
        self._proposer = proposer
        self._target = target
        self._greedy = greedy
        self._rows = rows
        self._max = max_model_len
        self._k = num_speculative_tokens
        self._chunk = chunk
        self._judge = judge
        self._lengths = np.zeros(rows, dtype=np.int32)
        self._texts = np.zeros((rows, max_model_len), dtype=np.int32)

    def add(self, prompt: list[int], tokens: int) -> Request:
        """A request for so many tokens behind a prompt."""
        request = Request(list(prompt), min(len(prompt) + tokens, self._max))
        self.waiting.append(request)
        return request

    def preempt(self, row: int) -> None:
        """Take a request's row away; it is read again later."""
        request = self.running[row]
        self._remove(row)
        request.read = 0
        request.proposals = []
        self.waiting.append(request)

    def run(self) -> None:
        """Step until all is written."""
        while self.running or self.waiting:
            self.step()

    def step(self) -> None:
        """One forward pass, its tokens, and the proposals for the next."""
        while self.waiting and len(self.running) < self._rows:
            self._append(self.waiting.pop(0))
        sampled = [self._write(request) for request in self.running]
        for row, (request, new) in enumerate(zip(self.running, sampled, strict=True)):
            length = self._lengths[row]
            self._texts[row, length : length + len(new)] = new
            self._lengths[row] = length + len(new)
            request.text.extend(new)
        # Near the model's longest text vLLM proposes zeros for the whole batch and does not ask.
        if max(self._lengths[: len(self.running)], default=0) + self._k <= self._max:
            proposals = self._proposer.propose(sampled, self._lengths, self._texts, slot_mappings=None)
        else:
            proposals = [[0] * self._k for _ in sampled]
        assert len(proposals) == len(sampled)
        for request, proposal in zip(self.running, proposals, strict=True):
            assert len(proposal) <= self._k
            assert all(type(one) is int for one in proposal)
            request.proposals = proposal[: max(0, self._max - len(request.text) - 1)]
        self.steps += 1
        for row in reversed(range(len(self.running))):
            request = self.running[row]
            if len(request.text) >= request.end:
                del request.text[request.end :]
                self._remove(row)

    def _write(self, request: Request) -> list[int]:
        if request.read + self._chunk < len(request.text):
            request.read += self._chunk
            return []
        request.read = len(request.text)
        request.steps += 1
        new: list[int] = []
        for guess in request.proposals:
            token = self._at(request.text + new, guess)
            new.append(token)
            if token != guess:
                return new
        new.append(self._at(request.text + new, None))
        return new

    def _at(self, text: list[int], guess: int | None) -> int:
        p = self._target(text)
        if self._greedy:
            return int(p.argmax())
        if guess is None:
            return int(self.random.choice(len(p), p=p))
        return self._judge(p, guess, self.random)

    def _append(self, request: Request) -> None:
        row = len(self.running)
        self._texts[row, : len(request.text)] = request.text
        self._lengths[row] = len(request.text)
        self.running.append(request)

    def _remove(self, row: int) -> None:
        """Free a row; the last one moves there."""
        last = len(self.running) - 1
        self._texts[row] = self._texts[last]
        self._lengths[row] = self._lengths[last]
        self.running[row] = self.running[last]
        self.running.pop()
