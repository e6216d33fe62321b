"""A draft of a small random target, from its distributions to its files; needs torch."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from outrider_draft import draft, export, report, target, teacher, training, vocabulary  # noqa: E402

SIZE = 96


class Tokens(SimpleNamespace):
    """A tokenizer whose chat template ends turns with token 0."""

    all_special_ids = (0,)
    added_tokens_decoder = ()

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:  # noqa: ANN401
        return "".join(f"{message['content']}$" for message in messages)

    def encode(self, text: str, **_: Any) -> list[int]:  # noqa: ANN401
        return [0 if letter == "$" else 1 for letter in text]


def random_target() -> Any:  # noqa: ANN401
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=SIZE, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, initializer_range=0.25,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    return target.Target("small", model, Tokens(bos_token_id=None, eos_token_id=0))


def sequences(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    made = []
    for _ in range(count):
        ids = rng.integers(0, SIZE, rng.integers(8, 24))
        made.append(target.Sequence(ids, np.arange(len(ids)) >= 3))
    return made


def test_a_draft_with_all_blocks_and_tokens_is_the_target(tmp_path: Path) -> None:
    model = random_target()
    tokens = vocabulary.choose(np.ones(SIZE), [], SIZE)
    student = draft.Draft(draft.Shape(64, 96, 4, 4, 2, 16), tokens, model.model.config)
    student.start_from(model.model)
    for entry in report.agreement(student, model, sequences(3), "cpu"):
        assert entry.overlap == pytest.approx(1.0, abs=1e-3)
        assert entry.coupled == pytest.approx(1.0, abs=0.02)
    teacher.teach(model, sequences(3), tmp_path / "t", "cpu")
    assert training.accepted(student, list(teacher.lessons(tmp_path / "t")), "cpu") > 0.9


def test_training_raises_the_acceptance_and_resumes(tmp_path: Path) -> None:
    model = random_target()
    made = sequences(40)
    teacher.teach(model, made, tmp_path / "teacher", "cpu")
    lessons = list(teacher.lessons(tmp_path / "teacher"))
    assert [lesson.ids.tolist() for lesson in lessons] == [s.ids.tolist() for s in made]
    tokens = vocabulary.choose(np.bincount(np.concatenate([s.ids for s in made]), minlength=SIZE), [0], 64)
    student = draft.Draft(draft.Shape(64, 96, 2, 4, 2, 16), tokens, model.model.config)
    before = training.accepted(student, lessons, "cpu")
    schedule = training.Schedule(epochs=20, tokens_per_batch=128)
    curve = training.train(student, lessons, lessons, schedule=schedule, path=tmp_path / "draft.pt", device="cpu")
    assert curve[-1][1] > before + 0.05
    again = draft.Draft(student.shape, tokens, model.model.config)
    resumed = training.train(again, lessons, lessons, schedule=schedule, path=tmp_path / "draft.pt", device="cpu")
    assert resumed == curve
    export.write_folder(again, model, tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert (config["vocab_size"], config["draft_vocab_size"]) == (SIZE, 64)
    chance = {"bias": -1.5, "margin": 2.0, "probability": 0.5}
    export.write_gguf(again, model, tmp_path / "draft.gguf", "q8_0", chance)
    shape, known, weights = export.read_gguf(tmp_path / "draft.gguf")
    assert (shape, known.tokens.tolist()) == (again.shape, tokens.tokens.tolist())
    for name, weight in export.rounded(again, "q8_0").items():
        np.testing.assert_allclose(weights[name], weight, atol=1e-6)
    more = vocabulary.choose(np.ones(SIZE), [0], 80)
    larger = draft.Draft(shape, more, model.model.config)
    larger.go_on_from(known, weights, model.model)
    rows = larger.body.embed_tokens.weight.detach()
    old = dict(zip(known.tokens.tolist(), weights["model.embed_tokens.weight"], strict=False))
    for row, token in zip(rows, more.tokens.tolist(), strict=False):
        expected = old.get(token, model.model.get_output_embeddings().weight[token].detach().numpy())
        np.testing.assert_allclose(row.numpy(), expected, atol=1e-6)
    reader = gguf.GGUFReader(tmp_path / "draft.gguf")
    for term, value in chance.items():
        assert reader.fields[f"llama.guess_chance.{term}"].contents() == value
    assert not reader.fields["tokenizer.ggml.add_bos_token"].parts[-1][0]
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert tensors["d2t"].data.tolist() == tokens.d2t.tolist()
    assert tensors["token_embd.weight"].shape.tolist() == [64, 65]


def test_weights_are_rounded_as_the_file_rounds_them() -> None:
    weights = torch.randn((8, 64), generator=torch.Generator().manual_seed(4))
    weights[3, 32:] = 0.0
    stored = gguf.quants.quantize(weights.numpy(), gguf.GGMLQuantizationType.Q4_0)
    expected = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType.Q4_0)
    np.testing.assert_allclose(training.as_q4_0(weights).numpy(), expected, atol=1e-6)


def test_settling_raises_the_acceptance_of_the_rounded_draft(tmp_path: Path) -> None:
    model = random_target()
    teacher.teach(model, sequences(40), tmp_path / "teacher", "cpu")
    lessons = list(teacher.lessons(tmp_path / "teacher"))
    tokens = vocabulary.choose(np.ones(SIZE), [0], 64)
    student = draft.Draft(draft.Shape(64, 96, 2, 4, 2, 16), tokens, model.model.config)
    student.start_from(model.model)

    def rounded() -> float:
        copy = draft.Draft(student.shape, tokens, model.model.config)
        copy.load(export.rounded(student, "q4_0"))
        return float(training.accepted(copy, lessons, "cpu"))

    before = rounded()
    schedule = training.Schedule(epochs=1, tokens_per_batch=128)
    training.settle(student, lessons, steps=100, schedule=schedule, device="cpu")
    assert rounded() > before + 0.02


def test_losses_are_those_of_whole_distributions() -> None:
    generator = torch.Generator().manual_seed(3)
    p = torch.randn((6, 48), generator=generator).mul(2).softmax(-1)
    logits = torch.randn((6, 48), generator=generator)
    chances, top = p.topk(48)
    divergence, refused = training.losses(logits, top, chances)
    q = logits.softmax(-1)
    assert divergence.item() == pytest.approx((p * (p / q).log()).sum(-1).mean().item(), abs=1e-4)
    assert refused.item() == pytest.approx(1 - torch.minimum(p, q).sum(-1).mean().item(), abs=1e-4)
    # Without rows for some of the target's tokens, the divergence is that from what is left of p.
    known = top < 40
    divergence, _ = training.losses(logits[:, :40], torch.where(known, top, 40), chances)
    left = p[:, :40] / p[:, :40].sum(-1, keepdim=True)
    q = logits[:, :40].softmax(-1)
    assert divergence.item() == pytest.approx((left * (left / q).log()).sum(-1).mean().item(), abs=1e-3)


def test_coupled_agreement_is_that_of_drawn_noise() -> None:
    generator = torch.Generator().manual_seed(1)
    p, q = torch.randn((3, 12), generator=generator), torch.randn((3, 7), generator=generator)
    tokens = torch.tensor([0, 2, 3, 5, 8, 9, 11])
    whole = torch.full((3, 12), -torch.inf)
    whole[:, tokens] = q
    for temperature in (0.5, 1.0):
        overlap, coupled = report.agree(p, q, tokens, temperature)
        a, b = ((x / temperature).log_softmax(-1) for x in (p, whole))
        assert abs(overlap - float(torch.minimum(a.exp(), b.exp()).sum())) < 1e-5
        noise = -torch.log(-torch.log(torch.rand((40_000, 3, 12), generator=generator)))
        drawn = float(((a + noise).argmax(-1) == (b + noise).argmax(-1)).float().mean(0).sum())
        assert abs(coupled - drawn) < 0.02
    assert report.agree(p, whole[:, tokens], tokens, 0.0)[0] == float((p.argmax(-1) == whole.argmax(-1)).sum())


def test_chances_of_guesses_are_their_shares() -> None:
    model = random_target()
    made = sequences(120)
    student = draft.Draft(
        draft.Shape(64, 96, 3, 4, 2, 16), vocabulary.choose(np.ones(SIZE), [], SIZE), model.model.config
    )
    student.start_from(model.model)
    weights = report.guess_chance(student, model, made, "cpu")
    assert weights["margin"] > 0.5, "a clear choice holds more often"
    coupled = next(entry.coupled for entry in report.agreement(student, model, made, "cpu") if entry.temperature == 0.7)
    # At the usual clarity: the mean chance is near the agreement, which is over all tokens instead of the nuclei.
    x = weights["bias"] + weights["margin"] * 0.97 + weights["probability"] * 0.3
    assert abs(1 / (1 + np.exp(-x)) - coupled) < 0.2
    # The same models always choose the same.
    student = draft.Draft(draft.Shape(64, 96, 4, 4, 2, 16), student.vocabulary, model.model.config)
    student.start_from(model.model)
    assert report.guess_chance(student, model, made, "cpu")["bias"] > 3.0


BASE = {
    "vocab_size": SIZE, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "initializer_range": 0.3,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "scaling"),
    [
        ("Granite", {"logits_scaling": 8.0}),
        ("Gemma2", {"final_logit_softcapping": 3.0}),
        ("Cohere", {"logit_scale": 0.0625}),
        ("Llama", {}),
    ],
)
def test_targets_teach_the_distributions_that_they_sample_from(
    tmp_path: Path, family: str, scaling: dict[str, float]
) -> None:
    torch.manual_seed(2)
    config = getattr(transformers, f"{family}Config")(**BASE, **scaling)
    inner = transformers.AutoModelForCausalLM.from_config(config).eval()
    model = target.Target(family, inner, Tokens(bos_token_id=None, eos_token_id=0))
    made = sequences(2)
    teacher.teach(model, made, tmp_path, "cpu")
    tokens = torch.arange(SIZE)
    for one, lesson in zip(made, teacher.lessons(tmp_path), strict=True):
        with torch.inference_mode():
            own = inner(input_ids=torch.from_numpy(one.ids)[None]).logits[0, lesson.places].float()
            logits = model.logits(one.ids, lesson.places, "cpu")
        chances = own.softmax(-1).gather(1, torch.from_numpy(lesson.top))
        np.testing.assert_allclose(lesson.chances, chances, atol=1e-3)
        same = report.agree(logits, own, tokens, 1.0)[0]
        assert same == pytest.approx(len(lesson.places), abs=1e-3)


def test_the_report_judges_by_the_targets_own_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_target()
    config = transformers.GraniteConfig(**BASE, logits_scaling=4.0)
    model = target.Target("g", transformers.GraniteForCausalLM(config).eval(), model.tokenizer)
    whole = vocabulary.choose(np.ones(SIZE), [], SIZE)
    student = draft.Draft(draft.Shape(64, 96, 1, 4, 2, 16), whole, config)
    monkeypatch.setattr(student, "forward", lambda ids, places: model.model(input_ids=ids).logits.flatten(0, 1)[places])
    assert all(entry.overlap > 0.999 for entry in report.agreement(student, model, sequences(3), "cpu"))
    assert report.guess_chance(student, model, sequences(60), "cpu")["bias"] > 2.0


@pytest.mark.parametrize("rows", [1025, 8193, 32001])
def test_every_size_gives_a_draft_of_about_that_size_or_a_sentence(rows: int) -> None:
    config = transformers.Qwen2Config(
        vocab_size=32000, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4,
    )  # fmt: skip
    for size in np.geomspace(1e5, 1e9, 300).astype(int).tolist():
        try:
            shape, like_target = draft.shape_for(config, size, rows)
        except ValueError:
            assert size < 64 * rows + 3 * 53_248, "narrow blocks would have fitted"
            continue
        assert not like_target
        assert shape.heads % shape.kv_heads == 0
        assert shape.kv_heads <= max(1, shape.heads // 3)
        assert shape.layers >= 3
        assert shape.weights(rows) == pytest.approx(size, rel=0.15)
    shape, _ = draft.shape_for(config, 11_000_000, 8193)
    student = draft.Draft(shape, vocabulary.Vocabulary(np.arange(8192), 32000), config)
    ids = torch.zeros((1, 4), dtype=torch.int64)
    assert student(ids, torch.arange(4)).shape == (4, 8192)


def test_apples_gpus_need_no_f64() -> None:
    on_cpu = torch.tensor([0.5])
    on_gpu = SimpleNamespace(device=torch.device("mps"), cpu=lambda: on_cpu)
    assert report._double(on_gpu).dtype is torch.float64
