#!/usr/bin/env python3
"""Step 3, on any machine: writes the golden that the engine's block drafter is tested against.

    golden.py MODEL DRAFTER OUT.safetensors

One block of the drafter, computed by block_hidden() below: written from the description of the layout (taps -> fc -> norm -> keys and values; block rows
see the whole context and each other) in FP64 NumPy over the BF16 weights, sharing nothing with the program that trained them. The taps come from
the training program's target in FP32, rounded to BF16, and are part of the file, so the test needs no target.

    input_ids         [C + 1] I32  the context and the anchor, which is the target's first choice after it
    context_features  [C, taps * hidden] F32, values representable in BF16
    block_embeddings  [block, hidden] F32  the target's embeddings of the anchor and the mask tokens
    context           [C, hidden] F32      after fc and hidden_norm
    output_hidden     [block, hidden] F32  after the drafter's last norm
    draft_tokens      [block - 1] I32      first choice of rows 1.. by the target's head
    draft_margins     [block - 1] F32      its logit less the second's
"""

import json
import pathlib
import sys

import numpy
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file

from target import load_target, taps_and_hidden

TEXT = ("The server reads its configuration from a file. Every line of the file holds one option, its name first and then its value. "
        "If an option is not given, the default value is used.")
CONTEXT = 39   # of its tokens: there no row's first choice is a near tie (smallest margin 0.2), so a test may compare all of them


def block_hidden(weights, config, features, embedded):
    """(context features after fc and norm, hidden states of the block's rows) for a block right after the context."""
    epsilon, heads, kv_heads = config["rms_norm_eps"], config["num_attention_heads"], config["num_key_value_heads"]
    dim, theta = config["head_dim"], config["rope_theta"]

    def norm(x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights[name + ".weight"]

    def product(x, name):
        return x @ weights[name + ".weight"].T

    def rotate(x, first):
        angle = (first + numpy.arange(len(x)))[:, None] * theta ** (-2.0 * numpy.arange(dim // 2) / dim)
        cosine, sine = numpy.cos(angle)[:, None], numpy.sin(angle)[:, None]
        low, high = x[..., :dim // 2], x[..., dim // 2:]
        return numpy.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)

    context = norm(product(features, "fc"), "hidden_norm")
    count, x = len(features), embedded
    for number in range(config["num_hidden_layers"]):
        layer = f"layers.{number}."
        n = norm(x, layer + "input_layernorm")
        split = {part: [product(source, f"{layer}self_attn.{part}_proj").reshape(len(source), -1, dim) for source in (context, n)] for part in "kv"}
        q = rotate(norm(product(n, layer + "self_attn.q_proj").reshape(len(n), heads, dim), layer + "self_attn.q_norm"), count)
        keys = numpy.concatenate([rotate(norm(k, layer + "self_attn.k_norm"), first) for k, first in zip(split["k"], (0, count))])
        values = numpy.concatenate(split["v"])
        mixed = []
        for head in range(heads):
            own = head // (heads // kv_heads)
            scores = q[:, head] @ keys[:, own].T / numpy.sqrt(dim)
            shares = numpy.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(shares / shares.sum(-1, keepdims=True) @ values[:, own])
        x = x + product(numpy.concatenate(mixed, -1), layer + "self_attn.o_proj")
        n = norm(x, layer + "post_attention_layernorm")
        gate = product(n, layer + "mlp.gate_proj")
        x = x + product(gate / (1 + numpy.exp(-gate)) * product(n, layer + "mlp.up_proj"), layer + "mlp.down_proj")
    return context, norm(x, "norm")


def main(folder, drafter, out):
    from tokenizers import Tokenizer
    target = load_target(folder, "cpu", torch.float32)
    config = json.loads((drafter / "config.json").read_text())
    weights = {name: tensor.double().numpy() for name, tensor in load_file(drafter / "model.safetensors").items()}
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids[:CONTEXT]
    if len(ids) < CONTEXT:
        raise RuntimeError(f"the text has {len(ids)} tokens only")
    features, hidden = taps_and_hidden(target, torch.tensor([ids]), config["dflash_config"]["target_layer_ids"])
    features = features[0].bfloat16().float()
    anchor = int(target.logits(hidden)[0, -1].argmax())
    block = [anchor] + [config["dflash_config"]["mask_token_id"]] * (config["block_size"] - 1)
    embedded = target.model.embed_tokens.weight[block]
    context, output = block_hidden(weights, config, features.double().numpy(), embedded.double().numpy())
    logits = output[1:] @ target.lm_head.weight.double().numpy().T
    two = numpy.sort(logits, -1)[:, -2:]
    save_file({
        "input_ids": numpy.array(ids + [anchor], numpy.int32),
        "context_features": features.numpy(),
        "block_embeddings": embedded.numpy(),
        "context": context.astype(numpy.float32),
        "output_hidden": output.astype(numpy.float32),
        "draft_tokens": logits.argmax(-1).astype(numpy.int32),
        "draft_margins": (two[:, 1] - two[:, 0]).astype(numpy.float32),
    }, out)
    print(f"smallest margin {(two[:, 1] - two[:, 0]).min():.3f}")
    compare_with_training(drafter, features, embedded, output)


def compare_with_training(folder, features, embedded, output):
    """The module that was trained must agree in FP32, or what was trained is not what the specification says."""
    from block_drafter import block_mask, load_drafter
    drafter = load_drafter(folder, "cpu")
    rows = torch.arange(len(embedded))
    mask = block_mask(torch.tensor([[len(features)]]), len(features), drafter.shape)
    ours = drafter(features[None], embedded[None], (len(features) + rows)[None], mask)[0]
    difference = (ours.double() - torch.from_numpy(output)).abs().max().item()
    print(f"the trained module differs by {difference:.1e}; largest value {abs(output).max():.1f}")
    if not difference < 1e-4:
        raise SystemExit("the trained module and the specification disagree")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
