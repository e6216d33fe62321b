"""The parts that need no torch: conversations and the vocabulary."""

from __future__ import annotations

import http.server
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider_draft import conversations, resumption, vocabulary


class Letters:
    """A tokenizer with a token for each character and a template of two marks."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:  # noqa: ANN401
        turns = "".join(f"<{m['role'][0]}>{m['content']}<e>" for m in conversation)
        return turns + ("<a>" if options["add_generation_prompt"] else "")

    def encode(self, text: str, **_: Any) -> list[int]:  # noqa: ANN401
        return [ord(letter) for letter in text]


class Echo:
    """A writer that answers in as many letters as it was asked with, and remembers the prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
        assert max_tokens > 0
        assert temperature >= 0.0
        assert seed >= 0
        self.prompts.append("".join(map(chr, ids)))
        return "some words", True


def test_a_model_begins_in_the_users_turn_of_its_template() -> None:
    writer = Echo()
    conversation = conversations.write_one(writer, Letters(), random.Random(2))
    assert conversation is not None
    assert [m["role"] for m in conversation.messages][:2] == ["user", "assistant"]
    assert writer.prompts[:2] == ["<u>", "<u>some words<e><a>"]


def test_given_questions_begin_two_thirds_of_the_conversations() -> None:
    rng = random.Random(4)
    made = [conversations.write_one(Echo(), Letters(), rng, ["Why?"]) for _ in range(300)]
    firsts = [c.messages[0]["content"] for c in made if c is not None]
    assert set(firsts) == {"Why?", "some words"}
    assert 170 < firsts.count("Why?") < 230


def test_writing_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "conversations.jsonl"
    conversations.write_many(Echo(), Letters(), path, tokens=30, seed=1, parallel=1)
    first = path.read_text()
    conversations.write_many(Echo(), Letters(), path, tokens=60, seed=1, parallel=1)
    assert path.read_text().startswith(first)
    answers = sum(len(m["content"]) + 1 for c in conversations.read(path) for m in c.messages[1::2])
    assert 60 <= answers < 60 + 2 * 11


def test_all_forms_of_data_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    lines: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"prompt": "a", "response": "b"},
        {"text": "b"},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    read = conversations.read(path)
    assert read[0] == read[1]
    assert read[2].messages == [{"role": "assistant", "content": "b"}]
    path.write_text('{"text": "b"}\n{"words": 1}')
    with pytest.raises(ValueError, match="line 2: expected `messages`"):
        conversations.read(path)


def test_d2t_is_the_difference_between_token_and_row() -> None:
    counts = np.array([0, 5, 0, 9, 1, 7])
    chosen = vocabulary.choose(counts, [2], 4)
    assert chosen.tokens.tolist() == [1, 2, 3, 5]
    assert chosen.d2t.tolist() == [1, 1, 1, 2]
    assert chosen.rows.tolist() == [4, 0, 1, 2, 4, 3]
    assert (np.arange(chosen.size) + chosen.d2t == chosen.tokens).all()
    with pytest.raises(ValueError, match="too small"):
        vocabulary.choose(counts, [0, 1, 2, 3, 4], 4)
    assert vocabulary.choose(counts, [0], 9).tokens.tolist() == list(range(6))


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_only_newlines_end_a_line_of_data(tmp_path: Path, letter: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("\ufeff" + json.dumps({"text": f"a{letter}b"}, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert conversations.read(path)[0].messages[0]["content"] == f"a{letter}b"
    assert conversations.lines(path)[1:] == [""]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"text": ', "not JSON"),
        ("[1]", "expected `messages`"),
        ('{"text": 5}', "content of the role assistant has to be text"),
        ('{"prompt": "a", "response": null}', "content of the role assistant has to be text"),
        ('{"messages": {"role": "user"}}', "has to be a list of objects"),
        ('{"messages": ["a"]}', "has to be a list of objects"),
        ('{"messages": [{"content": "a"}]}', "a message has no `role`"),
        ('{"messages": [{"role": "user", "content": null}]}', "content of the role user has to be text"),
        ('{"messages": [{"role": "user", "content": [{"type": "image"}]}]}', "parts that are all text"),
    ],
)
def test_data_without_text_is_named_by_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "b"}\n' + line)
    with pytest.raises(ValueError, match=r"data\.jsonl, line 2: ") as error:
        conversations.read(path)
    assert why in str(error.value)


def test_parts_are_joined_and_calls_of_tools_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.jsonl"
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    call: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{}]}
    lines = [[{"role": "user", "content": parts}, {"role": "assistant", "content": "c"}], [call]]
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in lines))
    assert [c.messages[0]["content"] for c in conversations.read(path)] == ["ab"]
    assert "1 conversations left out" in capsys.readouterr().out


def test_other_encodings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes('{"text": "ä"}'.encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8"):
        conversations.read(path)


def test_a_torn_line_is_cut_when_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "conversations.jsonl"
    conversations.write_many(Echo(), Letters(), path, tokens=30, seed=1, parallel=1)
    whole = path.read_text()
    path.write_text(whole + '{"messages": [{"ro')
    conversations.write_many(Echo(), Letters(), path, tokens=60, seed=1, parallel=1)
    assert path.read_text().startswith(whole + '{"messages": [{"role"')
    assert conversations.answered(Letters(), path) >= 60


class Fails(Echo):
    """A writer that writes some requests, and then does as told."""

    def __init__(self, failure: Callable[[], tuple[str, bool]], after: int = 0) -> None:
        super().__init__()
        self.failure, self.after = failure, after

    def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
        if len(self.prompts) >= self.after:
            self.prompts.append("")
            return self.failure()
        return super().write(ids, max_tokens, temperature, seed)


def test_a_target_that_ends_no_request_is_given_up(tmp_path: Path) -> None:
    writer = Fails(lambda: ("words", False))
    with pytest.raises(ValueError, match="ended none of its last 200 requests: give --data or --questions"):
        conversations.write_many(writer, Letters(), tmp_path / "c", tokens=30, seed=1, parallel=4)
    assert len(writer.prompts) < 220


@pytest.mark.parametrize("failure", [ValueError("no server"), KeyError("choices")])
def test_a_failure_ends_all_requests(tmp_path: Path, failure: Exception) -> None:
    def fail() -> tuple[str, bool]:
        raise failure

    writer = Fails(fail, after=20)
    with pytest.raises(type(failure)):
        conversations.write_many(writer, Letters(), tmp_path / "c", tokens=10**9, seed=1, parallel=8)
    time.sleep(0.05)
    assert len(writer.prompts) < 40


def test_writing_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = threading.Event()

    def wait() -> tuple[str, bool]:
        slow.wait(30)
        return "late words", True

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    others = threading.enumerate()
    started, path = time.monotonic(), tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        conversations.write_many(Fails(wait), Letters(), path, tokens=30, seed=1, parallel=4)
    assert time.monotonic() - started < 5
    slow.set()
    for thread in set(threading.enumerate()) - set(others):
        thread.join(5)
    assert not path.exists()


class Server(http.server.BaseHTTPRequestHandler):
    """A completions server whose first `failures` requests fail."""

    failures = 0
    retry_after: str | None = None

    def do_GET(self) -> None:
        self._say({"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if Server.failures:
            Server.failures -= 1
            self.send_response(503)
            if Server.retry_after:
                self.send_header("Retry-After", Server.retry_after)
            self.end_headers()
        else:
            self._say({"choices": [{"text": "words", "finish_reason": "stop"}]})

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _say(self, answer: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(conversations, "RETRY_AFTER", (0.01, 0.01, 0.01))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_requests_that_fail_are_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = conversations.CompletionsServer.at(url)
    monkeypatch.setattr(Server, "failures", 3)
    assert writer.write([1], 5, 0.0, 1) == ("words", True)
    monkeypatch.setattr(Server, "failures", 4)
    with pytest.raises(ValueError, match=r"/v1/completions failed, as did 3 retries: HTTP Error 503"):
        writer.write([1], 5, 0.0, 1)


def test_a_server_that_is_full_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(Echo):
        """Has room for one request at a time."""

        room = threading.Semaphore(1)

        def write(self, ids: list[int], max_tokens: int, temperature: float, seed: int) -> tuple[str, bool]:
            if not self.room.acquire(blocking=False):
                raise conversations.FullError("url", 0.01)
            try:
                time.sleep(0.005)
                return super().write(ids, max_tokens, temperature, seed)
            finally:
                self.room.release()

    path = tmp_path / "c"
    conversations.write_many(Narrow(), Letters(), path, tokens=200, seed=1, parallel=8)
    assert conversations.answered(Letters(), path) >= 200
    monkeypatch.setattr(conversations, "FULL_FOR", 0.05)
    Narrow.room = threading.Semaphore(0)
    with pytest.raises(ValueError, match="url has no room for another request"):
        conversations.write_many(Narrow(), Letters(), tmp_path / "d", tokens=200, seed=1, parallel=8)


def test_a_full_server_says_when_to_ask_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "failures", 1)
    monkeypatch.setattr(Server, "retry_after", "7")
    writer = conversations.CompletionsServer.at(url)
    with pytest.raises(conversations.FullError) as full:
        writer.write([1], 5, 0.0, 1)
    assert full.value.seconds == 7
    assert writer.write([1], 5, 0.0, 1) == ("words", True)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9/v1/models failed"):
        conversations.CompletionsServer.at("http://127.0.0.1:9")


def test_a_template_that_refuses_is_one_sentence() -> None:
    class Refuses(Letters):
        def apply_chat_template(self, *_: object, **__: object) -> str:
            raise RuntimeError("roles must alternate")

    with pytest.raises(ValueError, match="refuses messages of the roles user: roles must alternate"):
        conversations.write_one(Echo(), Refuses(), random.Random(1))


class Known:
    """A tokenizer with these tokens."""

    all_special_ids = (0,)

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens

    def get_vocab(self) -> dict[str, int]:
        return {token: id_ for id_, token in enumerate(self.tokens)}


def test_bytes_alone_are_indispensable() -> None:
    fallback = Known("<s>", "a", "é", "漢", *(f"<0x{byte:02X}>" for byte in range(256)), "</s>")
    assert vocabulary.indispensable(fallback, 260) == [0, *range(4, 261)]
    byte_level = Known("<s>", "ab", "a", "Ġ", "漢", "é", "г")
    assert vocabulary.indispensable(byte_level, 1) == [0, 1, 2, 3, 5]


def test_work_is_used_for_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "work" / "run.json"
    path.parent.mkdir()
    resumption.unchanged(path, {"--target": "a"})
    resumption.unchanged(path, {"--seed": 1})
    resumption.unchanged(path, {"--target": "a", "--seed": 1})
    with pytest.raises(ValueError, match=r"--seed differs from the run that began .*work: choose another --out, or"):
        resumption.unchanged(path, {"--target": "a", "--seed": 2})
    assert resumption.digest([b"ab", b"c"]) == resumption.digest([b"abc"]) != resumption.digest([b"ab"])
