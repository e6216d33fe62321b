"""The parts that need no torch: conversations and the vocabulary."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider_draft import conversations, vocabulary


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
