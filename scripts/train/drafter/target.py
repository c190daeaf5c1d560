"""The embedded model as the drafter's training sees it: loading, and one forward pass that also gives the taps."""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from delta_rule import CHUNK  # noqa: E402  (the folder above is on the path only now)
from model import LanguageModel  # noqa: E402


def load_target(folder, device, compute_type):
    """The model of `folder` with its BF16 weights held in FP32; frozen."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors.update(load_file(folder / file))
    model = LanguageModel(compute_type=compute_type)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model.to(device).requires_grad_(False)


def compile_target(model):
    for layer in model.model.layers:
        layer.compile(dynamic=False)


@torch.no_grad()
def taps_and_hidden(model, tokens, taps):
    """(taps [batch, length, len(taps) * hidden] in the compute type, hidden [batch, length, hidden] after the final norm, FP32).

    Tap l is the residual stream after layer l, before any norm. Any length: what is added to reach whole chunks comes after and is cut off again.
    """
    length = tokens.shape[1]
    x = model.model.embed_tokens(torch.nn.functional.pad(tokens, (0, -length % CHUNK)))
    kept = {}
    for number, layer in enumerate(model.model.layers):
        x = layer(x)
        if number in taps:
            kept[number] = x.to(model.compute_type)
    return torch.cat([kept[tap] for tap in taps], -1)[:, :length], model.model.norm(x)[:, :length]
