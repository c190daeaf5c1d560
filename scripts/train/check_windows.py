#!/usr/bin/env python3
"""Checks that the windows of prompts/windows.jsonl are not in the text that the embedded model was trained on, and writes
window_overlap.json beside this file.

    check_windows.py WORK

Compares as forced/overlap.h does, by 64-bit hashes of all runs of 16 tokens of the embedded model's tokenizer, with every document
that gather.py took (WORK/documents.jsonl, so also those that were dropped as duplicates afterwards). Fails when more than 2 % of a
window's runs occur there. Positive control: a document that holds 120 tokens of a window must make that window fail.
"""

import json
import pathlib
import sys

import numpy
import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUN = 16
WINDOW_TOKENS = 2048
MOST_SHARE = 0.02
CONTROL_TOKENS = 120
BATCH = 256  # documents
MULTIPLIER = numpy.uint64(0x9E37_79B9_7F4A_7C15)


def run_hashes(ids):
    """Of all runs of RUN tokens, in order; products and sums modulo 2^64, then mixed."""
    ids = numpy.asarray(ids, dtype=numpy.uint64)
    count = len(ids) - RUN + 1
    if count < 1:
        return numpy.empty(0, dtype=numpy.uint64)
    total = numpy.zeros(count, dtype=numpy.uint64)
    for place in range(RUN):
        total = (total + ids[place:place + count] + numpy.uint64(1)) * MULTIPLIER
        total ^= total >> numpy.uint64(29)
    return total


def documents(path):
    with open(path, encoding="utf-8") as lines:
        batch = []
        for line in lines:
            batch.append(json.loads(line)["text"])
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def shares(windows, seen):
    """Of each window the share of its runs that were seen."""
    return {name: float(numpy.isin(hashes, seen).mean()) for name, hashes in windows.items()}


def main(work):
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / "models" / "embedded" / "tokenizer.json"))
    records = [json.loads(line) for line in (ROOT / "prompts" / "windows.jsonl").read_text(encoding="utf-8").splitlines()]
    ids = {record["id"]: tokenizer.encode(record["text"], add_special_tokens=False).ids[:WINDOW_TOKENS] for record in records}
    windows = {name: run_hashes(tokens) for name, tokens in ids.items()}
    wanted = numpy.unique(numpy.concatenate(list(windows.values())))

    first = next(iter(ids))
    control = shares(windows, run_hashes(ids[first][500:500 + CONTROL_TOKENS]))
    if control[first] <= MOST_SHARE:
        sys.exit("error: a planted stretch was not seen")

    seen = set()
    count = tokens = 0
    for batch in documents(work / "documents.jsonl"):
        encodings = tokenizer.encode_batch(batch, add_special_tokens=False)
        learned = numpy.concatenate([numpy.asarray(encoding.ids, dtype=numpy.uint64) for encoding in encodings])
        hashes = run_hashes(learned)  # those across two documents are some more, not some less
        places = numpy.minimum(numpy.searchsorted(wanted, hashes), len(wanted) - 1)
        seen.update(hashes[wanted[places] == hashes].tolist())
        count += len(encodings)
        tokens += len(learned)
        print(f"\r{count:,} documents, {tokens:,} tokens, {len(seen):,} runs seen", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    found = shares(windows, numpy.fromiter(seen, dtype=numpy.uint64, count=len(seen)))
    worst = max(found, key=found.get)
    report = {"windows": len(windows), "runs": int(sum(map(len, windows.values()))), "documents": count, "tokens": tokens,
              "runs_seen": int(sum(round(share * len(windows[name])) for name, share in found.items())),
              "windows_with_any": sum(share > 0 for share in found.values()),
              "largest_share_of_a_window": round(found[worst], 5), "window": worst, "most_allowed": MOST_SHARE,
              "control_share": round(control[first], 5)}
    (HERE / "window_overlap.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    if found[worst] > MOST_SHARE:
        sys.exit(f"error: {worst} is in the training text")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
