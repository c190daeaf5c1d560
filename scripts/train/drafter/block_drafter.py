"""The block drafter (public DFlash layout): a small bidirectional transformer that fills [anchor, mask, mask, ...] in one pass.

It borrows the target's embedding and head, and sees the past only as keys and values made from the target's taps. Parameter names are those of the
checkpoint. Residual stream and norms are FP32, matrix products run in the type of the features handed in (BF16 in training).
"""

import dataclasses
import json
import math

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import target  # noqa: F401  (puts scripts/train on the path)

from model import FeedForward, Linear, PlainNorm, _rotate

SINGLE = "model.safetensors"


@dataclasses.dataclass(frozen=True)
class DrafterShape:
    hidden: int = 256
    intermediate: int = 768
    layers: int = 2
    query_heads: int = 4
    key_value_heads: int = 1
    head_dim: int = 128
    taps: tuple = (1, 3, 4, 5, 6)
    target_layers: int = 8
    vocabulary: int = 4096
    block: int = 16
    mask_token: int = 3
    rope_theta: float = 1e7
    epsilon: float = 1e-6
    max_position: int = 8192


class BlockAttention(nn.Module):
    """Block rows attend to the context features and to each other; the same projections serve both."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        width, narrow = shape.query_heads * shape.head_dim, shape.key_value_heads * shape.head_dim
        self.q_proj = Linear(shape.hidden, width)
        self.k_proj = Linear(shape.hidden, narrow)
        self.v_proj = Linear(shape.hidden, narrow)
        self.o_proj = Linear(width, shape.hidden)
        self.q_norm = PlainNorm(shape.head_dim, shape.epsilon)
        self.k_norm = PlainNorm(shape.head_dim, shape.epsilon)

    def forward(self, n, context, angles, mask):
        shape = self.shape
        both = torch.cat([context, n], 1)
        rows = n.shape[1]
        cosine, sine = angles
        q = self.q_proj(n).unflatten(-1, (shape.query_heads, shape.head_dim))
        k = self.k_proj(both).unflatten(-1, (shape.key_value_heads, shape.head_dim))
        v = self.v_proj(both).unflatten(-1, (shape.key_value_heads, shape.head_dim)).transpose(1, 2)
        q = _rotate(self.q_norm(q), cosine[:, -rows:], sine[:, -rows:]).to(n.dtype).transpose(1, 2)
        k = _rotate(self.k_norm(k), cosine, sine).to(n.dtype).transpose(1, 2)
        repeats = shape.query_heads // shape.key_value_heads
        o = F.scaled_dot_product_attention(q, k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1), attn_mask=mask)
        return self.o_proj(o.transpose(1, 2).flatten(2))


class BlockLayer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.self_attn = BlockAttention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = PlainNorm(shape.hidden, shape.epsilon)
        self.post_attention_layernorm = PlainNorm(shape.hidden, shape.epsilon)

    def forward(self, x, context, angles, mask):
        x = x + self.self_attn(self.input_layernorm(x).to(context.dtype), context, angles, mask).float()
        return x + self.mlp(self.post_attention_layernorm(x).to(context.dtype)).float()


class BlockDrafter(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.fc = Linear(len(shape.taps) * shape.hidden, shape.hidden)
        self.hidden_norm = PlainNorm(shape.hidden, shape.epsilon)
        self.layers = nn.ModuleList([BlockLayer(shape) for _ in range(shape.layers)])
        self.norm = PlainNorm(shape.hidden, shape.epsilon)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                writes_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * shape.layers) if writes_residual else 0.02)
        nn.init.normal_(self.fc.weight, 0, (len(shape.taps) * shape.hidden) ** -0.5)

    def forward(self, features, embedded, positions, mask):
        """features [batch, context, taps * hidden] of positions 0, 1, ..; embedded [batch, rows, hidden] of several blocks one after the other, at
        positions [batch, rows]; mask [batch, 1, rows, context + rows], true where a row sees. Hidden states [batch, rows, hidden] for the head."""
        context = self.hidden_norm(self.fc(features)).to(features.dtype)
        batch, length = features.shape[:2]
        everywhere = torch.cat([torch.arange(length, device=positions.device).expand(batch, -1), positions], 1)
        half = self.shape.head_dim // 2
        frequency = self.shape.rope_theta ** -(torch.arange(half, device=positions.device).float() / half)
        angle = everywhere[:, :, None, None].float() * frequency
        angles = angle.cos(), angle.sin()
        x = embedded
        for layer in self.layers:
            x = layer(x, context, angles, mask)
        return self.norm(x)


def blocks(tokens, anchors, shape):
    """(ids, positions) [batch, anchors * block] of the blocks that start at anchors [batch, count]."""
    positions = (anchors[:, :, None] + torch.arange(shape.block, device=anchors.device)).flatten(1)
    ids = torch.full_like(positions, shape.mask_token)
    ids[:, ::shape.block] = tokens.gather(1, anchors)
    return ids, positions


def block_mask(anchors, context, shape):
    """[batch, 1, rows, context + rows]: a row sees the context before its anchor and the rows of its own block."""
    rows = anchors.shape[1] * shape.block
    anchor = anchors.repeat_interleave(shape.block, 1)
    before = torch.arange(context, device=anchors.device) < anchor[..., None]
    block = torch.arange(rows, device=anchors.device) // shape.block
    own = (block[:, None] == block).expand(len(anchors), -1, -1)
    return torch.cat([before, own], -1)[:, None]


def config(shape):
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.query_heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.epsilon,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "max_position_embeddings": shape.max_position,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "layer_types": ["full_attention"] * shape.layers,
        "sliding_window": None,
        "num_target_layers": shape.target_layers,
        "block_size": shape.block,
        "dflash_config": {"target_layer_ids": list(shape.taps), "mask_token_id": shape.mask_token},
    }


def shape_of(config):
    return DrafterShape(
        hidden=config["hidden_size"], intermediate=config["intermediate_size"], layers=config["num_hidden_layers"],
        query_heads=config["num_attention_heads"], key_value_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
        taps=tuple(config["dflash_config"]["target_layer_ids"]), target_layers=config["num_target_layers"], vocabulary=config["vocab_size"],
        block=config["block_size"], mask_token=config["dflash_config"]["mask_token_id"], rope_theta=config["rope_theta"],
        epsilon=config["rms_norm_eps"], max_position=config["max_position_embeddings"])


def export(drafter, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to(torch.bfloat16).cpu().contiguous() for name, tensor in drafter.state_dict().items()}
    save_file(tensors, folder / SINGLE, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config(drafter.shape), indent=1) + "\n")


def load_drafter(folder, device):
    drafter = BlockDrafter(shape_of(json.loads((folder / "config.json").read_text())))
    drafter.load_state_dict({name: tensor.float() for name, tensor in load_file(folder / SINGLE).items()})
    return drafter.to(device).requires_grad_(False)
