"""The embedded model for training: Qwen3.5 dense hybrid (Gated DeltaNet and full attention), with its MTP head.

Parameter names are those of the Hugging Face checkpoint, so exporting is a cast. The residual stream, norms, the delta rule and the losses
are FP32; matrix products run in the compute type handed to LanguageModel (BF16 in training, FP32 in checks).
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

from delta_rule import CHUNK, gated_delta_rule


@dataclasses.dataclass(frozen=True)
class ModelShape:
    vocabulary: int = 4096
    hidden: int = 256
    layers: int = 8
    intermediate: int = 768
    query_heads: int = 2
    key_value_heads: int = 1
    head_dim: int = 256
    rotary_dims: int = 64
    rope_theta: float = 1e7
    linear_key_heads: int = 2
    linear_value_heads: int = 4
    linear_key_dim: int = 128
    linear_value_dim: int = 128
    convolution_kernel: int = 4
    full_attention_interval: int = 4
    epsilon: float = 1e-6

    def is_full_attention(self, layer):
        return (layer + 1) % self.full_attention_interval == 0


class Linear(nn.Module):
    """y = W x, the weight kept in FP32 and cast to the type of x."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class CenteredNorm(nn.Module):
    """RMS norm with the gain stored as its distance from one; FP32 out."""

    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.epsilon = epsilon

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * (1 + self.weight)


class PlainNorm(nn.Module):
    """RMS norm with a plain gain; FP32 out."""

    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


class CausalConvolution(nn.Module):
    """Depthwise causal convolution over time, written as shifted products so that it fuses with its neighbours."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, kernel))
        nn.init.uniform_(self.weight, -kernel ** -0.5, kernel ** -0.5)
        self.kernel = kernel

    def forward(self, x):
        length = x.shape[1]
        padded = F.pad(x.float(), (0, 0, self.kernel - 1, 0))
        return sum(padded[:, j:j + length] * self.weight[:, 0, j] for j in range(self.kernel))


class GatedDeltaNet(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.key_width = shape.linear_key_heads * shape.linear_key_dim
        self.value_width = shape.linear_value_heads * shape.linear_value_dim
        channels = 2 * self.key_width + self.value_width
        self.in_proj_qkv = Linear(shape.hidden, channels)
        self.in_proj_z = Linear(shape.hidden, self.value_width)
        self.in_proj_b = Linear(shape.hidden, shape.linear_value_heads)
        self.in_proj_a = Linear(shape.hidden, shape.linear_value_heads)
        self.conv1d = CausalConvolution(channels, shape.convolution_kernel)
        self.A_log = nn.Parameter(torch.log(torch.empty(shape.linear_value_heads).uniform_(1, 16)))
        # Step sizes between 0.001 and 0.1, log-uniform; dt_bias is their inverse softplus.
        step = torch.exp(torch.rand(shape.linear_value_heads) * math.log(100) + math.log(1e-3))
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = PlainNorm(shape.linear_value_dim, shape.epsilon)
        self.out_proj = Linear(self.value_width, shape.hidden)

    def forward(self, h):
        shape = self.shape
        batch, length, _ = h.shape
        mixed = F.silu(self.conv1d(self.in_proj_qkv(h)))
        q, k, v = mixed.split([self.key_width, self.key_width, self.value_width], -1)
        repeats = shape.linear_value_heads // shape.linear_key_heads
        q = _unit(q.view(batch, length, shape.linear_key_heads, -1)).repeat_interleave(repeats, 2) * shape.linear_key_dim ** -0.5
        k = _unit(k.view(batch, length, shape.linear_key_heads, -1)).repeat_interleave(repeats, 2)
        v = v.view(batch, length, shape.linear_value_heads, -1)
        beta = torch.sigmoid(self.in_proj_b(h).float())
        log_decay = -torch.exp(self.A_log) * F.softplus(self.in_proj_a(h).float() + self.dt_bias)
        o = gated_delta_rule(q, k, v, beta, log_decay)
        z = self.in_proj_z(h).view(batch, length, shape.linear_value_heads, -1).float()
        return self.out_proj((self.norm(o) * F.silu(z)).flatten(2).to(h.dtype))


def _unit(x):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


class FullAttention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        width = shape.query_heads * shape.head_dim
        self.q_proj = Linear(shape.hidden, 2 * width)
        self.k_proj = Linear(shape.hidden, shape.key_value_heads * shape.head_dim)
        self.v_proj = Linear(shape.hidden, shape.key_value_heads * shape.head_dim)
        self.o_proj = Linear(width, shape.hidden)
        self.q_norm = CenteredNorm(shape.head_dim, shape.epsilon)
        self.k_norm = CenteredNorm(shape.head_dim, shape.epsilon)

    def forward(self, h):
        shape = self.shape
        batch, length, _ = h.shape
        q, gate = self.q_proj(h).view(batch, length, shape.query_heads, 2 * shape.head_dim).split(shape.head_dim, -1)
        k = self.k_proj(h).view(batch, length, shape.key_value_heads, shape.head_dim)
        v = self.v_proj(h).view(batch, length, shape.key_value_heads, shape.head_dim)
        cosine, sine = self._angles(length, h.device)
        q = _rotate(self.q_norm(q), cosine, sine).to(h.dtype).transpose(1, 2)
        k = _rotate(self.k_norm(k), cosine, sine).to(h.dtype).transpose(1, 2)
        repeats = shape.query_heads // shape.key_value_heads
        k = k.repeat_interleave(repeats, 1)
        v = v.transpose(1, 2).repeat_interleave(repeats, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj((o.float() * torch.sigmoid(gate.float())).flatten(2).to(h.dtype))

    def _angles(self, length, device):
        rotary = self.shape.rotary_dims
        frequency = self.shape.rope_theta ** -(torch.arange(0, rotary, 2, device=device).float() / rotary)
        angles = torch.arange(length, device=device).float()[:, None] * frequency
        return angles.cos()[:, None], angles.sin()[:, None]


def _rotate(x, cosine, sine):
    """Rotates the leading dims: dim i pairs with dim i + half, where half is the number of angles."""
    half = cosine.shape[-1]
    first, second, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = Linear(shape.hidden, shape.intermediate)
        self.up_proj = Linear(shape.hidden, shape.intermediate)
        self.down_proj = Linear(shape.intermediate, shape.hidden)

    def forward(self, h):
        return self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Layer(nn.Module):
    def __init__(self, shape, full_attention, compute_type):
        super().__init__()
        if full_attention:
            self.self_attn = FullAttention(shape)
        else:
            self.linear_attn = GatedDeltaNet(shape)
        self.full_attention = full_attention
        self.mlp = FeedForward(shape)
        self.input_layernorm = CenteredNorm(shape.hidden, shape.epsilon)
        self.post_attention_layernorm = CenteredNorm(shape.hidden, shape.epsilon)
        self.compute_type = compute_type

    def forward(self, x):
        h = self.input_layernorm(x).to(self.compute_type)
        x = x + (self.self_attn(h) if self.full_attention else self.linear_attn(h)).float()
        return x + self.mlp(self.post_attention_layernorm(x).to(self.compute_type)).float()


class MtpHead(nn.Module):
    """Predicts one token further, from the hidden state at i and the token at i + 1."""

    def __init__(self, shape, compute_type):
        super().__init__()
        self.fc = Linear(2 * shape.hidden, shape.hidden)
        self.layers = nn.ModuleList([Layer(shape, True, compute_type)])
        self.norm = CenteredNorm(shape.hidden, shape.epsilon)
        self.pre_fc_norm_embedding = CenteredNorm(shape.hidden, shape.epsilon)
        self.pre_fc_norm_hidden = CenteredNorm(shape.hidden, shape.epsilon)
        self.compute_type = compute_type

    def forward(self, embedding, hidden):
        joined = torch.cat([self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)], -1)
        return self.norm(self.layers[0](self.fc(joined.to(self.compute_type)).float()))


class Body(nn.Module):
    def __init__(self, shape, compute_type):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList([Layer(shape, shape.is_full_attention(i), compute_type) for i in range(shape.layers)])
        self.norm = CenteredNorm(shape.hidden, shape.epsilon)


class LanguageModel(nn.Module):
    """Lengths handed in must be multiples of the chunk of the delta rule (CHUNK tokens)."""

    def __init__(self, shape=ModelShape(), compute_type=torch.bfloat16):
        super().__init__()
        self.shape = shape
        self.compute_type = compute_type
        self.model = Body(shape, compute_type)
        self.lm_head = Linear(shape.hidden, shape.vocabulary)
        self.mtp = MtpHead(shape, compute_type)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                writes_residual = name.endswith(("o_proj.weight", "down_proj.weight", "out_proj.weight"))
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * shape.layers) if writes_residual else 0.02)
        nn.init.normal_(self.model.embed_tokens.weight, 0, 0.5)

    def hidden(self, tokens):
        """Hidden states after the final norm, FP32 [batch, length, hidden]."""
        if tokens.shape[1] % CHUNK:
            raise ValueError(f"length {tokens.shape[1]} is not a multiple of {CHUNK}")
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return self.model.norm(x)

    def logits(self, hidden):
        return self.lm_head(hidden.to(self.compute_type)).float()

    def losses(self, tokens):
        """(next-token loss, MTP loss) in nats a token of tokens [batch, length + 2]."""
        hidden = self.hidden(tokens[:, :-2])
        further = self.mtp(self.model.embed_tokens(tokens[:, 1:-1]), hidden)
        return self.token_loss(hidden, tokens[:, 1:-1]), self.token_loss(further, tokens[:, 2:])

    def token_loss(self, hidden, targets):
        return F.cross_entropy(self.logits(hidden).flatten(0, 1), targets.flatten())
