#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizer/golden.jsonl and variants.json: what the `tokenizers` library says of awkward texts.

Needs `pip install tokenizers` (made with 0.23.3). Every line of golden.jsonl is one text with its ids; every seventh text
also has the ids under each variant of the tokenizer (variants.json holds JSON Patches of tokenizer.json).
Usage: tokenizer_golden.py [FOLDER]    FOLDER holds tokenizer.json, and receives the two files.
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import Tokenizer

COUNT = 1000
SEED = 1
LONGEST = 200  # characters of a text
VARIED_EVERY = 7

QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                 r"|\s+(?!\S)|\s+")
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def added(token_id, content, special, normalized):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special}


def add(path, value):
    return {"op": "add", "path": path, "value": value}


def variants(base):
    vocabulary = base["model"]["vocab"]
    next_id = len(vocabulary)
    nfc = add("/normalizer", {"type": "NFC"})
    return {
        "nfc": [nfc],
        "byte_level": [add("/pre_tokenizer", {**BYTE_LEVEL, "use_regex": True})],
        # The merge joins the last byte of U+0301 with a full stop: one piece under this pattern, two under ours.
        "qwen2": [add("/pre_tokenizer", {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}, BYTE_LEVEL]}),
            add("/model/vocab/\u0123.", next_id), add("/model/merges/-", ["\u0123", "."])],
        "two_splits": [add("/pre_tokenizer", {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"String": "."}, "behavior": "Isolated", "invert": False},
            {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}|\s+"}, "behavior": "Isolated", "invert": False},
            BYTE_LEVEL]})],
        # A token that no merge makes.
        "whole_words": [add("/model/ignore_merges", True), add("/model/vocab/\u0120unmergeable", next_id)],
        "text_merges": [add("/model/merges", [" ".join(merge) for merge in base["model"]["merges"][:400]])],
        "more_tokens": [nfc] + [add("/added_tokens/-", token) for token in (
            added(next_id, "<|im", True, False), added(next_id + 1, "<|im_start|><|", True, False),
            added(next_id + 2, "caf\u00e9", False, True), added(vocabulary["return"], "return", False, False))],
    }


def patched(base, patch):
    result = json.loads(json.dumps(base))
    for operation in patch:
        *parents, last = operation["path"].split("/")[1:]
        target = result
        for key in parents:
            target = target[key]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
    return result


class Texts:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.by_category = {}
        for point in range(0x110000):
            if not 0xD800 <= point < 0xE000:
                self.by_category.setdefault(unicodedata.category(chr(point)), []).append(chr(point))

    def pick(self, items, least=1, most=12):
        return "".join(self.random.choice(items) for _ in range(self.random.randint(least, most)))

    def letters(self, least=1, most=9):
        return self.pick("abcdefghijklmnopqrstuvwxyzABCDEFGH", least, most)

    def category(self):
        name = self.random.choice(sorted(self.by_category))
        return self.pick(self.by_category[name], 1, 6) + self.random.choice(["", " ", "a", "\n", "1", "."])

    def categories(self):
        return "".join(self.category() for _ in range(self.random.randint(1, 6)))

    def emoji(self):
        parts = ["\U0001F469\u200D\U0001F469\u200D\U0001F467", "\U0001F44D\U0001F3FD", "\u2764\uFE0F", "\U0001F1E9\U0001F1EA",
                 "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", "1\uFE0F\u20E3", "\U0001F600",
                 " ", "x", "\u200D", "\uFE0F"]
        return self.pick(parts, 1, 8)

    def combining(self):
        marks = [chr(point) for point in range(0x300, 0x370)] + ["\u0591", "\u05b0", "\u064e", "\u093c", "\u0e31", "\u3099"]
        bases = list("aeiouAEIOUnszc ") + ["\u0438", "\u05d0", "\u0628", "\u0915", "\u304b", "\u1100", "\u1161", "\u11a8", "\uac00"]
        return "".join(self.random.choice(bases) + self.pick(marks, 0, 3) for _ in range(self.random.randint(1, 10)))

    def decomposed(self):
        words = ["caf\u00e9", "na\u00efve", "\u00c5ngstr\u00f6m", "\u1ec7", "\ud55c\uae00", "\u212b", "\u2126", "\u0958", "\u304c", "\ufb1d",
                 "\U0001d15e", "\u1e9b\u0323", "\u0344", "\uf900", "e\u0301\u0327", "\u1100\u1161\u11a8"]
        word = self.random.choice(words)
        form = self.random.choice(["NFC", "NFD", "NFKC", "NFKD"])
        return unicodedata.normalize(form, word) + self.random.choice([" ", "", "!", word])

    def cjk(self):
        blocks = [(0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x20000, 0x2A6DF), (0xFF00, 0xFFEF), (0x3000, 0x303F)]
        low, high = self.random.choice(blocks)
        return "".join(chr(self.random.randint(low, high)) for _ in range(self.random.randint(1, 20)))

    def right_to_left(self):
        letters = [chr(p) for p in list(range(0x5D0, 0x5EB)) + list(range(0x620, 0x64B)) + list(range(0x660, 0x66A))]
        return self.pick(letters + [" ", "\u200f", "\u202b", "\u202c", "\u064b", "1", ","], 2, 25)

    def controls(self):
        return self.pick([chr(p) for p in range(0x20)] + ["\x7f", "\x80", "\x85", "\x9f", "\xad", "\u200b", "\ufeff", "a", " "], 1, 15)

    def spaces(self):
        every = [" ", " ", " ", "\t", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u200a",
                 "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "x", "."]
        return self.pick(every, 2, 25)

    def long_spaces(self):
        return self.letters() + self.random.choice([" ", "\t", "\n", " \n", "\r\n"]) * self.random.randint(5, 120) + self.letters(0, 3)

    def line_ends(self):
        return "".join(self.letters(0, 4) + self.pick(["\r", "\n", "\r\n", "\n\r", " \n", "\n ", ";"], 1, 3) for _ in range(8))

    def contractions(self):
        tails = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D",
                 "'x", "'", "''s", "\u2019s", "'\u017f", "'\u212a", "'sx", "'lla"]
        return self.random.choice([" ", "."]).join(self.letters(0, 5) + self.random.choice(tails) for _ in range(5))

    def digits(self):
        every = "0123456789" * 4 + "\u00b2\u00bd\u0661\u0967\u2164\u2460\u3007\u4e09.,-+eE x"
        return self.pick(every, 1, 30)

    def special(self):
        parts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>", "<|im_start", "|>", "<|", "<|endoftext|", "endoftext",
                 "<|im_start|><|im_end|>", " ", "\n", "user\n", "caf\u00e9", "cafe\u0301", "return", "<|<|im_end|>", "<|IM_END|>", "<|im|>"]
        return self.pick(parts, 1, 9)

    def nuls(self):
        return self.pick(["\0", "\0\0", "a", " ", "\n", "z\0"], 1, 12)

    def long_word(self):
        return self.pick(self.random.choice(["ab", "abcdefghij", "a", "eéè", "\u0430\u0431", "._", "<|"]), 100, 300)

    def code(self):
        lines = ["def f(x: int) -> int:", "    return x**2  # squared", "for (int i = 0; i < n; ++i) {", "\tstd::cout << \"a\\n\";",
                 "}", "#include <vector>", "x = [1, 2.5e-3, 0xFF, 'it''s']", "if (a&&b||!c) goto end;", "<p class=\"x\">&nbsp;</p>",
                 "SELECT * FROM t WHERE a='b';", "const f = async () => { await g(); };", "\\frac{1}{2} \\cdot \\pi", "$PATH:/usr/bin",
                 "fn main() -> Result<(), Box<dyn Error>> {", "let s = r#\"raw\"#;", "// ----------------"]
        return self.random.choice(["\n", "\n\n", "\r\n", "\n    "]).join(self.random.choice(lines) for _ in range(self.random.randint(1, 6)))

    def prose(self):
        words = ["the", "The", "don't", "isn't", "I'm", "they're", "quick", "brown", "fox,", "jumps", "over--well,", "lazy", "dog.",
                 "(maybe)", "\u201cquoted\u201d", "\u2014", "e.g.", "Dr.", "na\u00efve", "r\u00e9sum\u00e9", "1984", "3.14", "$5.00", "50%", "A.B.C."]
        return self.random.choice([" ", "  ", "\n"]).join(self.random.choice(words) for _ in range(self.random.randint(2, 20)))

    def any_points(self):
        result = ""
        while len(result) < self.random.randint(1, 25):
            point = self.random.randint(0, 0x10FFFF)
            if not 0xD800 <= point < 0xE000:
                result += chr(point)
        return result


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/tokenizer")
    base = json.loads((folder / "tokenizer.json").read_text())
    patches = variants(base)
    tokenizer = Tokenizer.from_str(json.dumps(base))
    varied = {name: Tokenizer.from_str(json.dumps(patched(base, patch))) for name, patch in patches.items()}
    texts = Texts(SEED)
    kinds = [texts.categories, texts.emoji, texts.combining, texts.decomposed, texts.cjk, texts.right_to_left, texts.controls,
             texts.spaces, texts.long_spaces, texts.line_ends, texts.contractions, texts.digits, texts.special, texts.nuls,
             texts.long_word, texts.code, texts.prose, texts.any_points]
    chosen = ["", " ", "\n", "a", "'", "\0", "\u180e", "  \u180e x", "a\u180eb \u180e", "\u017f's '\u017f"]
    awkward = ["an unmergeable unmergeable", "e\u0301. e\u0301.", "cafe\u0301 caf\u00e9 caf\u00e9s", "<|im_start|><|im_end|> <|im|>return"]
    for text in awkward:
        while len(chosen) % VARIED_EVERY != 0:
            chosen.append("x" * len(chosen))
        chosen.append(text)
    while len(chosen) < COUNT:
        text = kinds[len(chosen) % len(kinds)]()[:LONGEST]
        if text not in chosen:
            chosen.append(text)
    lines = []
    for index, text in enumerate(chosen):
        line = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
        if index % VARIED_EVERY == 0:
            line["variants"] = {name: one.encode(text, add_special_tokens=False).ids for name, one in varied.items()}
        lines.append(json.dumps(line, separators=(",", ":")))
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "variants.json").write_text(json.dumps(patches, indent=1) + "\n")


main()
