#!/usr/bin/env python3
"""Step 5, on the GPU host: trains the model for a given number of seconds and leaves a checkpoint to go on from.

    train.py PACK STATE --seconds S --progress-to P [--parts N]

PACK is the folder encode.py wrote, STATE a folder for the checkpoint (state.pt) and the log. The learning rate follows the training's progress from
0 to 1; this call moves it from where the checkpoint stands to P in S seconds, so the schedule ends on time whatever the machine's speed. When P is 1 the
last weights are the result; before that, an average over the last thousand steps or so is better and is what model_for_export returns.
"""

import argparse
import io
import json
import lzma
import math
import pathlib
import time

import numpy
import torch

from model import LanguageModel
from muon import Muon, split_parameters

WINDOW = 2048                  # tokens a sequence; two more are read as targets
BATCH = 48                     # sequences a step: 98,304 tokens
MTP_WEIGHT = 0.3
LEARNING_RATE = 4e-3           # of every group; Muon's updates have the size of AdamW's
WEIGHT_DECAY = 0.1
WARM_UP = 0.02                 # share of the progress
HOLD_UNTIL = 0.35              # then a straight line to zero
AVERAGE_EVERY = 10
AVERAGE_KEEP = 0.99            # per update of the average: a horizon of a thousand steps
LOG_EVERY = 100
COMPILE_STEPS = 3              # steps before the clock starts


def read_tokens(path):
    return numpy.load(io.BytesIO(lzma.open(path).read()))


class WindowSampler:
    """Visits every window of the text once an epoch, in random order; each epoch cuts the text at another offset."""

    def __init__(self, tokens, device, seed):
        self.tokens = torch.from_numpy(tokens.astype(numpy.int32)).to(device)
        self.generator = torch.Generator().manual_seed(seed)
        self.span = torch.arange(WINDOW + 2, device=device)
        self.epoch = 0.0
        self.starts = torch.empty(0, dtype=torch.int64)

    def next(self, batch):
        if len(self.starts) < batch:
            phase = int(torch.randint(0, WINDOW, (1,), generator=self.generator))
            windows = (len(self.tokens) - phase - 2) // WINDOW
            self.starts = (torch.randperm(windows, generator=self.generator) * WINDOW + phase).to(self.tokens.device)
            self.step_share = batch / windows
        chosen, self.starts = self.starts[:batch], self.starts[batch:]
        self.epoch += self.step_share
        return self.tokens[chosen[:, None] + self.span].long()


def learning_rate(progress):
    if progress < WARM_UP:
        return LEARNING_RATE * (progress / WARM_UP + 0.005)
    if progress < HOLD_UNTIL:
        return LEARNING_RATE
    return LEARNING_RATE * max(0.0, (1 - progress) / (1 - HOLD_UNTIL))


def compile_model(model):
    for layer in [*model.model.layers, *model.mtp.layers]:
        layer.compile(dynamic=False)
    model.token_loss = torch.compile(model.token_loss, dynamic=False)


def evaluate(model, pack, device):
    """{kind: bits a byte} over whole windows of the held-out text; a separator counts as one byte."""
    encoding = json.loads((pack / "encoding.json").read_text())
    result = {}
    with torch.no_grad():
        for kind in ("held-code", "held-prose"):
            tokens = torch.from_numpy(read_tokens(pack / f"{kind}.npy.xz").astype(numpy.int64))
            windows = (len(tokens) - 1) // WINDOW
            nats = 0.0
            for first in range(0, windows, BATCH):
                rows = [tokens[i * WINDOW:i * WINDOW + WINDOW + 1] for i in range(first, min(first + BATCH, windows))]
                batch = torch.stack(rows).to(device)
                nats += model.token_loss(model.hidden(batch[:, :-1]), batch[:, 1:]).item() * len(rows) * WINDOW
            bytes_a_token = encoding[kind]["bytes"] / encoding[kind]["tokens"]
            result[kind] = nats / math.log(2) / (windows * WINDOW * bytes_a_token)
    return result


def plain_copy(model, tensors):
    """An uncompiled model with the given weights: evaluation has other shapes, and compiling for them would take longer than running."""
    copy = LanguageModel(model.shape, model.compute_type).to(next(model.parameters()).device)
    copy.load_state_dict(tensors)
    return copy


def model_for_export(state_folder, device="cpu", compute_type=torch.float32):
    """The result of training so far: last weights of a finished schedule, else the running average."""
    state = torch.load(state_folder / "state.pt", map_location=device)
    model = LanguageModel(compute_type=compute_type).to(device)
    model.load_state_dict(state["model"] if state["progress"] >= 1 else state["average"])
    return model, {key: state[key] for key in ("progress", "steps", "tokens_seen", "seconds", "epochs")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("state", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--progress-to", type=float, default=1.0)
    parser.add_argument("--parts", type=int, nargs="+", default=[0], help="which train-N files of the pack to use")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--max-steps", type=int, default=10**9, help="stop early (trial runs)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    arguments.state.mkdir(parents=True, exist_ok=True)
    device = torch.device(arguments.device)
    torch.set_float32_matmul_precision("high")  # TF32 around the delta rule; the inverse has its own kernel
    torch.manual_seed(0)

    model = LanguageModel().to(device)
    matrices, tables, vectors = split_parameters(model)
    optimizers = [
        Muon(matrices, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        torch.optim.AdamW([{"params": tables, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
                          lr=LEARNING_RATE, betas=(0.9, 0.95), fused=True),
    ]
    done = {"progress": 0.0, "steps": 0, "tokens_seen": 0, "seconds": 0.0, "epochs": 0.0}
    average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    state_file = arguments.state / "state.pt"
    if state_file.exists():
        state = torch.load(state_file, map_location=device)
        model.load_state_dict(state["model"])
        average = state["average"]
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        done = {key: state[key] for key in done}
        print(f"goes on at progress {done['progress']:.3f}, step {done['steps']}", flush=True)
    sampler = WindowSampler(numpy.concatenate([read_tokens(arguments.pack / f"train-{n}.npy.xz") for n in arguments.parts]),
                            device, seed=1000 + done["steps"])
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(sampler.tokens)} training tokens", flush=True)
    if not arguments.no_compile:
        compile_model(model)

    average_tensors = list(average.values())
    live_tensors = [tensor.detach() for tensor in model.state_dict().values()]
    start_progress = progress = done["progress"]
    entered = time.perf_counter()
    started = None
    step = 0
    while progress < arguments.progress_to and step < arguments.max_steps:
        if step == COMPILE_STEPS:
            if device.type == "cuda":
                torch.cuda.synchronize()
            started = time.perf_counter()
            print(f"compiled in {started - entered:.0f} s", flush=True)
        elapsed = time.perf_counter() - started if started else 0.0
        progress = min(arguments.progress_to, start_progress + (arguments.progress_to - start_progress) * elapsed / arguments.seconds)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(progress)
        next_loss, mtp_loss = model.losses(sampler.next(arguments.batch))
        (next_loss + MTP_WEIGHT * mtp_loss).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % AVERAGE_EVERY == 0:
            torch._foreach_lerp_(average_tensors, live_tensors, 1 - AVERAGE_KEEP)
        if step % LOG_EVERY == 0 or step in (1, 10, 30):
            values = next_loss.item(), mtp_loss.item(), norm.item()  # waits for the device, so the host never runs far ahead
            rate = (step - COMPILE_STEPS) * arguments.batch * WINDOW / (time.perf_counter() - started) if started else 0
            print(f"{done['steps'] + step} progress {progress:.3f} loss %.4f mtp %.4f norm %.2f tokens/s {rate:.0f}" % values, flush=True)
            if not math.isfinite(values[0]):
                raise RuntimeError("the loss is not finite")
    done = {"progress": progress, "steps": done["steps"] + step, "tokens_seen": done["tokens_seen"] + step * arguments.batch * WINDOW,
            "seconds": done["seconds"] + time.perf_counter() - (started or entered), "epochs": done["epochs"] + sampler.epoch}
    torch.save({"model": model.state_dict(), "average": average, "optimizers": [o.state_dict() for o in optimizers], **done}, state_file)
    print(json.dumps(done), flush=True)
    print("held out, last weights:", evaluate(plain_copy(model, model.state_dict()), arguments.pack, device), flush=True)
    print("held out, averaged:", evaluate(plain_copy(model, average), arguments.pack, device), flush=True)


if __name__ == "__main__":
    main()
