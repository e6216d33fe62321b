"""Greedy text of a checkpoint in f32, to measure what quantization changes.

Usage: greedy_reference.py MODEL_DIR TOKENIZER_JSON VALID_TXT OUT.json

Takes the beginnings of 24 documents of VALID_TXT (16 to 39 tokens each), continues each
greedily by 128 tokens, and writes [{"prompt": ids, "text": ids}, ...]. The program
`greedy_agreement` among the examples of `outrider-models` compares a GGUF file with it.
"""

import json
import sys

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

PROMPTS = 24
NEW_TOKENS = 128


def main() -> None:
    """Command line."""
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    model_dir, tokenizer_json, valid, out = sys.argv[1:]
    tokenizer = Tokenizer.from_file(tokenizer_json)
    model = LlamaForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    paragraphs = [p for p in open(valid).read().split("\n\n") if len(p) > 400]
    result = []
    for index in range(PROMPTS):
        paragraph = paragraphs[index * len(paragraphs) // PROMPTS]
        prompt = [0, *tokenizer.encode(paragraph).ids][: 16 + index]
        text, cache, step = [], None, torch.tensor([prompt])
        with torch.no_grad():
            while len(text) < NEW_TOKENS:
                output = model(step, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                text.append(output.logits[0, -1].argmax().item())
                step = torch.tensor([[text[-1]]])
        result.append({"prompt": prompt, "text": text})
    json.dump(result, open(out, "w"))


if __name__ == "__main__":
    main()
