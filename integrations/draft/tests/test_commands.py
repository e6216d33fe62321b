"""The commands on small checkpoints, as a user gives them; needs torch."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
gguf = pytest.importorskip("gguf")

from outrider_draft import cli, conversations, target, teacher, training, vocabulary  # noqa: E402

TURNS = (
    "{% for m in messages %}{% if m['role'] not in ['user', 'assistant'] %}{{ raise_exception('only two roles') }}"
    "{% endif %}<|start|>{{ m['role'] }}\n{{ m['content'] }}END\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
WORDS = ["".join(random.Random(n).choices("abcdefghij", k=4)) for n in range(60)]


def checkpoint(folder: Path, seed: int = 1, end: str = "<|end|>") -> Path:
    """A random Llama with a byte-level tokenizer, whose turns end with `end`."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    special = ["<|end|>", "<|start|>", "<|turn|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([" ".join(WORDS)], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>")
    tokenizer.chat_template = TURNS.replace("END", end)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, initializer_range=0.2, eos_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def data(path: Path, count: int = 30, seed: int = 1) -> Path:
    rng = random.Random(seed)
    entries = [{"prompt": rng.choice(WORDS), "response": " ".join(rng.choices(WORDS, k=4))} for _ in range(count)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.fixture(autouse=True)
def few_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "HELD_OUT", 5)


class User:
    """A user who gives commands and reads what they print."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        checkpoint(folder / "target")
        data(folder / "data.jsonl")

    def make(self, **changes: object) -> str:
        """The sentence with which `make` ended, or nothing."""
        options: dict[str, object] = {
            "target": self.folder / "target", "data": self.folder / "data.jsonl", "out": self.folder / "out",
            "size": 150_000, "vocabulary": 290, "epochs": 1, "device": "cpu", **changes,
        }  # fmt: skip
        given = [str(part) for name, value in options.items() if value is not None for part in (f"--{name}", value)]
        return self._ended(["make", *given])

    def trim(self, draft: Path, out: Path) -> str:
        return self._ended(["trim", "--draft", str(draft), "--out", str(out), "--vocabulary", "280"])

    def _ended(self, arguments: list[str]) -> str:
        self._capsys.readouterr()
        status = cli.main(arguments)
        said = self._capsys.readouterr().err.strip().splitlines()[-1:]
        assert (status == 1) == bool(said and said[0].startswith("outrider-draft: "))
        return said[0] if status else ""


@pytest.fixture
def user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> User:
    return User(tmp_path, capsys)


def test_work_is_resumed_and_never_taken_for_another_draft(user: User) -> None:
    out, folder = user.folder / "out", user.folder
    assert user.make() == ""
    first = (out / "draft-q8_0.gguf").read_bytes()
    assert user.make() == ""
    assert (out / "draft-q8_0.gguf").read_bytes() == first
    start = shutil.copy(out / "draft-q8_0.gguf", folder / "start.gguf")
    others: dict[str, object] = {
        "target": checkpoint(folder / "other", seed=2), "start": start, "size": 300_000, "vocabulary": 280,
        "epochs": 2, "seed": 2, "data": data(folder / "other.jsonl", seed=2),
    }  # fmt: skip
    for name, value in others.items():
        said = user.make(**{name: value})
        assert f"--{name} differs" in said
        assert f"choose another --out, or delete {out}/work" in said
    data(folder / "data.jsonl", count=40)
    assert "the text of --data differs" in user.make()
    assert "--data differs" in user.make(data=None)
    assert user.make(start=start, out=folder / "second") == ""
    (out / "work/run.json").unlink()
    assert "does not say what it was made from" in user.make()


def test_a_shard_of_the_teacher_is_not_written_twice(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user.make() == ""
    monkeypatch.setattr(teacher, "save", lambda *_: pytest.fail("taught again"))
    assert user.make() == ""


class Writer:
    """A server of the target, which can be interrupted."""

    def __init__(self) -> None:
        self.requests = 0

    def write(self, *_: object) -> tuple[str, bool]:
        self.requests += 1
        return " ".join(random.Random(self.requests).choices(WORDS, k=5)), True


def test_text_that_is_still_written_goes_on_and_then_needs_no_server(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer()
    monkeypatch.setattr(conversations.CompletionsServer, "at", lambda _: writer)
    monkeypatch.setattr(conversations, "write_many", partial(conversations.write_many, parallel=1))
    text = user.folder / "out/work/conversations.jsonl"
    assert "11 are needed, of which 5 are held out" in user.make(data=None, server="x", tokens=40)
    with text.open("a", encoding="utf-8") as file:
        file.write('{"messages": [{"role": "us')
    assert user.make(data=None, server="x", tokens=900) == ""
    written = text.read_text()
    assert "\n{" in written
    asked = writer.requests
    assert user.make(data=None, server="x", tokens=900) == ""
    monkeypatch.setattr(conversations.CompletionsServer, "at", lambda _: pytest.fail("asked"))
    assert user.make(data=None, outrider="no-such-program", tokens=900) == ""
    assert (writer.requests, text.read_text()) == (asked, written)
    assert "no program" in user.make(data=None, outrider="no-such-program", tokens=1900)


def test_options_that_cannot_work_are_noticed_before_the_teachers_pass(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert user.make(vocabulary=262) == ""
    start = user.folder / "out/draft-q8_0.gguf"
    checkpoint(user.folder / "third")
    path = user.folder / "third/tokenizer.json"
    tokenizer = json.loads(path.read_text())
    known = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {token: (id_ + 20 if id_ < 280 else id_ - 280) for token, id_ in known.items()}
    for added in tokenizer["added_tokens"]:
        added["id"] = tokenizer["model"]["vocab"][added["content"]]
    path.write_text(json.dumps(tokenizer))
    monkeypatch.setattr(teacher, "teach", lambda *_: pytest.fail("taught"))
    out = user.folder / "next"
    assert "No such file" in user.make(out=out, start=user.folder / "missing.gguf")
    assert "drafts for another tokenizer" in user.make(out=out, start=start, target=user.folder / "third")
    assert "is too small" in user.make(out=out, vocabulary=100)
    assert "cannot hold" in user.make(out=out, size=10_000)
    for device in ("nonsense", "cuda:7"):
        assert f"--device {device} cannot be used here" in user.make(out=out, device=device)
    data(user.folder / "data.jsonl", count=10)
    assert "10 conversations are too few: 11 are needed" in user.make(out=out)
    path = user.folder / "data.jsonl"
    path.write_text('{"messages": [{"role": "critic", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    assert "chat template refuses messages of the roles critic: only two roles" in user.make(out=out)


def test_tokens_without_a_row_in_the_head_are_left_out(user: User) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(user.folder / "target")
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    tokenizer.save_pretrained(user.folder / "target")
    with (user.folder / "data.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": "a", "response": "<|pad|>"}) + "\n")
    assert user.make() == ""


def test_turns_end_with_the_token_that_the_template_writes(tmp_path: Path) -> None:
    model = target.load(str(checkpoint(tmp_path / "t", end="<|turn|>")), "cpu")
    turn = model.tokenizer.convert_tokens_to_ids("<|turn|>")
    assert model.end_of_turn == turn
    messages = [{"role": role, "content": role} for role in ("user", "assistant") * 2]
    made = target.sequence(model.tokenizer, conversations.Conversation(messages), model.end_of_turn, 100)
    assert made is not None
    assert made.ids[made.answered].tolist().count(turn) == 2
    assert turn in vocabulary.indispensable(model.tokenizer, model.end_of_turn)
    # A template that writes none leaves it to the model's settings.
    model = target.load(str(checkpoint(tmp_path / "u", end="")), "cpu")
    model.model.generation_config.eos_token_id = [turn, 0]
    assert model.end_of_turn == turn


def test_the_draft_settles_for_a_fifth_of_the_steps_of_its_training(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(training, "settle", lambda *_, steps, **__: seen.update(steps=steps))
    assert user.make(epochs=40) == ""
    state = torch.load(user.folder / "out/work/draft.pt", weights_only=True)
    assert seen["steps"] == round(0.2 * state["step"]) == 8


def test_trimming_leaves_the_draft_as_it_was(user: User) -> None:
    draft = user.folder / "target"
    before = (draft / "model.safetensors").read_bytes()
    assert "is the draft itself" in user.trim(draft, user.folder / "out/../target")
    assert (draft / "model.safetensors").read_bytes() == before
    assert user.trim(draft, user.folder / "trimmed") == ""
    assert json.loads((user.folder / "trimmed/config.json").read_text())["draft_vocab_size"] == 280
    assert {path.name for path in user.folder.iterdir()} == {"target", "data.jsonl", "trimmed"}
    assert "already trimmed" in user.trim(user.folder / "trimmed", user.folder / "again")
    assert user.make() == ""
    own = user.folder / "out/draft-q8_0.gguf"
    before = own.read_bytes()
    assert "is the draft itself" in user.trim(own, own)
    assert "already trimmed" in user.trim(own, user.folder / "again.gguf")
    assert own.read_bytes() == before


def test_a_gguf_file_is_trimmed_beside_it(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = user.folder / "whole.gguf", user.folder / "out.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("whole")
    table = np.arange(300 * 32, dtype=np.float32).reshape(300, 32)
    writer.add_tensor("token_embd.weight", table)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tokenizer = transformers.AutoTokenizer.from_pretrained(user.folder / "target")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer)
    before = path.read_bytes()
    assert "is the draft itself" in user.trim(path, path)
    assert user.trim(path, out) == ""
    assert path.read_bytes() == before
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(out).tensors}
    np.testing.assert_array_equal(tensors["output.weight"], table[tensors["d2t"] + np.arange(280)])
    assert not out.with_name("out.gguf.part").exists()
