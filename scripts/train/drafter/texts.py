#!/usr/bin/env python3
"""Step 1, on the GPU host: the texts the drafter learns from, written by the embedded model itself. No other text is read.

    texts.py MODEL PROMPTS TEXTS --rows N [--batches B]

Writes TEXTS (torch.save): under "train" what train_drafter.py learns from, under three other names what it is judged on and never learns from.
Every entry has tokens [rows, length] (int16), greedy and looping [rows, length] (bool: the token was the most likely one; it ends a repetition).

Training rows begin with <|endoftext|> and alternate between drawn stretches (temperature 1 or 0.7) and greedy ones: a drafter is used on greedy text
that follows something else, and one long greedy text would soon be a loop. The judged rows are one beginning and then greedy text
("prompts": the prompts of PROMPTS, decoded in FP32; "held_out": drawn beginnings), or all drawn at 0.8 ("drawn").
"""

import argparse
import json
import pathlib
import time

import torch

from decode import BatchDecoder
from target import load_target

LENGTH = 769                 # tokens a row; training drops the first or the last of them
DRAWN = 24, 160              # shortest and longest drawn stretch
GREEDY = 48, 200             # and greedy stretch
TEMPERATURES = 1.0, 0.7      # of drawn stretches, equally often
JUDGED_ROWS = 256
JUDGED_BEGINNING = 32, 200   # tokens drawn before the greedy text of held_out
JUDGED_TOKENS = 128          # tokens a judged text is decoded for
JUDGED_MARGIN = 16           # and further ones, so that the last round has something to be compared with
DRAWN_TEMPERATURE = 0.8      # of "drawn"
LONGEST_PERIOD = 64          # of a repetition
REPEATED = 32                # a token ends a repetition when it and the REPEATED - 1 before it (2 periods at least) equal those one period earlier
SEED = 20


def alternating_temperature(rows, length, generator, device):
    """[rows, length]: stretches of a positive temperature and of 0 in turn."""
    longest = -(-length // (DRAWN[0] + GREEDY[0])) + 1

    def lengths(bounds):
        return torch.randint(bounds[0], bounds[1] + 1, (rows, longest), device=device, generator=generator)

    stretches = torch.stack([lengths(DRAWN), lengths(GREEDY)], -1).flatten(1)
    ends = stretches.cumsum(-1)
    number = torch.searchsorted(ends, torch.arange(length, device=device).expand(rows, -1).contiguous(), right=True)
    drawn_at = torch.tensor(TEMPERATURES, device=device)[torch.randint(0, len(TEMPERATURES), ends.shape, device=device, generator=generator)]
    drawn_at[:, 1::2] = 0
    return drawn_at.gather(1, number)


def looping(tokens):
    """[rows, length] bool: where a repetition ends that has lasted for REPEATED tokens or two periods, whichever is more."""
    rows, length = tokens.shape
    place = torch.arange(length, device=tokens.device)
    result = torch.zeros(rows, length, dtype=torch.bool, device=tokens.device)
    for period in range(1, LONGEST_PERIOD + 1):
        differs = torch.ones(rows, length, dtype=torch.bool, device=tokens.device)
        differs[:, period:] = tokens[:, period:] != tokens[:, :-period]
        last_difference = torch.where(differs, place, -1).cummax(-1).values
        result |= place - last_difference >= max(REPEATED, 2 * period)
    return result


def entry(tokens, temperature, **more):
    return {"tokens": tokens.to(torch.int16).cpu(), "greedy": (temperature == 0).cpu(), "looping": looping(tokens).cpu(), **more}


def encode_prompts(folder, file):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(json.loads(line)["turns"][0]).ids for line in file.read_text().splitlines()]


def write_judged(model, device, beginnings, temperature_after):
    """beginnings: token lists, or (rows, [lengths]) to draw them at temperature 1 after <|endoftext|>."""
    drawn = isinstance(beginnings, torch.Tensor)
    lengths = beginnings if drawn else torch.tensor([len(ids) for ids in beginnings], device=device)
    rows, length = len(lengths), int(lengths.max()) + JUDGED_TOKENS + JUDGED_MARGIN
    forced = torch.full((rows, length), -1, device=device)
    if drawn:
        forced[:, 0] = 0
    else:
        for row, ids in enumerate(beginnings):
            forced[row, :len(ids)] = torch.tensor(ids, device=device)
    begun = torch.arange(length, device=device) >= lengths[:, None]
    temperature = torch.where(begun, temperature_after, 1.0)
    tokens = BatchDecoder(model, rows, length, device).write(forced, temperature)
    return entry(tokens, torch.where(begun, temperature, 1.0), starts=lengths.cpu())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("prompts", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=4096, help="written at once")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--judged-rows", type=int, default=JUDGED_ROWS)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.manual_seed(SEED)
    generator = torch.Generator(device).manual_seed(SEED)
    started = time.perf_counter()

    def report(name, texts):
        greedy, loops = texts["greedy"], texts["looping"]
        share = (loops & greedy).sum() / max(1, greedy.sum())
        print(f"{time.perf_counter() - started:.1f} s {name}: {tuple(texts['tokens'].shape)}, greedy {greedy.float().mean():.3f}, of these looping {share:.3f}",
              flush=True)

    texts = {}
    exact = load_target(arguments.model, device, torch.float32)
    texts["prompts"] = write_judged(exact, device, encode_prompts(arguments.model, arguments.prompts), 0.0)
    report("prompts", texts["prompts"])
    model = load_target(arguments.model, device, torch.bfloat16)
    lengths = torch.randint(*JUDGED_BEGINNING, (arguments.judged_rows,), device=device, generator=generator)
    for name, temperature in (("held_out", 0.0), ("drawn", DRAWN_TEMPERATURE)):
        texts[name] = write_judged(model, device, lengths, temperature)
        report(name, texts[name])

    decoder = BatchDecoder(model, arguments.rows, arguments.length, device)
    forced = torch.full((arguments.rows, arguments.length), -1, device=device)
    forced[:, 0] = 0
    batches = []
    for _ in range(arguments.batches):
        temperature = alternating_temperature(arguments.rows, arguments.length, generator, device)
        batches.append(entry(decoder.write(forced, temperature), temperature))
        report("train", batches[-1])
    texts["train"] = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
    torch.save(texts, arguments.texts.with_suffix(".part"))
    arguments.texts.with_suffix(".part").rename(arguments.texts)   # train_drafter.py may be waiting for it
    print(f"{time.perf_counter() - started:.1f} s {texts['train']['tokens'].numel()} tokens for training", flush=True)


if __name__ == "__main__":
    main()
