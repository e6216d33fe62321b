"""Make `sentencepiece.json` beside this script: a small vocabulary that SentencePiece trained, and texts as it encodes them."""

import io
import json
import pathlib

import sentencepiece

HERE = pathlib.Path(__file__).parent
corpus = (HERE.parents[2] / "pair" / "tale.txt").read_text().splitlines()
model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=600, byte_fallback=True,
    normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, character_coverage=0.999,
    user_defined_symbols=["<tool>"],
)
processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
kinds = lambda i: 2 if processor.IsUnknown(i) else 3 if processor.IsControl(i) else 6 if processor.IsByte(i) else 4 if i == processor.PieceToId("<tool>") else 1
texts = [
    "Once upon a time there was a mill.", "  two spaces,  and a tail ", "", " ", "naïve café — “quoted” 🙂 日本語", "line\nbreak\ttab",
    "1234567890", "giant giants' gigantic", corpus[0], corpus[8][:200],
]
golden = {
    "tokens": [processor.IdToPiece(i) for i in range(processor.GetPieceSize())],
    "scores": [processor.GetScore(i) for i in range(processor.GetPieceSize())],
    "kinds": [kinds(i) for i in range(processor.GetPieceSize())],
    "texts": [{"text": text, "ids": processor.EncodeAsIds(text)} for text in texts],
}
(HERE / "sentencepiece.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
print(len(golden["tokens"]), "pieces")
