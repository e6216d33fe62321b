"""What the proposer takes from vLLM's configuration and from the environment, and what it refuses."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from outrider_vllm.address import Address, SettingError, TcpAddress, parse_address

ADDRESS = "OUTRIDER_GUESSES"
TOKEN_FILE = "OUTRIDER_GUESSES_TOKEN_FILE"
PACE = "OUTRIDER_GUESSES_PACE"
SUPPORTED = "0.32.0"
"""Version of vLLM whose interface this package was written for."""

logger = logging.getLogger("vllm.outrider")


@dataclass(frozen=True)
class Settings:
    """How this process proposes."""

    num_speculative_tokens: int
    max_model_len: int
    vocabulary: int
    """0 if unknown."""
    address: Address | None
    """Where to listen; ``None`` in processes whose proposals the scheduler does not take."""
    token: bytes
    judge_all: bool
    """Whether all guesses are judged, also those that are not worth their time."""


def settings(vllm_config: Any, environment: Mapping[str, str] = os.environ) -> Settings:  # noqa: ANN401 - vLLM's own type
    """Read vLLM's configuration and the environment.

    Raises:
        SettingError: if something is missing, or cannot work with this version of vLLM.

    """
    parallel = vllm_config.parallel_config
    if getattr(vllm_config.scheduler_config, "async_scheduling", False):
        raise SettingError("guesses need sampled tokens on the host after each step: add --no-async-scheduling")
    if parallel.pipeline_parallel_size > 1:
        raise SettingError(
            "guesses do not work with pipeline parallelism: vLLM schedules the next micro-batch before it takes "
            "proposals; use tensor or data parallelism"
        )
    if parallel.distributed_executor_backend == "external_launcher" and parallel.world_size > 1:
        raise SettingError(
            "guesses do not work with the external_launcher backend: each of its processes schedules for itself, "
            "and all would have to propose the same"
        )
    # The first tensor-parallel worker answers the scheduler; with one pipeline stage that is rank 0.
    address = _address(environment, parallel.data_parallel_index) if parallel.rank == 0 else None
    return Settings(
        num_speculative_tokens=vllm_config.speculative_config.num_speculative_tokens,
        max_model_len=vllm_config.model_config.max_model_len,
        vocabulary=vllm_config.model_config.get_vocab_size(),
        address=address,
        token=_token(environment) if isinstance(address, TcpAddress) else b"",
        judge_all=_judge_all(environment),
    )


def warn_of_version() -> None:
    """Warn in the log if the installed vLLM has another version than the supported one."""
    try:
        # Builds have a suffix, as in 0.32.0+cpu.
        version = metadata.version("vllm").partition("+")[0]
    except metadata.PackageNotFoundError:
        return
    if version != SUPPORTED:
        logger.warning(
            "guesses: this is vLLM %s, and outrider-vllm was tried with %s: if it fails, install that one",
            version,
            SUPPORTED,
        )


def _judge_all(environment: Mapping[str, str]) -> bool:
    pace = environment.get(PACE, "measured")
    if pace not in {"measured", "all"}:
        raise SettingError(f"{PACE} is `{pace}`; it has to be measured or all")
    return pace == "all"


def _address(environment: Mapping[str, str], rank: int) -> Address:
    text = environment.get(ADDRESS)
    if not text:
        raise SettingError(f"{ADDRESS} is not set: say where gateways connect, as in unix:/run/outrider/guesses.sock")
    return parse_address(text, rank)


def _token(environment: Mapping[str, str]) -> bytes:
    name = environment.get(TOKEN_FILE)
    if not name:
        raise SettingError(f"{ADDRESS} is a TCP address: {TOKEN_FILE} has to name the file with the gateways' token")
    try:
        token = Path(name).read_bytes().strip()
    except OSError as error:
        raise SettingError(f"{TOKEN_FILE}: {name} cannot be read ({error.strerror})") from error
    if not 16 <= len(token) <= 1024:
        raise SettingError(f"{TOKEN_FILE}: the token in {name} has {len(token)} bytes; 16 to 1024 are allowed")
    return token
