#!/usr/bin/env python3
"""Compares the step kernels of decode.py with the plain formulas, and a written text with the whole forward pass.

    check_decode.py MODEL

On a GPU. `TRITON_INTERPRET=1 check_decode.py MODEL` runs the kernels on a CPU, slowly.
"""

import pathlib
import sys

import torch

import decode
from target import load_target, taps_and_hidden

from model import ModelShape

ROWS = 3
STEPS = 40
TOLERANCE = 1e-4     # FP32 sums in another order, results of order one
TEXT = 192
AGREEMENT = 0.97     # of greedy tokens between BF16 decoding and the BF16 forward pass: near ties may fall either way


def random_step(shape, device, generator):
    channels = 2 * shape.linear_key_heads * shape.linear_key_dim + shape.linear_value_heads * shape.linear_value_dim
    width = channels + shape.linear_value_heads * (shape.linear_value_dim + 2)
    return torch.randn(ROWS, width, device=device, generator=generator)


def check_gdn(shape, device, generator, other_decay=False):
    """Largest difference over STEPS steps; other_decay gives the plain side another one, which must show."""
    heads, dim = shape.linear_value_heads, shape.linear_value_dim
    channels = 2 * shape.linear_key_heads * shape.linear_key_dim + heads * dim
    a_log = torch.rand(heads, device=device, generator=generator)
    vectors = [torch.randn(channels, decode.RING, device=device, generator=generator), a_log,
               torch.randn(heads, device=device, generator=generator), 1 + torch.rand(dim, device=device, generator=generator)]
    sides = []
    for _ in range(2):
        sides.append([torch.zeros(ROWS, decode.RING, channels, device=device), torch.zeros(ROWS, heads, dim, dim, device=device),
                      torch.full((ROWS, heads * dim), float("nan"), device=device)])
    step = torch.zeros(1, dtype=torch.int64, device=device)
    worst = 0.0
    for _ in range(STEPS):
        projected = random_step(shape, device, generator)
        ring, state, out = sides[0]
        decode._gdn_step_kernel[(ROWS * heads,)](projected, ring, *vectors, state, step, out, shape.linear_key_heads, heads, dim, shape.epsilon,
                                                 decode.RING, num_warps=8)
        ring, state, expected = sides[1]
        plain_vectors = [vectors[0], a_log + 0.5, *vectors[2:]] if other_decay else vectors
        decode.gdn_step_plain(projected, ring, *plain_vectors, state, step, expected, shape)
        worst = max(worst, (out - expected).abs().max().item(), (sides[0][1] - state).abs().max().item())
        step += 1
    return worst


def check_attention(shape, device, generator):
    length, worst = 2 * decode.KEY_BLOCK + 7, 0.0
    keys = torch.randn(ROWS, length, shape.head_dim, device=device, generator=generator)
    values = torch.randn(ROWS, length, shape.head_dim, device=device, generator=generator)
    for position in (0, 1, decode.KEY_BLOCK - 1, decode.KEY_BLOCK, length - 1):
        query = torch.randn(ROWS, shape.query_heads, shape.head_dim, device=device, generator=generator)
        step = torch.full((1,), position, dtype=torch.int64, device=device)
        out, expected = torch.full_like(query, float("nan")), torch.empty_like(query)
        decode._attend_kernel[(ROWS * shape.query_heads,)](query, keys, values, step, out, length, shape.query_heads, shape.head_dim, decode.KEY_BLOCK,
                                                           num_warps=4)
        decode.attend_plain(query, keys, values, step, expected)
        worst = max(worst, (out - expected).abs().max().item())
    return worst


def check_text(folder, device):
    model = load_target(folder, device, torch.bfloat16)
    forced = torch.full((8, TEXT), -1, device=device)
    forced[:, 0] = 0
    temperature = torch.zeros(8, TEXT, device=device)
    temperature[:, :TEXT // 2] = 1.0
    torch.manual_seed(7)
    tokens = decode.BatchDecoder(model, 8, TEXT, device).write(forced, temperature)
    best = model.logits(taps_and_hidden(model, tokens, [1])[1]).argmax(-1)
    return (best[:, TEXT // 2:-1] == tokens[:, TEXT // 2 + 1:]).float().mean().item()


def main(folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    shape = ModelShape()
    generator = torch.Generator(device).manual_seed(1)
    results = {"gdn step": check_gdn(shape, device, generator), "attention step": check_attention(shape, device, generator)}
    control = check_gdn(shape, device, generator, other_decay=True)
    agreement = check_text(folder, device)
    print({name: f"{value:.1e}" for name, value in results.items()}, f"control {control:.1e}", f"greedy agreement {agreement:.4f}", flush=True)
    if not max(results.values()) < TOLERANCE or not control > 100 * TOLERANCE or not agreement > AGREEMENT:
        raise SystemExit("decode.py is wrong")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
