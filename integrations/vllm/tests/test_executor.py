"""The executor, over a stub of vLLM's: calls and outputs go through pickle, as they do there."""

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass
class Output:
    """What a step gives."""

    sampled_token_ids: list[list[int]] = field(default_factory=list)


class Worker:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def execute_model(self, scheduled: SimpleNamespace) -> Output | None:
        self.done.append("execute")
        if scheduled.fails:
            raise ValueError("a pass failed")
        return None if scheduled.tokens else Output()

    def sample_tokens(self, grammar: str | None) -> Output:
        self.done.append(f"sample by {grammar}")
        return Output([[len(self.done)]])

    def take_draft_token_ids(self) -> int:
        self.done.append("propose")
        return len(self.done)


class Lazy(Future[Any]):
    """An answer that is fetched when it is asked for."""

    def __init__(self, fetch: Callable[[], Any]) -> None:
        super().__init__()
        self.fetch = fetch

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401
        if not self.done():
            try:
                self.set_result(self.fetch())
            except ValueError as error:
                self.set_exception(error)
        return super().result(timeout)


class Multiproc:
    """vLLM's executor, as far as ours touches it: every call is a message to the worker and one back."""

    def __init__(self, stages: int = 1) -> None:
        self.parallel_config = SimpleNamespace(pipeline_parallel_size=stages)
        self._init_executor()

    def _init_executor(self) -> None:
        self.worker = Worker()
        self.messages = 0

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    def collective_rpc(self, method: Any, args: tuple[Any, ...], non_block: bool = False) -> Any:  # noqa: ANN401
        self.messages += 1
        worker = self.worker
        is_name = isinstance(method, str)
        called = getattr(worker, method) if is_name else partial(pickle.loads(pickle.dumps(method)), worker)
        answer = Lazy(lambda: pickle.loads(pickle.dumps(called(*args))))
        return answer if non_block else answer.result()

    def execute_model(self, scheduled: SimpleNamespace, non_block: bool = False) -> Any:  # noqa: ANN401
        return self.collective_rpc("execute_model", args=(scheduled,), non_block=non_block)

    def sample_tokens(self, grammar: str | None, non_block: bool = False) -> Any:  # noqa: ANN401
        return self.collective_rpc("sample_tokens", args=(grammar,), non_block=non_block)

    def take_draft_token_ids(self) -> Any:  # noqa: ANN401
        return self.collective_rpc("take_draft_token_ids", args=())


def step(executor: Multiproc, *, tokens: int = 1, grammar: str | None = None, fails: bool = False) -> Any:  # noqa: ANN401
    """A step of vLLM's engine; what it proposes, where it has computed anything."""
    scheduled = SimpleNamespace(tokens=tokens, has_structured_output_requests=grammar is not None, fails=fails)
    output = executor.execute_model(scheduled, non_block=True).result()
    if output is None:
        output = executor.sample_tokens(grammar)
    assert isinstance(output, Output)
    return executor.take_draft_token_ids() if tokens else None


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    names = ["vllm", "vllm.v1", "vllm.v1.executor", "vllm.v1.executor.multiproc_executor"]
    modules = {name: ModuleType(name) for name in names}
    modules[names[2]].multiproc_executor = modules[names[3]]  # type: ignore[attr-defined]
    modules[names[3]].MultiprocExecutor = Multiproc  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "outrider_vllm.executor", raising=False)
    yield importlib.import_module("outrider_vllm.executor").MultiprocExecutor()
    del sys.modules["outrider_vllm.executor"]


def test_a_step_is_one_call_of_what_vllm_calls(executor: Any) -> None:  # noqa: ANN401
    theirs = Multiproc()
    assert [step(one) for one in (theirs, executor)] == [3, 3]
    assert theirs.worker.done == executor.worker.done == ["execute", "sample by None", "propose"]
    assert (theirs.messages, executor.messages) == (3, 1)
    # The proposals are each step's own.
    assert [step(executor), step(executor)] == [6, 9]
    assert executor.messages == 3


def test_a_grammar_is_waited_for(executor: Any) -> None:  # noqa: ANN401
    assert step(executor, grammar="json") == 3
    assert executor.worker.done == ["execute", "sample by json", "propose"]
    assert executor.messages == 2


def test_a_step_without_tokens_samples_nothing_and_keeps_no_proposals(executor: Any) -> None:  # noqa: ANN401
    step(executor)
    executor.worker.done.clear()
    assert step(executor, tokens=0) is None
    assert executor.worker.done == ["execute"]
    # What was not told is asked for.
    assert executor.take_draft_token_ids() == 2
    assert executor.worker.done == ["execute", "propose"]


def test_a_failure_reaches_the_engine(executor: Any) -> None:  # noqa: ANN401
    step(executor)
    with pytest.raises(ValueError, match="a pass failed"):
        step(executor, fails=True)
    executor.worker.done.clear()
    assert step(executor) == 3
    with suppress(ValueError):
        step(executor, fails=True)
    assert executor.take_draft_token_ids() == 5


def test_schedulers_that_sample_separately_are_refused(executor: Any) -> None:  # noqa: ANN401
    assert not type(executor).supports_async_scheduling()
    with pytest.raises(Exception, match="cannot run 2 pipeline stages: use tensor or data parallelism"):
        type(executor)(2)


def test_other_calls_are_as_they_were(executor: Any) -> None:  # noqa: ANN401
    assert executor.collective_rpc("take_draft_token_ids", args=()) == 1
    assert executor.collective_rpc(repr, args=()).startswith("<")
    assert executor.worker.done == ["propose"]
