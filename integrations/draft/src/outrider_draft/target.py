"""The target model: loading, its tokenizer, and the tokens of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from outrider_draft.conversations import Conversation


@dataclass(frozen=True)
class Target:
    """A causal language model of transformers and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any

    @property
    def vocab_size(self) -> int:
        """Number of rows of the output head."""
        return int(self.model.config.vocab_size)

    @property
    def begins_texts(self) -> bool:
        """Whether the tokenizer begins every text with its first special token."""
        bos = self.tokenizer.bos_token_id
        return bos is not None and self.tokenizer.encode("")[:1] == [bos]

    @property
    def end_of_turn(self) -> int:
        """Token that ends an answer."""
        return int(self.tokenizer.eos_token_id)


def load(path: str, device: str) -> Target:
    """Load a folder, a GGUF file, or `hf:OWNER/NAME` from the hub.

    Raises:
        ValueError: says what the tokenizer lacks.

    """
    where, options = path.removeprefix("hf:"), {}
    if path.endswith(".gguf"):
        where, options = str(Path(path).parent), {"gguf_file": Path(path).name}
    tokenizer = AutoTokenizer.from_pretrained(where, **options)
    if not tokenizer.chat_template:
        raise ValueError(f"{path} has no chat template: outrider-draft makes drafts for chat models")
    if tokenizer.eos_token_id is None:
        raise ValueError(f"{path} names no token that ends a turn (eos_token)")
    dtype = torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(where, dtype=dtype, **options).to(device=device, dtype=dtype).eval()
    return Target(Path(where).name if not options else Path(path).stem, model, tokenizer)


@dataclass(frozen=True)
class Sequence:
    """Token ids of a conversation, int64 `[n]`, and which of them the assistant wrote, bool `[n]`."""

    ids: np.ndarray[Any, np.dtype[np.int64]]
    answered: np.ndarray[Any, np.dtype[np.bool_]]


def sequence(tokenizer: Any, conversation: Conversation, end: int, limit: int) -> Sequence | None:  # noqa: ANN401
    """Tokens of a conversation as the chat template writes them, cut after `limit`; None if nothing is answered.

    Where the template rewrites earlier turns (as reasoning models' templates do), the last answer alone counts.
    """
    ids: list[int] = []
    answered: list[bool] = []
    for index, message in enumerate(conversation.messages):
        if message["role"] != "assistant":
            continue
        before = conversation.messages[:index]
        prompt: list[int] = []
        if before:
            text = tokenizer.apply_chat_template(before, tokenize=False, add_generation_prompt=True)
            prompt = tokenizer.encode(text, add_special_tokens=False)
        elif tokenizer.bos_token_id is not None:
            prompt = [tokenizer.bos_token_id]
        kept = len(ids) if prompt[: len(ids)] == ids else 0
        ids, answered = ids[:kept], answered[:kept]
        answered += [False] * (len(prompt) - kept)
        answer = [*tokenizer.encode(message["content"], add_special_tokens=False), end]
        ids, answered = prompt + answer, answered + [True] * len(answer)
    ids, answered = ids[:limit], answered[:limit]
    if not any(answered):
        return None
    return Sequence(np.array(ids, np.int64), np.array(answered, np.bool_))
