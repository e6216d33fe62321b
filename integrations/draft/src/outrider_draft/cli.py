"""Command line of outrider-draft."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from outrider_draft import conversations, draft, export, report, resumption, target, teacher, training, trim, vocabulary

HELD_OUT = 100
"""Number of conversations for the report."""
SETTLING = 0.2
"""Share of the training that is repeated with weights rounded to Q4_0."""
CONTEXT = 1024
"""Longest conversation in tokens; what follows is cut."""


def main(arguments: list[str] | None = None) -> int:
    """Run `outrider-draft`; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"outrider-draft: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("outrider-draft: interrupted; `make` goes on when the same command is given again", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="outrider-draft", description=__doc__)
    commands = parser.add_subparsers(required=True)
    make_ = commands.add_parser("make", help="make a draft for a target; goes on where an interrupted run stopped")
    add = make_.add_argument
    add("--target", required=True, help="folder of a Hugging Face checkpoint, GGUF file, or hf:OWNER/NAME")
    add("--out", required=True, type=Path, help="folder for the draft; its work/ holds what resumption needs")
    add("--size", type=_count, default=19_000_000, help="number of weights, such as 10M (default 19M)")
    add("--vocabulary", type=int, default=8192, help="number of the target's tokens that the draft knows")
    add("--start", type=Path, help="GGUF file of an earlier draft for the target, which is trained further; its "
        "blocks are kept")  # fmt: skip
    add("--data", type=Path, help="JSON lines with `messages`, `prompt` and `response`, or `text`; without it the "
        "target writes conversations itself")  # fmt: skip
    add("--questions", type=Path, help="questions, one a line, that begin two thirds of the conversations which the "
        "target writes")  # fmt: skip
    add("--tokens", type=_count, default=3_000_000, help="answered tokens to write without --data (default 3M)")
    add("--server", help="URL of a server of the target with /v1/completions, such as vLLM, that writes them; "
        "without it `outrider serve` is started")  # fmt: skip
    add("--outrider", default="outrider", help="path of the program outrider")
    add("--epochs", type=float, default=3.0, help="passes over the text")
    add("--device", default="auto", help="auto, cpu, cuda or mps")
    add("--seed", type=int, default=1)
    make_.set_defaults(run=make)
    trim_ = commands.add_parser("trim", help="keep the most frequent tokens of an existing draft's output head")
    add = trim_.add_argument
    add("--draft", required=True, type=Path, help="GGUF file, or folder of a Hugging Face checkpoint")
    add("--out", required=True, type=Path, help="file or folder to write")
    add("--vocabulary", type=int, default=16384, help="number of tokens to keep")
    add("--text", type=Path, help="text whose most frequent tokens are kept; without it the lowest ids are")
    trim_.set_defaults(run=cut)
    return parser


def cut(options: argparse.Namespace) -> None:
    """Trim a draft.

    Raises:
        ValueError, OSError: with a sentence that says what to change.

    """
    kept = trim.trim(options.draft, options.out, options.vocabulary, options.text)
    print(f"{options.out}: {kept.size} of {kept.target_size} tokens kept")


def _count(text: str) -> int:
    scale = {"K": 1_000, "M": 1_000_000, "B": 1_000_000_000}.get(text[-1:].upper(), 1)
    return int(float(text if scale == 1 else text[:-1]) * scale)


def make(options: argparse.Namespace) -> None:
    """Carry out all steps.

    Raises:
        ValueError, OSError: with a sentence that says what to change.

    """
    torch.manual_seed(options.seed)
    device = _device(options.device)
    work = options.out / "work"
    work.mkdir(parents=True, exist_ok=True)
    start = export.read_gguf(options.start) if options.start else None
    model = target.load(options.target, device)
    plan = _plan(options, model, start)
    record = work / "run.json"
    if (work / "teacher").exists() and not record.exists():
        raise ValueError(f"{work} does not say what it was made from: choose another --out, or delete {work}/teacher "
                         f"and {work}/draft.pt")  # fmt: skip
    made_from: dict[str, object] = {"--target": model.fingerprint, "--data": "given" if options.data else "none"}
    if options.data is None:
        resumption.unchanged(record, made_from)
    sequences = _sequences(options, model, work)
    if len(sequences) <= 2 * HELD_OUT:
        raise ValueError(f"{len(sequences)} conversations are too few: {2 * HELD_OUT + 1} are needed, of which "
                         f"{HELD_OUT} are held out for the report")  # fmt: skip
    pieces = (part for one in sequences for part in (one.ids.tobytes(), one.answered.tobytes()))
    made_from["the text of --data" if options.data else "the text of --tokens"] = resumption.digest(pieces)
    resumption.unchanged(record, made_from)
    _estimate(model, sequences, options, device)
    teacher.teach(model, sequences, work / "teacher", device)
    lessons = list(teacher.lessons(work / "teacher"))
    held_out, lessons = lessons[:HELD_OUT], lessons[HELD_OUT:]

    names = ("size", "vocabulary", "epochs", "seed")
    trained = {f"--{name}": getattr(options, name) for name in names if not (start and name == "size")}
    trained["--start"] = resumption.digest([options.start.read_bytes()]) if start else "none"
    resumption.unchanged(record, trained)
    student = _student(options, model, lessons, plan)
    schedule = training.Schedule(options.epochs, seed=options.seed)
    curve = training.train(student, lessons, held_out, schedule=schedule, path=work / "draft.pt", device=device)

    def settle() -> None:
        steps = max(1, round(SETTLING * training.step_counts(lessons, schedule)[1]))
        training.settle(student, lessons, steps=steps, schedule=schedule, device=device)

    _write(student, model, sequences[:HELD_OUT], curve, options, device, settle)


@dataclass(frozen=True)
class Plan:
    """A draft that can be made: its shape, the tokens it has in any case, and what it begins with."""

    shape: draft.Shape
    always: list[int]
    like_target: bool
    """Whether it has blocks of the target's shape."""
    start: tuple[vocabulary.Vocabulary, dict[str, export.Array]] | None
    """Vocabulary and weights of the earlier draft."""


def _plan(
    options: argparse.Namespace, model: target.Target,
    start: tuple[draft.Shape, vocabulary.Vocabulary, dict[str, export.Array]] | None,
) -> Plan:  # fmt: skip
    """Plan the draft before anything is computed.

    Raises:
        ValueError: if the options do not fit each other or the target.

    """
    size = model.vocab_size
    always = [id_ for id_ in vocabulary.indispensable(model.tokenizer, model.end_of_turn) if id_ < size]
    rows = vocabulary.choose(np.zeros(size), always, options.vocabulary).size + 1
    if start is None:
        shape, like_target = draft.shape_for(model.model.config, options.size, rows)
        return Plan(shape, always, like_target, None)
    shape, known, weights = start
    if known.target_size != size:
        raise ValueError(f"{options.start} drafts for a vocabulary of {known.target_size}, not {size}: give a draft "
                         "that was made for this target")  # fmt: skip
    lacking = set(vocabulary.of_bytes(model.tokenizer)) - set(known.tokens.tolist())
    if lacking:
        raise ValueError(f"{options.start} drafts for another tokenizer, {len(lacking)} of whose byte tokens have "
                         "other ids: give a draft that was made for this target")  # fmt: skip
    return Plan(shape, always, False, (known, weights))


def _student(
    options: argparse.Namespace, model: target.Target, lessons: list[teacher.Lesson], plan: Plan
) -> draft.Draft:
    """The draft before its training: with blocks of the target, random, or as an earlier training left it."""
    counts = np.zeros(model.vocab_size, np.int64)
    for lesson in lessons:
        np.add.at(counts, lesson.ids[lesson.places + 1], 1)
    tokens = vocabulary.choose(counts, plan.always, options.vocabulary)
    shape = plan.shape
    student = draft.Draft(shape, tokens, model.model.config)
    if plan.start:
        student.go_on_from(*plan.start, model.model)
    elif plan.like_target:
        student.start_from(model.model)
    covered = counts[tokens.tokens].sum() / counts.sum()
    print(f"draft: {shape.weights(tokens.size + 1):,} weights, {shape.layers} blocks of {shape.hidden}, "
          f"{tokens.size} tokens that cover {covered:.1%} of the answers", flush=True)  # fmt: skip
    return student


def _sequences(options: argparse.Namespace, model: target.Target, work: Path) -> list[target.Sequence]:
    path = options.data or work / "conversations.jsonl"
    if options.data is None and conversations.answered(model.tokenizer, path) < options.tokens:
        lines = conversations.lines(options.questions) if options.questions else []
        questions = [line.strip() for line in lines if line.strip()]
        with _server(options) as url:
            writer = conversations.CompletionsServer.at(url)
            conversations.write_many(
                writer, model.tokenizer, path, tokens=options.tokens, seed=options.seed, questions=questions
            )
    made = (target.sequence(model.tokenizer, c, model.end_of_turn, CONTEXT) for c in conversations.read(path))
    # Tokenizers may have tokens that the model was not given rows for.
    return [sequence for sequence in made if sequence is not None and sequence.ids.max() < model.vocab_size]


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[str]:
    """The server that writes conversations: the one named, or `outrider serve` for as long as it is needed."""
    if options.server:
        yield options.server
        return
    program = shutil.which(options.outrider)
    if program is None:
        raise ValueError(f"there is no program `{options.outrider}`: give --outrider PATH, --server URL or --data FILE")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    many = ["--max-sessions", "64", "--max-sessions-per-address", "64", "--max-connections-per-address", "64"]
    command = [program, "serve", "--listen", f"127.0.0.1:{port}", "--target", options.target]
    command += ["--draft", options.target, "--own-draft", "off", "--request-timeout", "900", *many]
    log = options.out / "work" / "serve.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as running:
        try:
            yield _ready(running, f"http://127.0.0.1:{port}", log)
        finally:
            running.terminate()


def _ready(running: subprocess.Popen[bytes], url: str, log: Path) -> str:
    while True:
        if running.poll() is not None:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise ValueError(f"outrider serve ended: {' '.join(last)}")
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return url
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)


def _device(name: str) -> str:
    if name != "auto":
        try:
            torch.zeros(1, device=name)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"--device {name} cannot be used here ({reason}): give cpu, or leave it out") from error
        return name
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def _estimate(model: target.Target, sequences: list[target.Sequence], options: argparse.Namespace, device: str) -> None:
    """Print about how long teaching and training take, from a forward pass of the target."""
    ids = torch.zeros((1, 512), dtype=torch.int64, device=device)
    with torch.inference_mode():
        model.model.base_model(input_ids=ids)
        started = time.perf_counter()
        model.model.base_model(input_ids=ids)
    rate = 512 / (time.perf_counter() - started)
    tokens = sum(len(sequence.ids) for sequence in sequences)
    size = sum(w.numel() for w in model.model.parameters())
    teach = tokens / rate
    # A training step has three times the products of a forward pass.
    train = options.epochs * 3.0 * tokens / rate * options.size / size
    print(f"{len(sequences):,} conversations, {tokens:,} tokens on {device}: about {teach / 60:.0f} min for the "
          f"target's distributions and {train / 60:.0f} min for the training", flush=True)  # fmt: skip


def _write(  # noqa: PLR0913, PLR0917
    student: draft.Draft, model: target.Target, held_out: list[target.Sequence], curve: list[tuple[int, float]],
    options: argparse.Namespace, device: str, settle: Callable[[], None],
) -> None:  # fmt: skip
    """Write the draft's files, its model card and the figures. `settle` makes the draft fit for rounding to Q4_0."""
    out = options.out
    export.write_folder(student, model, out / "safetensors", report.guess_chance(student, model, held_out, device))
    rows = {"f32": report.agreement(student, model, held_out, device)}
    trained = {name: w.clone() for name, w in student.body.state_dict().items()}
    for kind in export.TYPES:
        if kind == "q4_0":
            settle()
            trained = {name: w.clone() for name, w in student.body.state_dict().items()}
        student.load(export.rounded(student, kind))
        rows[kind] = report.agreement(student, model, held_out, device)
        chance = report.guess_chance(student, model, held_out, device)
        student.body.load_state_dict(trained)
        export.write_gguf(student, model, out / f"draft-{kind}.gguf", kind, chance)
    figures = {
        "target": model.name,
        "weights": student.shape.weights(student.vocabulary.size + 1),
        "vocabulary": student.vocabulary.size,
        "seed": options.seed,
        "epochs": options.epochs,
        "agreement": {name: [vars(entry) for entry in entries] for name, entries in rows.items()},
        "seconds_per_token_in_torch": report.step_time(student, device),
        "learning_curve": curve,
    }
    (out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    card = [
        f"# Draft for {model.name}",
        "",
        f"A Llama of {figures['weights']:,} weights that knows {student.vocabulary.size} of the target's tokens, "
        f"made with `outrider-draft make` to draft for {model.name} in speculative decoding. It is not a chat model.",
        "",
        f"On {len(held_out)} held-out conversations ({rows['f32'][0].positions:,} positions):",
        "",
        report.table(rows),
        "",
        "The weights derive from the target's and are under the target's licence.",
    ]
    (out / "README.md").write_text("\n".join(card) + "\n", encoding="utf-8")
    print(report.table(rows))
    print(
        f"written to {out}; see what it gains: outrider check --draft {out}/draft-q8_0.gguf --target {options.target}"
    )
