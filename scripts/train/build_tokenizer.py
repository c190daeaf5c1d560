#!/usr/bin/env python3
"""Step 3: trains the byte-level BPE tokenizer, 4,096 entries, and writes WORK/tokenizer.json.

    build_tokenizer.py WORK
"""

import json
import pathlib
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]  # ids 0..3
# The pattern of the Qwen family: contractions, words with one leading mark, single digits, punctuation, line ends, spaces.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SAMPLE_EVERY = 5  # documents; a fifth of the text settles a vocabulary this small


def sample(path):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % SAMPLE_EVERY == 0:
                yield json.loads(line)["text"]


def main(work):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(sample(work / "train.jsonl"), trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise RuntimeError(f"the vocabulary has {tokenizer.get_vocab_size()} entries, wanted {VOCABULARY}")
    tokenizer.save(str(work / "tokenizer.json"))
    print("tokenizer.json written,", VOCABULARY, "entries")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
