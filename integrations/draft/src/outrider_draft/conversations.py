"""Conversations to learn from: read from a file, or written by the target itself."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

MARK = "\u2603\u2603"
"""Text that no template holds; it stands where a user's message will be."""


@dataclass(frozen=True)
class Conversation:
    """Messages that alternate between user and assistant, as OpenAI's API has them."""

    messages: list[dict[str, str]]


class Writer(Protocol):
    """A language model that continues token ids."""

    def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
        """Text after `ids`, and whether the model ended its turn."""


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that is used here."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any: ...  # noqa: ANN401, D102
    def encode(self, text: str, **options: Any) -> list[int]: ...  # noqa: ANN401, D102


def read(path: Path) -> list[Conversation]:
    """Read JSON lines with `messages`, or `prompt` and `response`, or a `text` that counts as an answer.

    Raises:
        ValueError: names the line that has none of these.

    """
    conversations = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        entry = json.loads(line)
        if "messages" in entry:
            messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in entry["messages"]]
        elif "prompt" in entry and "response" in entry:
            messages = [_message("user", entry["prompt"]), _message("assistant", entry["response"])]
        elif "text" in entry:
            messages = [_message("assistant", entry["text"])]
        else:
            raise ValueError(f"{path}, line {number}: expected `messages`, `prompt` and `response`, or `text`")
        conversations.append(Conversation(messages))
    return conversations


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": str(content)}


@dataclass(frozen=True)
class CompletionsServer:
    """A server with OpenAI's `/v1/completions`, such as `outrider serve` or vLLM."""

    url: str
    model: str

    @classmethod
    def at(cls, url: str) -> CompletionsServer:
        """The server at `url` (with or without `/v1`) and the first model it lists."""
        base = url.rstrip("/").removesuffix("/v1")
        with urllib.request.urlopen(f"{base}/v1/models", timeout=60) as answer:
            models = json.load(answer)["data"]
        return cls(base, str(models[0]["id"]))

    def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
        """Text after `ids`, and whether the model ended its turn."""
        body = {
            "model": self.model, "prompt": ids, "max_tokens": max_tokens,
            "temperature": temperature, "top_p": 1.0, "seed": seed,
        }  # fmt: skip
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=900) as answer:
            choice = json.load(answer)["choices"][0]
        return str(choice["text"]), choice["finish_reason"] == "stop"


ANSWER_TEMPERATURES = (0.0, 0.7, 0.7, 0.7, 1.0, 1.0)
REQUEST_TEMPERATURES = (0.8, 1.0, 1.0)


GIVEN = 2 / 3
"""Share of conversations that begin with a given question, if there are any."""


def write_one(
    writer: Writer, tokenizer: Tokenizer, rng: random.Random, questions: Sequence[str] = ()
) -> Conversation | None:
    """Let a chat model write a request and then the answer to it, sometimes twice; the first may be one of `questions`.

    The model continues the beginning of a user's turn of its own chat template, so that its requests are those it was
    trained on. Returns None if it does not end a request.
    """
    messages: list[dict[str, str]] = []
    temperature = rng.choice(ANSWER_TEMPERATURES)
    given = rng.choice(questions) if questions and rng.random() < GIVEN else None
    for turn in range(2 if rng.random() < 0.3 else 1):
        marked = [*messages, _message("user", MARK)]
        text = tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True)
        before, after = text.split(MARK)
        ids = tokenizer.encode(before, add_special_tokens=False)
        if given is not None and turn == 0:
            request, ended = given, True
        else:
            request, ended = writer.write(ids, 120, rng.choice(REQUEST_TEMPERATURES), rng.getrandbits(31))
        if not ended or len(request.strip()) < 4 or MARK in request:
            break
        ids += tokenizer.encode(request, add_special_tokens=False) + tokenizer.encode(after, add_special_tokens=False)
        answer, ended = writer.write(ids, 320, temperature, rng.getrandbits(31))
        messages += [_message("user", request), _message("assistant", answer)]
        if not ended:
            break
    return Conversation(messages) if messages else None


def write_many(  # noqa: PLR0913
    writer: Writer, tokenizer: Tokenizer, path: Path, *,
    tokens: int, seed: int, questions: Sequence[str] = (), parallel: int = 48,
) -> None:  # fmt: skip
    """Append conversations to `path` until their answers have `tokens` tokens; goes on where an earlier run stopped."""
    written = sum(_answered(tokenizer, conversation) for conversation in read(path)) if path.exists() else 0
    started, first, lock = time.monotonic(), written, threading.Lock()
    seeds = _seeds(seed, path)

    def work(_: int) -> None:
        nonlocal written
        while written < tokens:
            with lock:
                rng = random.Random(next(seeds))
            conversation = write_one(writer, tokenizer, rng, questions)
            if conversation is None:
                continue
            count = _answered(tokenizer, conversation)
            with lock, path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"messages": conversation.messages}, ensure_ascii=False) + "\n")
                before, written = written, written + count
                if before * 50 // tokens != written * 50 // tokens:
                    rate = (written - first) / (time.monotonic() - started)
                    left = max(0, tokens - written) / rate / 60
                    print(f"text: {written:,} of {tokens:,} answered tokens, {rate:.0f}/s, {left:.0f} min left")

    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(work, range(parallel)))


def _answered(tokenizer: Tokenizer, conversation: Conversation) -> int:
    answers = [m["content"] for m in conversation.messages if m["role"] == "assistant"]
    return sum(len(tokenizer.encode(answer, add_special_tokens=False)) + 1 for answer in answers)


def _seeds(seed: int, path: Path) -> Iterator[int]:
    """Seeds of conversations, other ones after each resumption."""
    resumed = path.stat().st_size if path.exists() else 0
    rng = random.Random(f"{seed}:{resumed}")
    while True:
        yield rng.getrandbits(63)
