#!/usr/bin/env python3
"""Step 2, on the GPU host: trains block drafters on the texts of texts.py for a given number of seconds, and judges them.

    train_drafter.py MODEL TEXTS OUT --seconds S [--variants NAME ...]

Every step takes some texts, runs the target over them for taps and its own distributions, and trains every variant on the same blocks: [anchor, mask x 15] at
anchors chosen anew each time, each block seeing the context before its anchor only, as in use. The loss of a row is the cross-entropy to a mixture of
the target's distribution (given the true text) and its first choice; the share of the latter grows to one, since greedy decoding accepts nothing
else and the draft tree needs probabilities that mean that. Compiles first and then waits for TEXTS to appear, so it can be started beside texts.py.
OUT/VARIANT gets config.json and model.safetensors, OUT/VARIANT.json the figures.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F

from block_drafter import BlockDrafter, DrafterShape, block_mask, blocks, export, load_drafter
from simulate import judge
from target import compile_target, load_target, taps_and_hidden
from texts import LENGTH

from muon import Muon, split_parameters

VARIANTS = {"five-taps": DrafterShape()}   # a further shape goes here; all that are named on the command line see the same batches
TEXTS_A_STEP = 32
ANCHORS_A_TEXT = 96
FIRST_ANCHOR = 8            # no block starts with less context
DRAWN_WEIGHT = 0.15         # of an anchor some of whose following tokens were drawn, beside 1
LOOP_WEIGHT = 0.15          # of an anchor inside a repetition
DISTANCE = 5.0              # rows lose weight as exp(-distance / DISTANCE): a row counts only when all before it were right
SOFT_AT_START = 0.7         # weight of the target's distribution, falling to 0 with the progress
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.05
WARM_UP = 0.03              # share of the progress; then a cosine to zero
WARM_UP_STEPS = 2           # before the clock starts
LOG_EVERY = 200
SEED = 21


def anchor_weights(greedy, looping, block):
    """[rows, length] how often a position should be an anchor, relative to others."""
    length = greedy.shape[1]
    before = F.pad((~greedy).int().cumsum(-1), (1, 0))          # drawn tokens before a position
    place = torch.arange(length, device=greedy.device)
    last = (place + block).clamp(max=length)
    drawn_ahead = before[:, last] - before[:, place + 1]
    weights = torch.where(drawn_ahead > 0, DRAWN_WEIGHT, 1.0) * torch.where(looping, LOOP_WEIGHT, 1.0)
    weights[:, :FIRST_ANCHOR] = 0
    weights[:, length - block:] = 0
    return weights.half()


class BlockSampler:
    """Texts in random order, each epoch anew, with or without their first token; anchors by weight, without repetition in a text."""

    def __init__(self, texts, block, device):
        self.tokens = texts["tokens"].to(device)
        self.weights = torch.cat([anchor_weights(greedy.to(device), looping.to(device), block)
                                  for greedy, looping in zip(texts["greedy"].split(4096), texts["looping"].split(4096))])
        self.generator = torch.Generator(device).manual_seed(SEED)
        self.order = torch.empty(0, dtype=torch.int64, device=device)
        self.epochs = 0.0

    def next(self, count, anchors):
        if len(self.order) < count:
            self.order = torch.randperm(len(self.tokens), device=self.tokens.device, generator=self.generator)
        rows, self.order = self.order[:count], self.order[count:]
        self.epochs += count / len(self.tokens)
        first = int(len(self.order) // count % 2)
        window = slice(first, self.tokens.shape[1] - 1 + first)
        weights = self.weights[rows, window].float()
        noise = torch.empty_like(weights).exponential_(generator=self.generator)
        return self.tokens[rows, window].long(), (weights / noise).topk(anchors, -1).indices.sort(-1).values


def row_losses(hidden, head, expected_hidden, soft):
    """Cross-entropy [rows] of the drafter's rows, and whether their first choice is the target's."""
    ours = F.linear(hidden, head).float()
    theirs = F.linear(expected_hidden, head).float()
    best = theirs.argmax(-1)
    log_p = ours.log_softmax(-1)
    soft_loss = -(theirs.softmax(-1) * log_p).sum(-1)
    hard_loss = -log_p.gather(-1, best[:, None])[:, 0]
    return soft * soft_loss + (1 - soft) * hard_loss, ours.argmax(-1) == best


class Learner:
    """One variant in training."""

    def __init__(self, name, shape, device, compiled):
        torch.manual_seed(SEED)
        self.name = name
        self.drafter = BlockDrafter(shape).to(device)
        matrices, tables, vectors = split_parameters(self.drafter)
        if tables:
            raise RuntimeError("a drafter has matrices and vectors only")
        self.optimizers = [Muon(matrices, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY),
                           torch.optim.AdamW(vectors, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=device.type == "cuda")]
        self.row_losses = torch.compile(row_losses, dynamic=False) if compiled else row_losses
        if compiled:
            for layer in self.drafter.layers:
                layer.compile(dynamic=False)

    def gradients(self, batch, soft):
        """Leaves gradients; (loss, whether the first choices are right [blocks, block - 1])."""
        shape = self.drafter.shape
        features = batch.features[:, :, [batch.taps.index(tap) for tap in shape.taps]].flatten(2)
        hidden = self.drafter(features, batch.embedded, batch.positions, batch.mask).unflatten(1, (-1, shape.block))[:, :, 1:]
        loss, right = self.row_losses(hidden.flatten(0, 2).to(batch.head.dtype), batch.head, batch.expected, soft)
        weights = torch.exp(-torch.arange(shape.block - 1, device=loss.device) / DISTANCE)
        loss = (loss.view(-1, shape.block - 1).mean(0) * weights).sum() / weights.sum()
        loss.backward()
        return loss.detach(), right.view(-1, shape.block - 1)

    def update(self, rate):
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self.forget_gradients()

    def forget_gradients(self):
        self.drafter.zero_grad(set_to_none=True)


class Batch:
    """What every variant learns from in a step: blocks at `anchors`, the target's taps, and its hidden states where the rows' answers come from."""

    @torch.no_grad()
    def __init__(self, target, head, tokens, anchors, taps, shape):
        features, hidden = taps_and_hidden(target, tokens, taps)
        self.taps, self.head = taps, head
        self.features = features.unflatten(-1, (len(taps), -1))
        ids, self.positions = blocks(tokens, anchors, shape)
        self.mask = block_mask(anchors, tokens.shape[1], shape)
        self.embedded = target.model.embed_tokens(ids)
        before = self.positions.unflatten(1, (-1, shape.block))[:, :, :-1].flatten(1)   # what is at position t predicts t + 1
        self.expected = hidden.gather(1, before[..., None].expand(-1, -1, hidden.shape[-1])).flatten(0, 1).to(head.dtype)


def warm_up(learners, target, head, taps, arguments, device):
    """Compiles everything on tokens that mean nothing; no weight changes."""
    shape = learners[0].drafter.shape
    for _ in range(WARM_UP_STEPS):
        tokens = torch.randint(0, shape.vocabulary, (arguments.texts_a_step, arguments.length - 1), device=device)
        anchors = torch.rand(arguments.texts_a_step, arguments.length - 1 - shape.block, device=device).topk(arguments.anchors_a_text).indices
        batch = Batch(target, head, tokens, anchors.sort(-1).values.clamp_min(1), taps, shape)
        for learner in learners:
            learner.gradients(batch, torch.tensor(SOFT_AT_START, device=device))
            learner.forget_gradients()
    if device.type == "cuda":
        torch.cuda.synchronize()


def learning_rate(progress):
    if progress < WARM_UP:
        return LEARNING_RATE * (progress / WARM_UP + 0.005)
    return LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS)[:1], choices=list(VARIANTS))
    parser.add_argument("--texts-a-step", type=int, default=TEXTS_A_STEP)
    parser.add_argument("--anchors-a-text", type=int, default=ANCHORS_A_TEXT)
    parser.add_argument("--length", type=int, default=LENGTH, help="of the texts")
    parser.add_argument("--max-steps", type=int, default=10**9, help="stop early (trial runs)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_float32_matmul_precision("high")  # TF32 around the target's delta rule; the inverse has its own kernel
    arguments.out.mkdir(parents=True, exist_ok=True)
    entered = time.perf_counter()

    target = load_target(arguments.model, device, torch.bfloat16)
    head = target.lm_head.weight.to(torch.bfloat16)
    learners = [Learner(name, VARIANTS[name], device, not arguments.no_compile) for name in arguments.variants]
    taps = sorted({tap for learner in learners for tap in learner.drafter.shape.taps})
    shape = learners[0].drafter.shape
    if not arguments.no_compile:
        compile_target(target)
        warm_up(learners, target, head, taps, arguments, device)
        print(f"compiled after {time.perf_counter() - entered:.0f} s", flush=True)
    while not arguments.texts.exists():
        time.sleep(0.2)
    texts = torch.load(arguments.texts)
    sampler = BlockSampler(texts["train"], shape.block, device)

    started, progress, step = time.perf_counter(), 0.0, 0
    print(f"starts after {started - entered:.0f} s", flush=True)
    while progress < 1 and step < arguments.max_steps:
        progress = min(1.0, (time.perf_counter() - started) / arguments.seconds)
        soft = torch.tensor(SOFT_AT_START * (1 - progress), device=device)
        batch = Batch(target, head, *sampler.next(arguments.texts_a_step, arguments.anchors_a_text), taps, shape)
        step += 1
        for learner in learners:
            loss, right = learner.gradients(batch, soft)
            learner.update(learning_rate(progress))
            if step % LOG_EVERY == 0 or step in (1, 10, 50):  # waits for the device, so the host never runs far ahead
                if not math.isfinite(loss.item()):
                    raise RuntimeError("the loss is not finite")
                print(f"{step} {learner.name} progress {progress:.3f} loss {loss.item():.4f} first {right[:, 0].float().mean().item():.3f} "
                      f"accepted {right.cumprod(-1).sum(-1).float().mean().item():.3f}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{step} steps, {seconds / step * 1e3:.1f} ms each, {sampler.epochs:.2f} epochs", flush=True)
    training = {"steps": step, "seconds": round(seconds, 1), "blocks": step * arguments.texts_a_step * arguments.anchors_a_text,
                "texts": len(sampler.tokens), "text_tokens": sampler.tokens.numel(), "epochs": round(sampler.epochs, 2),
                "trained_beside": [learner.name for learner in learners]}
    judging_target = load_target(arguments.model, device, torch.bfloat16)  # not compiled: every set has its own shapes
    for learner in learners:
        folder = arguments.out / learner.name
        export(learner.drafter, folder)
        drafter = load_drafter(folder, device)   # what was exported, in BF16
        result = {"shape": dataclasses.asdict(drafter.shape), "parameters": sum(p.numel() for p in drafter.parameters()), "training": training,
                  "judged": {name: judge(judging_target, drafter, texts[name]) for name in ("prompts", "held_out", "drawn")},
                  "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU", "torch": torch.__version__}
        (arguments.out / f"{learner.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        for name, judged in result["judged"].items():
            print(learner.name, name, {method: one["tokens_a_round"] for method, one in judged.items() if isinstance(one, dict)},
                  {method: one["outside_repetitions"] for method, one in judged.items() if isinstance(one, dict)}, judged["right_by_distance"][:4],
                  flush=True)
    print(f"done after {time.perf_counter() - entered:.0f} s", flush=True)


if __name__ == "__main__":
    main()
