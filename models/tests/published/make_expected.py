"""Token ids and pieces of text by Hugging Face's tokenizers, of every tokenizer.json in a folder.

    python make_expected.py FOLDER      reads FOLDER/NAME.json, writes FOLDER/NAME.expected

The pieces are those of DecodeStream, as text generation with transformers streams them. A line of JSON for each text.
"""

import json
import pathlib
import sys

import tokenizers
from tokenizers.decoders import DecodeStream

WORDS = [
    "Once upon a time, there was a little girl.",
    "  two  spaces\n\nand lines\t\r\n \n",
    "don't WON'T I'll we'VE it's",
    "1234567890 3.14159 1,000,000 0x1F 12e-7",
    "def f(x):\n    return x ** 2  # comment\n\n\n\tprint(f'{x!r}')",
    "naïve façade — “quoted” … ½ ﬁ Ⅷ ² İstanbul ſ",
    "日本語のテキスト 中文字符 한국어 ภาษาไทย हिन्दी العربية עברית",
    "🦊👩‍👩‍👧‍👦🏳️‍🌈 é é \u200b\u00ad\u2028\u00a0\ufeff|",
    "\u0301 combining \u0323 first \U00010348 \U000e0001",
    "</s> <|im_end|> <s> [INST] <|endoftext|> <bos> <0x0A> ▁▁ Ġ Ċ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a" + "\u0300" * 40,
    "https://example.org/a?b=c&d=%20#e user@example.com #tag @name $100 50%",
    "\x01\x02\x1f\x7f control \x85 next line",
    " ",
    "\n",
    "\n\n\n   \n",
    "the  end ",
]
TEXTS = WORDS + [f"{a}{b}" for a, b in zip(WORDS, WORDS[1:], strict=False)] + [" ".join(WORDS)]


def pieces(tokenizer: tokenizers.Tokenizer, ids: list[int]) -> list[str]:
    """Gives the text that becomes certain with each token."""
    stream = DecodeStream(skip_special_tokens=True)
    return [stream.step(tokenizer, token) or "" for token in ids]


def main() -> None:
    """Writes what is expected of every tokenizer."""
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        with path.with_suffix(".expected").open("w", encoding="utf-8") as file:
            for text in TEXTS:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                expected = {
                    "text": text,
                    "ids": ids,
                    "pieces": pieces(tokenizer, ids),
                    "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                }
                file.write(json.dumps(expected) + "\n")


main()
