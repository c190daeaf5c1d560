#!/usr/bin/env python3
"""Counts how often every token occurs in the texts the embedded model wrote (drafter/texts.py): the order of a proposal head's shortlist.

    token_counts.py TEXTS OUT

OUT is a safetensors file with `counts`, I32 [vocabulary]. Rows begin with <|endoftext|>, which is not counted there. A token that never occurred has count 0.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

VOCABULARY = 4096
COVERAGES = 256, 512, 1024, 2048


def main(texts, out):
    tokens = torch.load(texts)["train"]["tokens"][:, 1:]
    counts = torch.zeros(VOCABULARY, dtype=torch.int64)
    for some in tokens.split(1024):
        counts += torch.bincount(some.flatten().int(), minlength=VOCABULARY)
    save_file({"counts": counts.int()}, out)
    falling = counts.sort(descending=True).values.double()
    coverage = {size: round((falling[:size].sum() / falling.sum()).item(), 5) for size in COVERAGES}
    print(json.dumps({"tokens": tokens.numel(), "never_seen": int((counts == 0).sum()), "covered_by_the_most_frequent": coverage}), flush=True)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
