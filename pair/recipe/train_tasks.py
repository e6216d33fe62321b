"""Train the task pair: a target, and a draft distilled from it, on the tasks of tasks.py.

Usage: train_tasks.py LEXICON HELD_OUT.jsonl OUT [--only draft]

OUT gets `tokenizer.json` and the folders `target` and `draft`, which convert.py reads; what is printed are exact
matches on the held-out prompts, decoded greedily. Steps are counted and not seconds, so that the same seed and number
of threads give the same weights on the same kind of machine.

Training texts are not clean: each character of an answer is a random one with probability NOISE, as texts that models
learn from have errors. So the best continuation and a drawn one differ in worth, and temperature costs quality.
"""

import argparse
import json
import pathlib
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tasks import LETTERS, NAMES, Lexicon, example
from train_pair import LanguageModel, learning_rate, load, save

END = 0
CONTEXT = 128
NOISE = 0.01
BATCH = 64
PART = 16
SHAPES = {
    "target": dict(dim=96, layers=4, heads=3, kv=3, hidden=256, ctx=CONTEXT),
    "draft": dict(dim=64, layers=2, heads=2, kv=2, hidden=192, ctx=CONTEXT),
}
# Shares of the tasks. The target sees little of the last, on which the draft is better for it.
SHARES = {"target": (35, 25, 36, 4), "draft": (25, 20, 20, 35)}
RATES = {"target": 3e-3, "draft": 4e-3}
# Weight of the target's distribution in the draft's loss, by task; sorting it learns from the texts alone.
TEACHER = (0.7, 0.7, 0.7, 0.0)


def byte_tokenizer() -> Tokenizer:
    """A byte-level BPE without merges; `<|endoftext|>` is token 0."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|endoftext|>": END} | {letter: place + 1 for place, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


class Batches:
    """Examples without end, in batches of equal length."""

    def __init__(self, lexicon: Lexicon, shares: tuple, excluded: set, tokenizer: Tokenizer, seed: int):
        self.lexicon, self.shares, self.excluded, self.rng = lexicon, shares, excluded, random.Random(seed)
        # Spaces are spelt otherwise in a byte-level vocabulary.
        self.ids = {letter: tokenizer.encode(letter).ids[0] for letter in LETTERS + "0123456789+> "}

    def example(self) -> tuple:
        """(ids, which of them are learnt, place of the task)."""
        while True:
            place = self.rng.choices(range(len(NAMES)), self.shares)[0]
            prompt, answer = example(self.lexicon, self.rng, NAMES[place])
            if prompt not in self.excluded:
                break
        alphabet = "0123456789" if NAMES[place] == "sum" else LETTERS
        answer = "".join(self.rng.choice(alphabet) if self.rng.random() < NOISE else letter for letter in answer)
        ids = [END, *(self.ids[letter] for letter in prompt + answer), END]
        return ids, [False] * len(prompt) + [True] * (len(answer) + 1), place

    def next(self) -> list:
        """A batch, in parts of examples of about one length.

        Each has inputs [part, length], labels [part, length] with -100 where nothing is learnt, and tasks [part].
        """
        examples = sorted((self.example() for _ in range(BATCH)), key=lambda example: len(example[0]))
        return [self.padded(examples[start : start + PART]) for start in range(0, BATCH, PART)]

    @staticmethod
    def padded(examples: list) -> tuple:
        """Tensors of a part."""
        shape = (len(examples), len(examples[-1][0]) - 1)
        inputs, labels = np.zeros(shape, np.int64), np.full(shape, -100, np.int64)
        for row, (ids, learnt, _) in enumerate(examples):
            inputs[row, : len(ids) - 1] = ids[:-1]
            labels[row, : len(ids) - 1] = np.where(learnt, ids[1:], -100)
        tasks = torch.tensor([place for _, _, place in examples])
        return torch.from_numpy(inputs), torch.from_numpy(labels), tasks


def exact_matches(model: LanguageModel, tokenizer: Tokenizer, examples: list) -> dict:
    """Share of answers that are right to the letter, greedily decoded, by task."""
    right = {name: [] for name in NAMES}
    model.eval()
    with torch.no_grad():
        for line in examples:
            ids = [END, *tokenizer.encode(line["prompt"]).ids]
            wanted = [*tokenizer.encode(line["answer"]).ids, END]
            # Greedy decoding gives the answer if and only if each of its tokens is the likeliest behind the others.
            logits = model(torch.tensor([ids + wanted[:-1]]))[0, len(ids) - 1 :]
            right[line["task"]].append(logits.argmax(-1).tolist() == wanted)
    model.train()
    return {name: float(np.mean(found)) for name, found in right.items()}


def train(name: str, args: argparse.Namespace, teacher: LanguageModel | None) -> LanguageModel:
    """One of the two."""
    torch.manual_seed(1)
    examples = [json.loads(line) for line in args.held_out.read_text().splitlines()]
    tokenizer = byte_tokenizer()
    lexicon, excluded = Lexicon.read(args.lexicon), {line["prompt"] for line in examples}
    batches = Batches(lexicon, SHARES[name], excluded, tokenizer, 1 if name == "target" else 2)
    shape = SHAPES[name] | {"vocab": tokenizer.get_vocab_size()}
    model, steps = LanguageModel(shape), args.steps if name == "target" else args.draft_steps
    print(f"{name}: {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATES[name], betas=(0.9, 0.98), weight_decay=0.05, fused=True)
    began, smoothed = time.time(), None
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(RATES[name], step, 100, step / steps)
        parts = batches.next()
        count = sum(int((labels >= 0).sum()) for _, labels, _ in parts)
        mean = 0.0
        for inputs, labels, tasks in parts:
            learnt = labels >= 0
            logits = model(inputs)[learnt]
            loss = text_loss = F.cross_entropy(logits, labels[learnt], reduction="none")
            if teacher is not None:
                with torch.no_grad():
                    taught = F.softmax(teacher(inputs)[learnt], -1)
                weight = torch.tensor(TEACHER)[tasks][:, None].expand_as(labels)[learnt]
                loss = (1 - weight) * text_loss - weight * (taught * F.log_softmax(logits, -1)).sum(-1)
            (loss.sum() / count).backward()
            mean += text_loss.sum().item() / count
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smoothed = mean if smoothed is None else 0.98 * smoothed + 0.02 * mean
        if step % 50 == 0:
            print(f"{step}: loss {smoothed:.3f}, {time.time() - began:.0f} s", flush=True)
        if step % 250 == 249 or step + 1 == steps:
            found = exact_matches(model, tokenizer, examples)
            print("  right:", ", ".join(f"{task} {share:.3f}" for task, share in found.items()), flush=True)
            save(model, args.out / name)
    return model


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lexicon", type=pathlib.Path)
    parser.add_argument("held_out", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", choices=SHAPES, help="train this one; a draft needs the target in OUT")
    parser.add_argument("--steps", type=int, default=2600, help="of the target")
    parser.add_argument("--draft-steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.out.mkdir(parents=True, exist_ok=True)
    byte_tokenizer().save(str(args.out / "tokenizer.json"))
    if args.only != "draft":
        train("target", args, None)
    if args.only != "target":
        train("draft", args, load(args.out / "target").eval())


if __name__ == "__main__":
    main()
