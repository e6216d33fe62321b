"""Make `oniguruma.json` beside this script: texts as the tokenizers package, whose patterns are Oniguruma's, cuts them."""

import json
import pathlib

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

HERE = pathlib.Path(__file__).parent
CLASSES = "alnum alpha blank cntrl digit graph lower print punct space upper word xdigit".split()
# Letters, marks, numbers, joiners, spaces, controls, punctuation and symbols, each kind in ASCII and beyond it.
TEXT = (
    "aZé Ωω ǅʰª Ⅷⅷ 09٣５½² _‿＿ e\u0301 \u0903 \u0e33 a\u200db\u200cc \u200e\xad \ue000 \u0378 \xa0\u2003\u3000\u1680\u2028\u2029\u202f"
    "\t\x0b\x0c\r\n\x85 \x00\x1f\x7f\x9f -–«»¿！、 $+<=>^`|~ ¹¼¾ €©×÷´ 𝐀𝟘🦊 Ａｆ ⓐ Ⓐ ͅ İı ßſK #%&*@\\[]{}\"'/,.:;!?()"
)
PATTERNS = [f"[[:{sign}{name}:]]+" for name in CLASSES for sign in ("", "^")]
PATTERNS += [rf"\{sign}{{{name}}}+" for name in ("Alpha", "Digit", "Lower", "Punct", "Space", "Upper") for sign in "pP"]
PATTERNS += [r"\w+", r"\W+", r"\d+", r"\D+", r"\s+", r"\S+", r"\h+", r"\H+", r"\b.", r".\b", r"\B.", r".\B", r"\b\w+\b"]
PATTERNS += [r"[\p{Punct}]+"]
PATTERNS += [r"[\w-]+", r"[^\w\s]+", r"[\W\d]+", "[[:alpha:]&&[^a-f]]+", "[^[:alpha:][:space:]]+", "[[:alpha:]_'-]+", "[a[:digit:]]+"]
PATTERNS += ["(?i)[[:upper:]]+", "(?i)[[:lower:]]+", "[:alpha:]+", r"[\[:alpha:]+", r"\<|\>", r"\p{P}+", r"\p{S}+"]
cases = [(pattern, TEXT) for pattern in PATTERNS] + [(r"\p{N}{1,3}+", "In 2026, 3"), (r"\p{N}{1,3}", "In 2026, 3")]
cases += [(r"b\Z", text) for text in ("ab", "ab\n", "ab\n\n")]
# What Split gives is in the order of the text, so its pieces put together are the text.
golden = []
for pattern, text in cases:
    pieces = [piece for piece, _ in Split(Regex(pattern), "isolated").pre_tokenize_str(text)]
    assert "".join(pieces) == text
    golden.append({"pattern": pattern, "pieces": pieces})
lines = ",\n".join(json.dumps(case) for case in golden)
(HERE / "oniguruma.json").write_text(f"[\n{lines}\n]\n")
print(len(golden), "patterns")
