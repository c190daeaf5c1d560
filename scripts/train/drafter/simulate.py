#!/usr/bin/env python3
"""Judges a drafter: replays speculative decoding over texts the target has already written, so that only the drafter has to run.

    simulate.py MODEL DRAFTER TEXTS

A draft is accepted exactly when it is the token the text has there, so the drafts of every anchor can be made at once and the rounds be walked afterwards.
"""

import argparse
import heapq
import json
import pathlib

import torch

from block_drafter import block_mask, blocks, load_drafter
from target import load_target, taps_and_hidden
from texts import JUDGED_TOKENS

CANDIDATES = 8            # a row
TREES = 8, 16, 32         # rows a verification has, the anchor's among them
ROWS_AT_ONCE = 32


def grow(log_probabilities, tokens, drafted):
    """Best-first tree over the factorised law (model-spec 8): {(parent, token): node}, node 0 the anchor."""
    nodes = {}
    heap = [(-log_probabilities[0][0], (0,), 0)]
    while heap and len(nodes) < drafted:
        score, ranks, parent = heapq.heappop(heap)
        depth, rank = len(ranks), ranks[-1]
        node = len(nodes) + 1
        nodes[parent, tokens[depth - 1][rank]] = node
        row = log_probabilities[depth - 1]
        if rank + 1 < len(row):
            heapq.heappush(heap, (score + row[rank] - row[rank + 1], (*ranks[:-1], rank + 1), parent))
        if depth < len(log_probabilities):
            heapq.heappush(heap, (score - log_probabilities[depth][0], (*ranks, 0), node))
    return nodes


def accepted_of_tree(nodes, text):
    node = accepted = 0
    while accepted < len(text) and (node, text[accepted]) in nodes:
        node = nodes[node, text[accepted]]
        accepted += 1
    return accepted


def accepted_of_chain(tokens, text):
    accepted = 0
    while accepted < len(tokens) and tokens[accepted][0] == text[accepted]:
        accepted += 1
    return accepted


@torch.no_grad()
def draft(target, drafter, tokens, anchors):
    """Candidates and their log-probabilities [batch, anchors, block - 1, CANDIDATES]."""
    shape = drafter.shape
    features, _ = taps_and_hidden(target, tokens, shape.taps)
    ids, positions = blocks(tokens, anchors, shape)
    hidden = drafter(features, target.model.embed_tokens(ids), positions, block_mask(anchors, tokens.shape[1], shape))
    hidden = hidden.unflatten(1, (anchors.shape[1], shape.block))[:, :, 1:]
    values, candidates = target.logits(hidden).log_softmax(-1).topk(CANDIDATES, -1)
    return candidates, values


def walk(text, start, candidates, values, accepted):
    """Rounds [(anchor, accepted)] from `start` until JUDGED_TOKENS are reached."""
    rounds, anchor = [], start
    while anchor < start + JUDGED_TOKENS - 1:
        n = anchor - start
        taken = accepted(candidates[n], values[n], text[anchor + 1:anchor + 1 + len(candidates[n])])
        rounds.append((anchor, taken))
        anchor += taken + 1
    return rounds


METHODS = {"chain_15": lambda tokens, values, text: accepted_of_chain(tokens, text)}
for _rows in TREES:
    METHODS[f"tree_{_rows}"] = lambda tokens, values, text, drafted=_rows - 1: accepted_of_tree(grow(values, tokens, drafted), text)


def judge(target, drafter, texts):
    """{method: {...}} of tokens a round over all rows, over the first and the second half of them, and over the rounds that start outside repetitions."""
    device = next(drafter.parameters()).device
    tokens = texts["tokens"].long().to(device)
    starts = texts["starts"].long().to(device)
    looping = texts["looping"].tolist()
    rounds = {method: [] for method in METHODS}   # (row, anchor, accepted)
    right = torch.zeros(drafter.shape.block - 1, device=device)
    for first in range(0, len(tokens), ROWS_AT_ONCE):
        some, begin = tokens[first:first + ROWS_AT_ONCE], starts[first:first + ROWS_AT_ONCE]
        anchors = begin[:, None] + torch.arange(JUDGED_TOKENS - 1, device=device)
        candidates, values = draft(target, drafter, some, anchors)
        following = some.gather(1, (anchors[..., None] + 1 + torch.arange(candidates.shape[2], device=device)).flatten(1)).view(candidates.shape[:3])
        right += (candidates[..., 0] == following).float().sum((0, 1))
        candidates, values = candidates.tolist(), values.tolist()
        for row, text in enumerate(some.tolist()):
            for method, accepted in METHODS.items():
                rounds[method] += [(first + row, *one) for one in walk(text, int(begin[row]), candidates[row], values[row], accepted)]

    def tokens_a_round(some):
        return round(1 + sum(accepted for _, _, accepted in some) / len(some), 4) if some else None

    result = {"rows": len(tokens), "right_by_distance": [round(x, 4) for x in (right / (len(tokens) * (JUDGED_TOKENS - 1))).tolist()]}
    for method, some in rounds.items():
        result[method] = {
            "tokens_a_round": tokens_a_round(some),
            "first_half": tokens_a_round([one for one in some if one[0] < len(tokens) // 2]),
            "second_half": tokens_a_round([one for one in some if one[0] >= len(tokens) // 2]),
            "outside_repetitions": tokens_a_round([one for one in some if not looping[one[0]][one[1]]]),
            "rounds": len(some),
        }
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("drafter", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    target = load_target(arguments.model, device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    texts = torch.load(arguments.texts)
    drafter = load_drafter(arguments.drafter, device)
    print(json.dumps({name: judge(target, drafter, texts[name]) for name in ("prompts", "held_out", "drawn")}, indent=1))


if __name__ == "__main__":
    main()
