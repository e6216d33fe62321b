"""Four tasks with right answers, on which the task pair is trained and cascades are measured.

Usage: tasks.py LEXICON HELD_OUT.jsonl

Writes the held-out prompts with their answers, a JSON object a line. A prompt is the task's name, what is asked, and
`>`; the answer follows.

    say     a sentence of the lexicon's words, in a made-up language    say wise dogs call the king>keli hapi veldn noku
    mend    misspelt words of the lexicon, put right                    mend sun kxng>...
    sum     two numbers of three digits, their sum; units come first    sum 481+993>3850
    sort    letters, in their order                                     sort kdbaz>abdkz
"""

import functools
import json
import pathlib
import random
import sys
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = ("say", "mend", "sum", "sort")
# Held-out prompts are drawn from this seed; training draws from others and leaves these prompts out.
HELD_OUT_SEED = 77
HELD_OUT_OF_EACH = 120


@dataclass
class Lexicon:
    """(English, translation) of each word, by part of speech."""

    nouns: list
    verbs: list
    adjectives: list

    @classmethod
    def read(cls, path: pathlib.Path) -> "Lexicon":
        """From lines of part of speech, English word and translation."""
        lines = [line.split() for line in path.read_text().splitlines()]
        parts = ("noun", "verb", "adjective")
        return cls(*([(word, other) for kind, word, other in lines if kind == part] for part in parts))

    def english(self) -> list:
        """All English words."""
        return [word for word, _ in self.nouns + self.verbs + self.adjectives]


def noun_phrase(lexicon: Lexicon, rng: random.Random) -> tuple:
    """(English, translation, whether there are several).

    Behind its noun comes the adjective; -i is for several, of both, and -n for known ones, of the noun.
    """
    noun, adjective = rng.choice(lexicon.nouns), rng.choice(lexicon.adjectives)
    several, known, described = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.4
    article = ["the"] if known else [] if several else ["a"]
    english = [*article, *([adjective[0]] if described else []), noun[0] + "s" * several]
    translated = [noun[1] + "i" * several + "n" * known, *([adjective[1] + "i" * several] if described else [])]
    return " ".join(english), " ".join(translated), several


def say(lexicon: Lexicon, rng: random.Random) -> tuple:
    """Subject, object, verb, which ends in -u after several subjects and in -a after one."""
    subject, object_, verb = noun_phrase(lexicon, rng), noun_phrase(lexicon, rng), rng.choice(lexicon.verbs)
    several = subject[2]
    english = f"{subject[0]} {verb[0]}{'' if several else 's'} {object_[0]}"
    return english, f"{subject[1]} {object_[1]} {verb[1]}{'u' if several else 'a'}"


def is_near(a: str, b: str) -> bool:
    """Whether one letter dropped, added, replaced or exchanged with its neighbour makes `b` of `a`, or nothing."""
    return a == b or b in one_error(a)


@functools.cache
def one_error(word: str) -> set:
    """All words that one error makes."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    dropped = {a + b[1:] for a, b in cuts if b}
    swapped = {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    replaced = {a + c + b[1:] for a, b in cuts if b for c in LETTERS}
    added = {a + c + b for a, b in cuts for c in LETTERS}
    return dropped | swapped | replaced | added


def misspelt(word: str, words: list, rng: random.Random) -> str:
    """`word` with an error that no other of `words` can have become by one."""
    while True:
        kind, i = rng.randrange(4), rng.randrange(len(word))
        if kind == 0:
            wrong = word[:i] + word[i + 1 :]
        elif kind == 1 and i + 1 < len(word):
            wrong = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        elif kind == 2:
            wrong = word[:i] + rng.choice(LETTERS) + word[i + 1 :]
        else:
            wrong = word[:i] + word[i] + word[i:]
        if not any(other != word and is_near(other, wrong) for other in words):
            return wrong


def mend(lexicon: Lexicon, rng: random.Random) -> tuple:
    """Two to four words, most of them misspelt."""
    words = lexicon.english()
    chosen = [rng.choice(words) for _ in range(rng.randint(2, 4))]
    return " ".join(misspelt(word, words, rng) if rng.random() < 0.7 else word for word in chosen), " ".join(chosen)


def total(_: Lexicon, rng: random.Random) -> tuple:
    """Two numbers of three digits and their sum of four, each with its units first."""
    a, b = rng.randrange(1000), rng.randrange(1000)
    return f"{a:03}"[::-1] + "+" + f"{b:03}"[::-1], f"{a + b:04}"[::-1]


def sort(_: Lexicon, rng: random.Random) -> tuple:
    """Five to nine letters."""
    letters = [rng.choice(LETTERS) for _ in range(rng.randint(5, 9))]
    return "".join(letters), "".join(sorted(letters))


TASKS = dict(zip(NAMES, (say, mend, total, sort), strict=True))


def example(lexicon: Lexicon, rng: random.Random, name: str) -> tuple:
    """(prompt, answer) of a task."""
    question, answer = TASKS[name](lexicon, rng)
    return f"{name} {question}>", answer


def held_out(lexicon: Lexicon) -> list:
    """Prompts that no training sees: the tasks in turn, each prompt once."""
    rng, seen, examples = random.Random(HELD_OUT_SEED), set(), []
    while len(examples) < HELD_OUT_OF_EACH * len(NAMES):
        name = NAMES[len(examples) % len(NAMES)]
        prompt, answer = example(lexicon, rng, name)
        if prompt not in seen:
            seen.add(prompt)
            examples.append({"task": name, "prompt": prompt, "answer": answer})
    return examples


def main() -> None:
    """Command line."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    examples = held_out(Lexicon.read(pathlib.Path(sys.argv[1])))
    pathlib.Path(sys.argv[2]).write_text("".join(json.dumps(line) + "\n" for line in examples))


if __name__ == "__main__":
    main()
