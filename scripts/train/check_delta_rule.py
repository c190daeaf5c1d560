#!/usr/bin/env python3
"""Checks delta_rule.py against the token-by-token recurrence in FP64, outputs and gradients; on the GPU when there is one.

The keys of one stretch are equal, the case in which (I + A)^-1 is large and a careless inverse fails.
"""

import torch
import torch.nn.functional as F

from delta_rule import gated_delta_rule

BATCH, LENGTH, HEADS, KEY_DIM, VALUE_DIM = 2, 192, 3, 16, 32
TOLERANCE = 1e-5  # of the largest value, for FP32


def recurrence(q, k, v, beta, log_decay):
    state = torch.zeros(BATCH, HEADS, KEY_DIM, VALUE_DIM, dtype=q.dtype)
    outputs = []
    for t in range(LENGTH):
        state = state * log_decay[:, t].exp()[..., None, None]
        update = beta[:, t][..., None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * update[..., None, :]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1)


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = F.normalize(torch.randn(BATCH, LENGTH, HEADS, KEY_DIM), dim=-1)
    k = F.normalize(torch.randn(BATCH, LENGTH, HEADS, KEY_DIM), dim=-1)
    k[:, 10:80] = k[:, 10:11]
    v = torch.randn(BATCH, LENGTH, HEADS, VALUE_DIM)
    beta = torch.rand(BATCH, LENGTH, HEADS)
    log_decay = -0.1 * torch.rand(BATCH, LENGTH, HEADS)
    direction = torch.randn_like(v)
    results = []
    for function, place, dtype in ((gated_delta_rule, device, torch.float32), (recurrence, "cpu", torch.float64)):
        inputs = [x.to(place, dtype).detach().clone().requires_grad_() for x in (q, k, v, beta, log_decay)]
        output = function(*inputs)
        (output * direction.to(place, dtype)).sum().backward()
        results.append([output.detach(), *(x.grad for x in inputs)])
    for name, ours, wanted in zip(("output", "q", "k", "v", "beta", "log_decay"), *results):
        error = ((ours.cpu().double() - wanted).abs().max() / wanted.abs().max()).item()
        print(f"{name:10} largest error {error:.1e} of the largest value ({device})")
        if not error < TOLERANCE:
            raise SystemExit(f"error: the chunk form is wrong in {name}")


if __name__ == "__main__":
    main()
