#!/usr/bin/env python3
"""Step 4: encodes the text and packs it for the journey to the GPU host.

    encode.py WORK PACK [BYTES]

Each document becomes its token ids followed by 0 (<|endoftext|>), 16 bits a token. Training documents are shuffled and dealt to three parts, since one
part is what a call of the GPU host can carry: PACK/train-0.npy.xz to train-2.npy.xz, each cut at BYTES compressed bytes. PACK also gets
held-code.npy, held-prose.npy (both .xz), tokenizer.json, encoding.json (tokens and bytes of every part) and golden.json, the 48
held-out tokens over which check.py makes the golden of the engine's tests.
"""

import io
import json
import lzma
import pathlib
import random
import shutil
import sys

import numpy
from tokenizers import Tokenizer

PARTS = 3
BATCH = 1000                # documents encoded at a time
SEED = 20
GOLDEN_PACKAGE = "sqlite3-doc"
GOLDEN_LENGTH = 48
# 16-bit little-endian words: the position inside the word is the only low bit of context that helps.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 28, "lc": 3, "lp": 1, "pb": 1}]


def read_documents(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def golden_tokens(tokenizer, path):
    """Tokens from the middle of the first held-out page of the package whose text is in the public domain."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            if document["package"] == GOLDEN_PACKAGE:
                ids = tokenizer.encode(document["text"], add_special_tokens=False).ids
                middle = (len(ids) - GOLDEN_LENGTH) // 2
                return {"package": GOLDEN_PACKAGE, "path": document["path"], "ids": ids[middle:middle + GOLDEN_LENGTH]}
    raise RuntimeError(f"no held-out document of {GOLDEN_PACKAGE}")


def encode(tokenizer, documents):
    pieces = []
    for start in range(0, len(documents), BATCH):
        for encoding in tokenizer.encode_batch(documents[start:start + BATCH], add_special_tokens=False):
            pieces.append(numpy.array([*encoding.ids, 0], dtype=numpy.uint16))
    return numpy.concatenate(pieces)


def write_packed(path, tokens, limit=None):
    """Writes an .npy file through xz; with a limit, only as many blocks of tokens as fit. Returns the tokens written."""
    count = len(tokens)
    while True:
        buffer = io.BytesIO()
        numpy.save(buffer, tokens[:count])
        packed = lzma.compress(buffer.getvalue(), format=lzma.FORMAT_XZ, filters=FILTERS)
        if limit is None or len(packed) <= limit:
            path.write_bytes(packed)
            return count
        count = int(count * limit / len(packed) * 0.995) // 1000 * 1000


def main(work, pack, limit):
    pack.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    shutil.copy(work / "tokenizer.json", pack)
    report = {}
    for kind in ("code", "prose"):
        documents = read_documents(work / f"held-{kind}.jsonl")
        tokens = encode(tokenizer, documents)
        write_packed(pack / f"held-{kind}.npy.xz", tokens)
        report[f"held-{kind}"] = {"tokens": len(tokens), "bytes": sum(len(text.encode()) for text in documents) + len(documents)}
    (pack / "golden.json").write_text(json.dumps(golden_tokens(tokenizer, work / "held-prose.jsonl")) + "\n")
    documents = read_documents(work / "train.jsonl")
    random.Random(SEED).shuffle(documents)
    for part in range(PARTS):
        mine = documents[part::PARTS]
        tokens = encode(tokenizer, mine)
        written = write_packed(pack / f"train-{part}.npy.xz", tokens, limit)
        report[f"train-{part}"] = {"tokens": written, "tokens_before_the_cut": len(tokens),
                                   "bytes_before_the_cut": sum(len(text.encode()) for text in mine) + len(mine)}
        print(part, report[f"train-{part}"], flush=True)
    (pack / "encoding.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
