"""Conversations to learn from: read from a file, or written by the target itself."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
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

    Conversations with calls of tools and no text are left out.

    Raises:
        ValueError: names the line that has none of these, or content other than text.

    """
    conversations, skipped = [], 0
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            messages = _messages(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error.msg} at column {error.colno})") from error
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        if messages is None:
            skipped += 1
        else:
            conversations.append(Conversation(messages))
    if skipped:
        print(f"{path}: {skipped} conversations left out, whose messages call tools without a text")
    return conversations


def lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file; unlike `splitlines`, only newlines end them, as in JSON lines.

    Raises:
        ValueError: if the file has another encoding.

    """
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8") from error


def _messages(entry: Any) -> list[dict[str, str]] | None:  # noqa: ANN401
    """Messages of a line; None if one calls tools without a text."""
    form = entry.keys() if isinstance(entry, dict) else ()
    if "messages" in form:
        messages = entry["messages"]
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise ValueError("`messages` has to be a list of objects with `role` and `content`")
        if any(message.get("tool_calls") and message.get("content") is None for message in messages):
            return None
        return [_message(message.get("role"), message.get("content")) for message in messages]
    if "prompt" in form and "response" in form:
        return [_message("user", entry["prompt"]), _message("assistant", entry["response"])]
    if "text" in form:
        return [_message("assistant", entry["text"])]
    raise ValueError("expected `messages`, `prompt` and `response`, or `text`")


def _message(role: Any, content: Any) -> dict[str, str]:  # noqa: ANN401
    if not isinstance(role, str):
        raise ValueError("a message has no `role`")
    if isinstance(content, list):
        parts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "".join(parts) if all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str):
        raise ValueError(f"the content of the role {role} has to be text, or parts that are all text")
    return {"role": role, "content": content}


def render(tokenizer: Tokenizer, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
    """Messages as the chat template writes them.

    Raises:
        ValueError: if the template refuses them.

    """
    options = {"tokenize": False, "add_generation_prompt": add_generation_prompt}
    try:
        return str(tokenizer.apply_chat_template(messages, **options))
    except Exception as error:  # a template is a program, and raises anything
        roles = ", ".join(message["role"] for message in messages)
        raise ValueError(f"the target's chat template refuses messages of the roles {roles}: {error}") from error


@dataclass(frozen=True)
class CompletionsServer:
    """A server with OpenAI's `/v1/completions`, such as `outrider serve` or vLLM."""

    url: str
    model: str

    @classmethod
    def at(cls, url: str) -> CompletionsServer:
        """The server at `url` (with or without `/v1`) and the first model it lists."""
        base = url.rstrip("/").removesuffix("/v1")
        models = _answer(f"{base}/v1/models")
        return cls(base, str(models["data"][0]["id"]))

    def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
        """Text after `ids`, and whether the model ended its turn."""
        body = {
            "model": self.model, "prompt": ids, "max_tokens": max_tokens,
            "temperature": temperature, "top_p": 1.0, "seed": seed,
        }  # fmt: skip
        choice = _answer(f"{self.url}/v1/completions", json.dumps(body).encode())["choices"][0]
        return str(choice["text"]), choice["finish_reason"] == "stop"


RETRY_AFTER = (1.0, 4.0, 16.0)
"""Seconds before each retry of a request that failed."""
FULL_FOR = 900.0
"""Seconds without a conversation after which a server counts as full for good."""


class FullError(ValueError):
    """A server that has no room at the moment, and the seconds after which it wants to be asked again."""

    def __init__(self, url: str, seconds: float) -> None:
        """Name the server's URL and the seconds."""
        super().__init__(f"{url} has no room for another request")
        self.seconds = seconds


def _answer(url: str, body: bytes | None = None) -> Any:  # noqa: ANN401
    """JSON that a server answers; a request with a body is retried.

    Raises:
        ValueError: if all tries failed.

    """
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    waits = list(RETRY_AFTER if body else ())
    tries = 0
    while True:
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                return json.load(answer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            seconds = error.headers.get("Retry-After", "") if isinstance(error, urllib.error.HTTPError) else ""
            if seconds.isdecimal():
                raise FullError(url, min(max(int(seconds), 1), 60)) from error
            if tries == len(waits):
                raise ValueError(f"{url} failed, as did {tries} retries: {error}") from error
            time.sleep(waits[tries])
            tries += 1


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
        before, _, after = render(tokenizer, marked, add_generation_prompt=True).partition(MARK)
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


FRUITLESS = 200
"""Conversations in a row without an end of the request, after which the text is given up."""


def write_many(  # noqa: PLR0913
    writer: Writer, tokenizer: Tokenizer, path: Path, *,
    tokens: int, seed: int, questions: Sequence[str] = (), parallel: int = 48,
) -> None:  # fmt: skip
    """Append conversations to `path` until their answers have `tokens` tokens; goes on where an earlier run stopped.

    Raises:
        ValueError: if the writer ends no request; what the writer raises ends all of its threads.

    """
    written = answered(tokenizer, path)
    started, first, lock = time.monotonic(), written, threading.Lock()
    seeds = _seeds(seed, path)
    stop, fruitless, failures = threading.Event(), 0, list[Exception]()
    last = started

    def work() -> None:
        try:
            while written < tokens and not stop.is_set():
                with lock:
                    rng = random.Random(next(seeds))
                try:
                    conversation = write_one(writer, tokenizer, rng, questions)
                except FullError as full:
                    if time.monotonic() - last > FULL_FOR:
                        raise
                    stop.wait(full.seconds)
                    continue
                with lock:
                    if not stop.is_set():
                        take(conversation)
        except Exception as error:  # noqa: BLE001 - the caller's thread raises it
            failures.append(error)

    def take(conversation: Conversation | None) -> None:
        nonlocal written, fruitless, last
        last = time.monotonic()
        fruitless = 0 if conversation else fruitless + 1
        if fruitless >= FRUITLESS:
            raise ValueError(f"the target ended none of its last {FRUITLESS} requests: give --data or --questions")
        if conversation is None:
            return
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"messages": conversation.messages}, ensure_ascii=False) + "\n")
        before, written = written, written + _tokens(tokenizer, conversation)
        if before * 50 // tokens != written * 50 // tokens:
            rate = (written - first) / (time.monotonic() - started)
            left = max(0, tokens - written) / rate / 60
            print(f"text: {written:,} of {tokens:,} answered tokens, {rate:.0f}/s, {left:.0f} min left")

    # Daemons, since an interrupted process does not wait for the requests under way.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(parallel)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not failures:
            time.sleep(0.02)
    finally:
        with lock:
            stop.set()
    if failures:
        raise failures[0]


def answered(tokenizer: Tokenizer, path: Path) -> int:
    """Number of answered tokens in a file of `write_many`, whose last line is cut if an interrupted run tore it."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
    return sum(_tokens(tokenizer, conversation) for conversation in read(path))


def _tokens(tokenizer: Tokenizer, conversation: Conversation) -> int:
    answers = [m["content"] for m in conversation.messages if m["role"] == "assistant"]
    return sum(len(tokenizer.encode(answer, add_special_tokens=False)) + 1 for answer in answers)


def _seeds(seed: int, path: Path) -> Iterator[int]:
    """Seeds of conversations, other ones after each resumption."""
    resumed = path.stat().st_size if path.exists() else 0
    rng = random.Random(f"{seed}:{resumed}")
    while True:
        yield rng.getrandbits(63)
