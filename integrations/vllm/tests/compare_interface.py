"""Compare `stub_vllm.py` with the vLLM that is installed, and say in one line what differs.

    VENV/bin/python tests/compare_interface.py

with vLLM's own interpreter. What is called is read from vLLM's source; how it judges is tried.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from stub_vllm import judge

ROOT = Path(next(iter(importlib.util.find_spec("vllm").submodule_search_locations or []), ""))  # type: ignore[union-attr]


def function(path: str, name: str) -> ast.AST:
    """A function's or method's syntax."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    return ast.Pass()


def calls(inside: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call, and what is called."""
    for node in ast.walk(inside):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def line_of(inside: ast.AST, text: str) -> int:
    """Where a call stands; 0 if nowhere."""
    return min((node.lineno for _, node in calls(inside) if ast.unparse(node).startswith(text)), default=0)


RUNNER = "v1/worker/gpu_model_runner.py"


def proposals_are_asked_for_as_in_the_stub() -> bool:
    """`propose(sampled, lengths, texts, slot_mappings=…)`, under the name `custom_class`."""
    for node in ast.walk(function(RUNNER, "propose_draft_token_ids")):
        if isinstance(node, ast.If) and "custom_class" in ast.unparse(node.test):
            wanted = ["sampled_token_ids", "self.input_batch.num_tokens_no_spec", "self.input_batch.token_ids_cpu"]
            return any(
                name.endswith(".propose")
                and [ast.unparse(one) for one in call.args] == wanted
                and [one.arg for one in call.keywords] == ["slot_mappings"]
                for name, call in calls(node.body[-1])
            )
    return False


def proposers_are_made_from_the_configuration() -> bool:
    """`Proposer(vllm_config)`, found by its dotted name."""
    made = function("v1/spec_decode/custom_class_proposer.py", "create_custom_proposer")
    return line_of(made, "user_class(vllm_config)") > 0 and "rsplit('.', 1)" in ast.unparse(made)


def models_are_loaded() -> bool:
    """`load_model(model)`."""
    return line_of(function("v1/worker/cpu_model_runner.py", "load_model"), "self.drafter.load_model(self.model)") > 0


def proposals_come_after_the_steps_tokens() -> bool:
    """Texts and lengths hold the step's tokens when proposals are asked for."""
    step = function(RUNNER, "sample_tokens")
    written = ast.unparse(function(RUNNER, "_bookkeeping_sync"))
    return (
        0 < line_of(step, "self._bookkeeping_sync(") < line_of(step, "propose_draft_token_ids(valid_sampled_token_ids)")
        and "self.input_batch.token_ids_cpu[req_idx, start_idx:end_idx] = sampled_ids" in written
        and "self.input_batch.num_tokens_no_spec[req_idx] = end_idx" in written
    )


def nothing_is_asked_for_near_the_longest_text() -> bool:
    """Zeros are proposed where the longest text of the batch and the proposals do not fit."""
    fits = ast.unparse(function(RUNNER, "_input_fits_in_drafter"))
    return "max_seq_len + num_drafter_query_tokens <= self.effective_drafter_max_model_len" in fits


def asynchronous_scheduling_is_off() -> bool:
    """It is off with proposers that read tokens on the host."""
    text = (ROOT / "config/vllm.py").read_text()
    return (
        "async scheduling is only supported" in text and "custom_class" in (ROOT / "config/speculative.py").read_text()
    )


def workers_are_called_as_the_executor_expects() -> bool:
    """A pass, then a sample where that gave nothing, then the proposals; functions are given the worker."""
    step = function("v1/engine/core.py", "step")
    passed = "self.model_executor.execute_model(scheduler_output, non_block=True)"
    executor = {
        name: ast.unparse(function("v1/executor/multiproc_executor.py", name))
        for name in ("execute_model", "sample_tokens", "take_draft_token_ids", "_execute_worker_rpc")
    }
    return (
        0 < line_of(step, passed) < line_of(step, "self.model_executor.sample_tokens(grammar_output)")
        and "if model_output is None" in ast.unparse(step)
        and line_of(function("v1/engine/core.py", "post_step"), "self.model_executor.take_draft_token_ids()") > 0
        and "if not scheduler_output.has_structured_output_requests:\n    return None"
        in ast.unparse(ast.Module(function("v1/core/sched/scheduler.py", "get_grammar_bitmask").body[:1], []))  # type: ignore[attr-defined]
        and all(f"self.collective_rpc('{name}'" in executor[name] for name in executor if not name.startswith("_"))
        and "func = partial(cloudpickle.loads(method), self.worker)" in executor["_execute_worker_rpc"]
    )


def judged(rounds: int, p: list[float], guesses: list[int]) -> npt.NDArray[np.int64]:
    """What vLLM itself makes of the same guesses, many times.

    Shape: [rounds, guesses + 1].
    """
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    # Found in vLLM's environment only.
    torch: Any = importlib.import_module("torch")
    current_platform = importlib.import_module("vllm.platforms").current_platform
    rejection_sample = importlib.import_module("vllm.v1.sample.rejection_sampler").rejection_sample

    current_platform.import_kernels()
    if current_platform.is_cpu():
        current_platform.register_triton_kernel_overrides()
    device = current_platform.device_type
    k = len(guesses)
    metadata = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=torch.ones(rounds, device=device), generators={}
    )
    out = rejection_sample(
        torch.tensor(guesses * rounds, dtype=torch.int32, device=device),
        [k] * rounds,
        k,
        torch.arange(k, rounds * k + 1, k, dtype=torch.int32, device=device),
        None,
        torch.tensor(p, device=device).log().repeat(rounds * k, 1),
        torch.full((rounds, 1), -2, dtype=torch.int32, device=device),
        metadata,
    )
    return np.asarray(out.cpu().numpy(), dtype=np.int64)


def guesses_are_judged_as_in_the_stub() -> bool:
    """The first token is the model's, and accepted as often as the stub accepts; so is the second."""
    p, guesses, rounds = [0.5, 0.2, 0.15, 0.1, 0.05], [1, 0], 40_000
    with contextlib.redirect_stdout(io.StringIO()):
        real = judged(rounds, p, guesses)
    random = np.random.default_rng(0)
    stub = np.full((rounds, 3), -1)
    for row in stub:
        for at, guess in enumerate(guesses):
            row[at] = judge(np.array(p), guess, random)
            if row[at] != guess:
                break
        else:
            row[2] = -2
    for at in range(2):
        counts = [np.bincount(one[one[:, at] >= 0, at], minlength=len(p)) for one in (real, stub)]
        shares = [one / one.sum() for one in counts]
        if abs(shares[0] - p).max() > 0.02 or abs(shares[0] - shares[1]).max() > 0.03:
            return False
    return bool(abs((real[:, 2] == -2).mean() - (stub[:, 2] == -2).mean()) < 0.01)


POINTS = [
    proposals_are_asked_for_as_in_the_stub,
    proposers_are_made_from_the_configuration,
    models_are_loaded,
    proposals_come_after_the_steps_tokens,
    nothing_is_asked_for_near_the_longest_text,
    asynchronous_scheduling_is_off,
    workers_are_called_as_the_executor_expects,
    guesses_are_judged_as_in_the_stub,
]


def main() -> None:
    """Compare all points."""
    version = importlib.metadata.version("vllm")
    different = []
    for point in POINTS:
        try:
            same = point()
        except Exception as error:  # noqa: BLE001 - whatever fails there differs
            same = False
            print(f"{point.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        if not same:
            different.append(point.__name__.replace("_", " "))
    if different:
        print(f"vLLM {version} differs: not true is that {'; that '.join(different)}")
    else:
        print(f"vLLM {version} calls and judges as stub_vllm.py does ({len(POINTS)} points)")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
