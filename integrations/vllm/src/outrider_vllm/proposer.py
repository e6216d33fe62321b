"""The class that vLLM loads by name and asks for proposals after each step."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider_vllm.channel import Channel
from outrider_vllm.messages import TAIL
from outrider_vllm.pace import Pace, Rate
from outrider_vllm.settings import settings, warn_of_version
from outrider_vllm.store import Key, Store
from outrider_vllm.temperature import put_right

logger = logging.getLogger("vllm.outrider")

_LOG_SECONDS = 60.0


@dataclass
class _Row:
    """A row of vLLM's batch, as the last step left it."""

    tokens: int
    rate: Rate = field(default_factory=Rate)
    key: Key | None = None
    """The text that ``ids`` were proposed to follow."""
    ids: Sequence[int] = ()


@dataclass
class Counts:
    """What was proposed since the start."""

    steps: int = 0
    proposed: int = 0
    accepted: int = 0


class Proposer:
    """Proposes what browsers guessed.

    vLLM 0.32 makes one with ``--speculative-config '{"method": "custom_class", "model": "outrider_vllm.Proposer",
    "num_speculative_tokens": 8}'`` and calls :meth:`propose` after each step, when the step's tokens are part of the
    texts already. It passes no request ids, so a guess is addressed by what it follows. A proposal has no
    probabilities: vLLM accepts it with the probability that the model gives it and else samples among the others, so
    the text stays the model's own whatever is proposed.
    """

    def __init__(self, vllm_config: Any, clock: Callable[[], float] = time.perf_counter) -> None:  # noqa: ANN401
        """Read vLLM's configuration and listen for gateways.

        Raises:
            SettingError: if something is missing, or cannot work with this version of vLLM.

        """
        warn_of_version()
        self._settings = settings(vllm_config)
        put_right()
        self._clock = clock
        self.counts = Counts()
        self._store = Store()
        self._pace = Pace(judge_all=self._settings.judge_all)
        self._rows: list[_Row] = []
        self._stepped_at = 0.0
        self._judged_rows = 0
        self._logged_at = clock()
        self._failed = False
        self._channel: Channel | None = None
        if self._settings.address is not None:
            self._channel = Channel(
                self._settings.address,
                self._settings.token,
                self._settings.num_speculative_tokens,
                self._settings.vocabulary,
                self._store.add,
            )
            # vLLM's engine is a child process: what it runs at its end is multiprocessing's list, not atexit's.
            Finalize(self, self._channel.close, exitpriority=0)
            logger.info("guesses: listening at %s", self._settings.address)

    @property
    def channel(self) -> Channel | None:
        """The listening end, in the process whose proposals the scheduler takes."""
        return self._channel

    def load_model(self, *_: object, **__: object) -> None:
        """Do nothing: browsers have the model that drafts."""

    def close(self) -> None:
        """Stop listening."""
        if self._channel is not None:
            self._channel.close()

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: npt.NDArray[np.int32],
        token_ids_cpu: npt.NDArray[np.int32],
        slot_mappings: object = None,  # noqa: ARG002 - vLLM passes it by name
    ) -> list[list[int]]:
        """Propose continuations of the batch's texts.

        Args:
            sampled_token_ids: the tokens that the step wrote, a list a row; empty for a prompt that is not read yet.
            num_tokens_no_spec: the texts' lengths, those tokens included. shape: [rows or more]
            token_ids_cpu: the texts. shape: [rows or more, max_model_len]
            slot_mappings: not needed.

        Returns:
            A list of proposed tokens a row, often empty.

        """
        if self._channel is None or self._failed:
            return [[] for _ in sampled_token_ids]
        try:
            return self._propose(self._channel, sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        except Exception:
            # A guess is not worth a step: an error here would end vLLM's engine.
            logger.exception("guesses: the proposer failed and proposes no more")
            self._failed = True
            return [[] for _ in sampled_token_ids]

    def _propose(
        self,
        channel: Channel,
        sampled: list[list[int]],
        num_tokens: npt.NDArray[np.int32],
        token_ids: npt.NDArray[np.int32],
    ) -> list[list[int]]:
        now = self._clock()
        lengths: list[int] = num_tokens[: len(sampled)].tolist()
        rows = self._judge(sampled, lengths, now)

        proposals: list[list[int]] = [[] for _ in sampled]
        if len(self._store):
            offers: list[tuple[int, Key, list[int]]] = []
            for i, row in enumerate(rows):
                if sampled[i] and (found := self._find(row.tokens, token_ids[i])):
                    offers.append((i, *found))
            if offers:
                depths = self._pace.choose(len(sampled), [(rows[i].rate, len(ids)) for i, _, ids in offers])
                for (i, key, ids), depth in zip(offers, depths, strict=True):
                    if depth:
                        proposals[i] = ids[:depth]
                        rows[i].key = key
                        rows[i].ids = proposals[i]

        self._rows = rows
        self._judged_rows = sum(map(len, proposals))
        self.counts.steps += 1
        self.counts.proposed += self._judged_rows
        # The step is over for vLLM when this returns; what was spent here counts for the next.
        self._stepped_at = now
        if now - self._logged_at >= _LOG_SECONDS:
            self._log(channel, now)
        return proposals

    def _find(self, tokens: int, text: npt.NDArray[np.int32]) -> tuple[Key, list[int]] | None:
        # A proposal and the token that follows it have to fit.
        limit = min(self._settings.num_speculative_tokens, self._settings.max_model_len - tokens - 1)
        if limit <= 0:
            return None
        key = (tokens, text[max(0, tokens - TAIL) : tokens].astype("<i4", copy=False).tobytes())
        ids = self._store.find(key, limit)
        return (key, ids) if ids else None

    def _judge(self, sampled: list[list[int]], lengths: list[int], now: float) -> list[_Row]:
        """Learn from what became of the last proposals; the batch's rows as they are now.

        vLLM moves rows about: a row is the one of the last step if its text has grown by the step's tokens.
        """
        before = self._rows
        steady = len(before) == len(sampled)
        rows: list[_Row] = []
        for i, (ids, length) in enumerate(zip(sampled, lengths, strict=True)):
            if i < len(before) and ids and before[i].tokens + len(ids) == length:
                row = before[i]
                if row.key is not None:
                    self._judge_row(row, row.key, ids)
                rows.append(_Row(length, row.rate))
            else:
                steady = False
                rows.append(_Row(length))
        if steady and rows:
            self._pace.measured(len(rows), self._judged_rows, now - self._stepped_at)
        return rows

    def _judge_row(self, row: _Row, key: Key, ids: list[int]) -> None:
        accepted = 0
        for guessed, written in zip(row.ids, ids, strict=False):
            if guessed != written:
                break
            accepted += 1
        self.counts.accepted += accepted
        # One more was judged, and rejected, unless all were accepted.
        self._pace.judged(row.rate, min(accepted + 1, len(row.ids)), accepted)
        if not accepted:
            self._store.rejected(key)

    def _log(self, channel: Channel, now: float) -> None:
        self._logged_at = now
        if channel.counts.received:
            logger.info(
                "guesses: %d gateways, %d guesses received; %d of %d proposed tokens accepted in %d steps; %s",
                channel.connections,
                channel.counts.received,
                self.counts.accepted,
                self.counts.proposed,
                self.counts.steps,
                self._pace.summary(),
            )
