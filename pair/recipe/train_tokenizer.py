"""Train the byte-level BPE tokenizer and encode the text with it.

Usage: train_tokenizer.py DIR

DIR holds `train.txt` and `valid.txt`: UTF-8, documents separated by a line `<|endoftext|>`.
Written are `tokenizer.json` and, for training, `train.bin` and `valid.bin`: token ids as
little-endian u16, every document preceded by token 0, `<|endoftext|>`.
"""

import pathlib
import sys

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
END_OF_TEXT = "<|endoftext|>"


def train(text: pathlib.Path) -> Tokenizer:
    """A tokenizer for the bytes of `text`; `<|endoftext|>` is token 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(text)], trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, text: str) -> np.ndarray:
    """All documents in one array, each begun by token 0."""
    ids = []
    for document in filter(None, text.split(f"\n{END_OF_TEXT}\n")):
        ids.append(0)
        ids.extend(tokenizer.encode(document).ids)
    return np.array(ids, dtype="<u2")


def main() -> None:
    """Command line."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    tokenizer = train(folder / "train.txt")
    tokenizer.save(str(folder / "tokenizer.json"))
    for name in ("valid", "train"):
        text = (folder / f"{name}.txt").read_text()
        ids = encode(tokenizer, text)
        ids.tofile(folder / f"{name}.bin")
        print(f"{name}: {len(ids)} tokens, {len(text) / len(ids):.2f} characters a token")


if __name__ == "__main__":
    main()
