#!/usr/bin/env python3
"""Step 2: drops exact and near duplicates between documents, limits each package, and sets held-out documents apart.

    deduplicate.py WORK

A document is cut into shingles of three consecutive lines (blank lines and indentation ignored). Documents are visited in the order of a hash of their
text; one is dropped when more than TRAIN_OVERLAP of its characters lie in shingles already seen in documents that were kept. This finds
copies, renamed copies and files contained in others, and needs one pass. Documents whose hash falls in the held-out hundredth come last
and must clear the stricter HELD_OUT_OVERLAP, so that no near copy of a training text is in the held-out text.

Writes WORK/train.jsonl, WORK/held-code.jsonl, WORK/held-prose.jsonl and deduplication.json (the numbers) beside this file.
"""

import json
import pathlib
import sys

import xxhash

HERE = pathlib.Path(__file__).resolve().parent
SHINGLE_LINES = 3
TRAIN_OVERLAP = 0.5
HELD_OUT_OVERLAP = 0.2
HELD_OUT_PARTS = 100                 # one document in this many is held out
PACKAGE_LIMIT = {"code": 5_000_000, "prose": 20_000_000}  # bytes kept of one package, so that none dominates
HELD_OUT_LIMIT = 1_500_000           # bytes of held-out text a kind


def text_hash(text):
    return xxhash.xxh3_64_intdigest(text.encode())


def shingles(text):
    """[(hash, characters)] of every run of SHINGLE_LINES non-blank lines; a shorter document is one shingle."""
    lines = [stripped for line in text.splitlines() if (stripped := " ".join(line.split()))]
    if len(lines) <= SHINGLE_LINES:
        joined = "\n".join(lines)
        return [(text_hash(joined), len(joined))]
    return [(text_hash("\n".join(lines[i:i + SHINGLE_LINES])), len(lines[i]))
            for i in range(len(lines) - SHINGLE_LINES + 1)]


def overlap(parts, seen):
    total = sum(length for _, length in parts)
    return sum(length for key, length in parts if key in seen) / max(1, total)


def main(work):
    documents = []
    exact = set()
    counts = {"documents": 0, "exact_duplicates": 0, "near_duplicates": 0, "over_package_limit": 0,
              "held_out_candidates": 0, "held_out_too_close": 0}
    with open(work / "documents.jsonl", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            key = text_hash(" ".join(document["text"].split()))
            counts["documents"] += 1
            if key in exact:
                counts["exact_duplicates"] += 1
                continue
            exact.add(key)
            documents.append((key, document))
    documents.sort(key=lambda pair: pair[0])

    def is_held_out(key):
        return key % HELD_OUT_PARTS == 0

    seen = set()
    package_bytes = {}
    kept_bytes = {"code": 0, "prose": 0}
    kept_documents = {"code": 0, "prose": 0}
    with open(work / "train.jsonl", "w", encoding="utf-8") as output:
        for key, document in documents:
            if is_held_out(key):
                continue
            kind = document["kind"]
            used = package_bytes.get(document["package"], 0)
            if used > PACKAGE_LIMIT[kind]:
                counts["over_package_limit"] += 1
                continue
            parts = shingles(document["text"])
            if overlap(parts, seen) > TRAIN_OVERLAP:
                counts["near_duplicates"] += 1
                continue
            seen.update(shingle for shingle, _ in parts)
            size = len(document["text"].encode())
            package_bytes[document["package"]] = used + size
            kept_bytes[kind] += size
            kept_documents[kind] += 1
            output.write(json.dumps({"kind": kind, "text": document["text"]}, ensure_ascii=False) + "\n")

    held_bytes = {"code": 0, "prose": 0}
    held_documents = {"code": 0, "prose": 0}
    held_package_bytes = {}
    outputs = {kind: open(work / f"held-{kind}.jsonl", "w", encoding="utf-8") for kind in held_bytes}
    for key, document in documents:
        if not is_held_out(key):
            continue
        kind = document["kind"]
        counts["held_out_candidates"] += 1
        package = document["package"]
        if held_bytes[kind] > HELD_OUT_LIMIT or held_package_bytes.get(package, 0) > PACKAGE_LIMIT[kind] / HELD_OUT_PARTS:
            continue
        parts = shingles(document["text"])
        if overlap(parts, seen) > HELD_OUT_OVERLAP:
            counts["held_out_too_close"] += 1
            continue
        seen.update(shingle for shingle, _ in parts)
        size = len(document["text"].encode())
        held_bytes[kind] += size
        held_documents[kind] += 1
        held_package_bytes[package] = held_package_bytes.get(package, 0) + size
        outputs[kind].write(json.dumps(document, ensure_ascii=False) + "\n")
    for output in outputs.values():
        output.close()
    report = {**counts, "train_documents": kept_documents, "train_bytes": kept_bytes,
              "held_out_documents": held_documents, "held_out_bytes": held_bytes}
    (HERE / "deduplication.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
