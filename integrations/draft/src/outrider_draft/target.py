"""The target model: loading, its tokenizer, and the tokens of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from outrider_draft.conversations import MARK, Conversation, render
from outrider_draft.resumption import digest


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

    @cached_property
    def end_of_turn(self) -> int:
        """Token that ends an answer: the one that the chat template writes after it, else the model's own.

        Some models end texts with another token, Gemma with `<eos>` and turns with `<end_of_turn>`.
        """
        listed = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        ends = [*(listed if isinstance(listed, list) else [listed]), self.tokenizer.eos_token_id]
        ends = [id_ for id_ in ends if id_ is not None]
        special = {*ends, *self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}]
        after = render(self.tokenizer, turns, add_generation_prompt=False).rpartition(MARK)[2]
        written = [id_ for id_ in self.tokenizer.encode(after, add_special_tokens=False) if id_ in special]
        return int([*written, *ends][0])

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the first weights of each of the model's tensors."""
        return digest(w.detach().flatten()[:256].float().cpu().numpy().tobytes() for w in self.model.parameters())

    def logits(self, ids: np.ndarray[Any, Any], places: np.ndarray[Any, Any], device: str) -> Tensor:
        """The model's own logits after `places` `[k]` of the text `ids` `[n]`, scaled as it does; f32 `[k, vocab]`."""
        text, rows = (torch.from_numpy(array).to(device) for array in (ids, places))
        logits: Tensor = self.model(input_ids=text[None], logits_to_keep=rows, use_cache=False).logits[0]
        return logits.float()


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
            text = render(tokenizer, before, add_generation_prompt=True)
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
