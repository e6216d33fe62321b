"""One call of vLLM's workers a step, where vLLM makes three.

On CPUs, and where a model is split over GPUs, vLLM's workers are processes of their own. A step calls them for the
forward pass, again to sample, and with a proposer a third time for what it proposes; each call is a message there and
one back. Unless sampling waits for a grammar nothing happens between them, so a worker can do all three at one message.
What is computed, and in which order, stays vLLM's: its own functions are called.

vLLM loads it with `--distributed-executor-backend outrider_vllm.executor.MultiprocExecutor`.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from vllm.v1.executor import multiproc_executor  # type: ignore[import-not-found]

from outrider_vllm.address import SettingError

_PROPOSALS = "outrider_proposals"
"""The attribute of a step's output under which its proposals travel."""

_UNTOLD = object()
"""In their place where the last output had none with it."""


def _execute_and_sample(worker: Any, scheduler_output: Any) -> Any:  # noqa: ANN401 - vLLM's own types
    output = worker.execute_model(scheduler_output)
    if output is None and not scheduler_output.has_structured_output_requests:
        return _sample_and_propose(worker, None)
    return output


def _sample_and_propose(worker: Any, grammar_output: Any) -> Any:  # noqa: ANN401
    output = worker.sample_tokens(grammar_output)
    setattr(output, _PROPOSALS, worker.take_draft_token_ids())
    return output


_CALLS = {"execute_model": _execute_and_sample, "sample_tokens": _sample_and_propose}


class MultiprocExecutor(multiproc_executor.MultiprocExecutor):  # type: ignore[misc]
    """vLLM's executor, whose workers do a step at once."""

    _proposals: Any = _UNTOLD

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """Asynchronous scheduling asks for samples at once and would sample each step twice."""
        return False

    def _init_executor(self) -> None:
        """Start the workers.

        Raises:
            SettingError: with pipeline parallelism, for the same reason.

        """
        stages = self.parallel_config.pipeline_parallel_size
        if stages > 1:
            raise SettingError(
                f"outrider_vllm.executor.MultiprocExecutor cannot run {stages} pipeline stages: use tensor or data "
                "parallelism, or leave out --distributed-executor-backend"
            )
        super()._init_executor()

    def collective_rpc(self, method: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Call the workers, as vLLM does but for the two calls of a step."""
        called = _CALLS.get(method, method) if isinstance(method, str) else method
        return super().collective_rpc(called, *args, **kwargs)

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:  # noqa: ANN401
        """The step's output; ``None`` where a grammar decides what may be sampled."""
        return self._noting(super().execute_model(scheduler_output, non_block))

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:  # noqa: ANN401
        """The step's output."""
        return self._noting(super().sample_tokens(grammar_output, non_block))

    def take_draft_token_ids(self) -> Any:  # noqa: ANN401
        """The step's proposals, which came with its output; the workers are asked if they did not."""
        proposals, self._proposals = self._proposals, _UNTOLD
        return super().take_draft_token_ids() if proposals is _UNTOLD else proposals

    def _noting(self, answer: Any) -> Any:  # noqa: ANN401
        if isinstance(answer, Future):
            answer.add_done_callback(self._note)
        else:
            self._proposals = getattr(answer, _PROPOSALS, _UNTOLD)
        return answer

    def _note(self, answer: Future[Any]) -> None:
        self._proposals = _UNTOLD if answer.exception() else getattr(answer.result(), _PROPOSALS, _UNTOLD)
