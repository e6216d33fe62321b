"""Guesses from browsers as vLLM's own proposals; see README.md."""

from outrider_vllm.address import SettingError
from outrider_vllm.proposer import Proposer

__all__ = ["Proposer", "SettingError"]
