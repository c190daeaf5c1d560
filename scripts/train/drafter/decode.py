"""Writes many texts at once with the embedded model: one token a step for thousands of rows, recurrent state and KV cache kept.

The chunk form of model.py is for whole texts; here the delta rule runs as the recurrence that defines it. On a GPU the two steps that read the
state and the cache are Triton kernels and a whole step is one CUDA graph; elsewhere the same formulas run as plain PyTorch, which is
also what check_decode.py compares the kernels with.
"""

import torch
import torch.nn.functional as F

import target  # noqa: F401  (puts scripts/train on the path)

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU-only installs of PyTorch
    triton = None

RING = 4         # convolution inputs kept a channel: the current one and the three before it
KEY_BLOCK = 32   # cached positions a pass of the attention kernel's loop
WARM_UP_STEPS = 3
SMALLEST = 1e-20  # of the exponential draws, before their logarithm

if triton is not None:
    @triton.jit
    def _convolved(projected, ring, weights, channels, slot, CHANNELS: tl.constexpr, RING: tl.constexpr):
        """Causal convolution and SiLU of some channels of one row; leaves the current input in the ring."""
        current = tl.load(projected + channels)
        tl.store(ring + slot * CHANNELS + channels, current)
        y = tl.load(weights + channels * RING + RING - 1) * current.to(tl.float32)
        for back in tl.static_range(1, RING):
            before = tl.load(ring + (slot + RING - back) % RING * CHANNELS + channels).to(tl.float32)
            y += tl.load(weights + channels * RING + RING - 1 - back) * before
        return y * tl.sigmoid(y)

    @triton.jit
    def _gdn_step_kernel(projected, ring, convolution, a_log, dt_bias, gain, state, step, out, KEY_HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr,
                         DIM: tl.constexpr, EPSILON: tl.constexpr, RING: tl.constexpr):
        """One program a row and value head. projected is [rows, q | k | v | z | b | a]; both value heads of a key head store the same ring inputs."""
        row = tl.program_id(0) // VALUE_HEADS
        head = tl.program_id(0) % VALUE_HEADS
        CHANNELS: tl.constexpr = (2 * KEY_HEADS + VALUE_HEADS) * DIM
        GATE: tl.constexpr = CHANNELS + VALUE_HEADS * DIM
        lane = tl.arange(0, DIM)
        key_head = head // (VALUE_HEADS // KEY_HEADS)
        slot = (tl.load(step) % RING).to(tl.int32)
        projected += row * (GATE + 2 * VALUE_HEADS)
        ring += row * RING * CHANNELS
        q = _convolved(projected, ring, convolution, key_head * DIM + lane, slot, CHANNELS, RING)
        k = _convolved(projected, ring, convolution, (KEY_HEADS + key_head) * DIM + lane, slot, CHANNELS, RING)
        v = _convolved(projected, ring, convolution, (2 * KEY_HEADS + head) * DIM + lane, slot, CHANNELS, RING)
        q *= tl.rsqrt(tl.sum(q * q, 0) + 1e-6) * (DIM ** -0.5)
        k *= tl.rsqrt(tl.sum(k * k, 0) + 1e-6)
        z = tl.load(projected + CHANNELS + head * DIM + lane).to(tl.float32)
        beta = tl.sigmoid(tl.load(projected + GATE + head).to(tl.float32))
        a = tl.load(projected + GATE + VALUE_HEADS + head).to(tl.float32) + tl.load(dt_bias + head)
        softplus = tl.where(a > 20, a, tl.log(1 + tl.exp(a)))
        decay = tl.exp(-tl.exp(tl.load(a_log + head)) * softplus)
        place = state + tl.program_id(0).to(tl.int64) * DIM * DIM + lane[:, None] * DIM + lane[None, :]
        s = tl.load(place) * decay
        u = beta * (v - tl.sum(s * k[:, None], 0))
        s += k[:, None] * u[None, :]
        tl.store(place, s)
        o = tl.sum(s * q[:, None], 0)
        o *= tl.rsqrt(tl.sum(o * o, 0) / DIM + EPSILON) * tl.load(gain + lane) * z * tl.sigmoid(z)
        tl.store(out + tl.program_id(0) * DIM + lane, o)

    @triton.jit
    def _attend_kernel(query, keys, values, step, out, LENGTH: tl.constexpr, HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):
        """One program a row and query head over positions 0..step of the row's cache (one key-value head)."""
        row = (tl.program_id(0) // HEADS).to(tl.int64)
        lane = tl.arange(0, DIM)
        count = (tl.load(step) + 1).to(tl.int32)
        q = tl.load(query + tl.program_id(0) * DIM + lane).to(tl.float32) * (DIM ** -0.5)
        largest = tl.full([1], -1e30, tl.float32)
        total = tl.zeros([1], tl.float32)
        mixed = tl.zeros([DIM], tl.float32)
        for first in range(0, count, BLOCK):
            position = first + tl.arange(0, BLOCK)
            place = (row * LENGTH + position[:, None]) * DIM + lane[None, :]
            known = position < count
            k = tl.load(keys + place, mask=known[:, None], other=0).to(tl.float32)
            score = tl.where(known, tl.sum(k * q[None, :], 1), -1e30)
            highest = tl.maximum(largest, tl.max(score, 0))
            shrink = tl.exp(largest - highest)
            weight = tl.exp(score - highest)
            v = tl.load(values + place, mask=known[:, None], other=0).to(tl.float32)
            mixed = mixed * shrink + tl.sum(weight[:, None] * v, 0)
            total = total * shrink + tl.sum(weight, 0)
            largest = highest
        tl.store(out + tl.program_id(0) * DIM + lane, mixed / total)


def gdn_step_plain(projected, ring, convolution, a_log, dt_bias, gain, state, step, out, shape):
    """What _gdn_step_kernel does: advances ring and state by one token, leaves the gated output [rows, value heads * dim] in out."""
    rows = projected.shape[0]
    dim, value_heads, key_width = shape.linear_value_dim, shape.linear_value_heads, shape.linear_key_heads * shape.linear_key_dim
    channels = convolution.shape[0]
    inputs, z, b, a = projected.split([channels, value_heads * dim, value_heads, value_heads], -1)
    slot = int(step) % RING
    ring[:, slot] = inputs
    oldest_first = ring[:, [(slot + 1 + i) % RING for i in range(RING)]].float()
    y = F.silu((oldest_first * convolution.T).sum(1))
    q, k, v = y.split([key_width, key_width, value_heads * dim], -1)
    repeats = value_heads // shape.linear_key_heads

    def unit(x):
        x = x.view(rows, shape.linear_key_heads, -1)
        return (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)).repeat_interleave(repeats, 1)

    q, k, v = unit(q) * shape.linear_key_dim ** -0.5, unit(k), v.view(rows, value_heads, dim)
    decay = torch.exp(-torch.exp(a_log) * F.softplus(a.float() + dt_bias))
    state *= decay[..., None, None]
    u = torch.sigmoid(b.float())[..., None] * (v - torch.einsum("rhkv,rhk->rhv", state, k))
    state += k[..., None] * u[..., None, :]
    o = torch.einsum("rhkv,rhk->rhv", state, q)
    o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + shape.epsilon) * gain * F.silu(z.float()).view(rows, value_heads, dim)
    out.copy_(o.flatten(1))


def gdn_step(projected, ring, convolution, a_log, dt_bias, gain, state, step, out, shape):
    if not projected.is_cuda:
        gdn_step_plain(projected, ring, convolution, a_log, dt_bias, gain, state, step, out, shape)
        return
    _gdn_step_kernel[(projected.shape[0] * shape.linear_value_heads,)](
        projected, ring, convolution, a_log, dt_bias, gain, state, step, out, shape.linear_key_heads, shape.linear_value_heads,
        shape.linear_value_dim, shape.epsilon, RING, num_warps=8)


def attend_plain(query, keys, values, step, out):
    """query [rows, heads, dim], keys and values [rows, length, dim] of one key-value head."""
    count = int(step) + 1
    score = torch.einsum("rhd,rpd->rhp", query.float(), keys[:, :count].float()) * query.shape[-1] ** -0.5
    out.copy_(torch.einsum("rhp,rpd->rhd", score.softmax(-1), values[:, :count].float()))


def attend(query, keys, values, step, out):
    if not query.is_cuda:
        attend_plain(query, keys, values, step, out)
        return
    rows, heads, dim = query.shape
    _attend_kernel[(rows * heads,)](query, keys, values, step, out, keys.shape[1], heads, dim, KEY_BLOCK, num_warps=4)


def _centered_norm(norm):
    gain = 1 + norm.weight
    return lambda x: F.rms_norm(x.float(), gain.shape, gain, norm.epsilon)


class _FeedForwardStep:
    def __init__(self, layer, dtype):
        self.norm = _centered_norm(layer.post_attention_layernorm)
        self.up = torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]).to(dtype)
        self.down = layer.mlp.down_proj.weight.to(dtype)
        self.dtype = dtype

    def __call__(self, x):
        gate, up = F.linear(self.norm(x).to(self.dtype), self.up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down).float()


class _GdnStep:
    def __init__(self, layer, shape, rows, dtype, device):
        gdn = layer.linear_attn
        self.shape = shape
        self.norm = _centered_norm(layer.input_layernorm)
        self.projection = torch.cat([gdn.in_proj_qkv.weight, gdn.in_proj_z.weight, gdn.in_proj_b.weight, gdn.in_proj_a.weight]).to(dtype)
        self.convolution = gdn.conv1d.weight[:, 0].contiguous()
        self.vectors = gdn.A_log, gdn.dt_bias, gdn.norm.weight
        self.projection_out = gdn.out_proj.weight.to(dtype)
        self.ring = torch.zeros(rows, RING, self.convolution.shape[0], dtype=dtype, device=device)
        self.state = torch.zeros(rows, shape.linear_value_heads, shape.linear_key_dim, shape.linear_value_dim, device=device)
        self.mixed = torch.empty(rows, shape.linear_value_heads * shape.linear_value_dim, dtype=dtype, device=device)
        self.dtype = dtype

    def clear(self):
        self.ring.zero_()
        self.state.zero_()

    def __call__(self, x, step):
        projected = F.linear(self.norm(x).to(self.dtype), self.projection)
        gdn_step(projected, self.ring, self.convolution, *self.vectors, self.state, step, self.mixed, self.shape)
        return x + F.linear(self.mixed, self.projection_out).float()


class _AttentionStep:
    def __init__(self, layer, shape, rows, length, dtype, device):
        attention = layer.self_attn
        if shape.key_value_heads != 1:
            raise ValueError("decode.py handles one key-value head")
        self.shape = shape
        self.norm = _centered_norm(layer.input_layernorm)
        self.projection = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).to(dtype)
        self.projection_out = attention.o_proj.weight.to(dtype)
        self.query_norm, self.key_norm = _centered_norm(attention.q_norm), _centered_norm(attention.k_norm)
        self.keys = torch.empty(rows, length, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty_like(self.keys)
        self.cosine, self.sine = (angles[:, 0] for angles in attention._angles(length, device))
        self.mixed = torch.empty(rows, shape.query_heads, shape.head_dim, device=device)
        self.dtype = dtype

    def clear(self):
        pass  # positions past the step are never read

    def __call__(self, x, step):
        heads, dim = self.shape.query_heads, self.shape.head_dim
        projected = F.linear(self.norm(x).to(self.dtype), self.projection)
        query_gate, key, value = projected.split([2 * heads * dim, dim, dim], -1)
        query, gate = query_gate.reshape(-1, heads, 2 * dim).split(dim, -1)
        cosine, sine = self.cosine.index_select(0, step), self.sine.index_select(0, step)
        query = self._rotate(self.query_norm(query), cosine, sine).to(self.dtype)
        self.keys.index_copy_(1, step, self._rotate(self.key_norm(key), cosine, sine).to(self.dtype)[:, None])
        self.values.index_copy_(1, step, value[:, None])
        attend(query, self.keys, self.values, step, self.mixed)
        return x + F.linear((self.mixed.to(self.dtype).float() * torch.sigmoid(gate.float())).flatten(1).to(self.dtype), self.projection_out).float()

    @staticmethod
    def _rotate(x, cosine, sine):
        half = cosine.shape[-1]
        first, second, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)


class BatchDecoder:
    """Writes `rows` texts of `length` tokens a call. Built once; every call starts from nothing."""

    @torch.no_grad()
    def __init__(self, model, rows, length, device):
        shape, dtype = model.shape, model.compute_type
        self.layers = []
        for number, layer in enumerate(model.model.layers):
            self.layers.append(_AttentionStep(layer, shape, rows, length, dtype, device) if shape.is_full_attention(number)
                               else _GdnStep(layer, shape, rows, dtype, device))
            self.layers.append(_FeedForwardStep(layer, dtype))
        self.embedding = model.model.embed_tokens.weight
        self.norm = _centered_norm(model.model.norm)
        self.head = model.lm_head.weight.to(dtype)
        self.dtype = dtype
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.tokens = torch.zeros(rows, length, dtype=torch.int64, device=device)
        self.forced = torch.empty_like(self.tokens)
        self.temperature = torch.empty(rows, length, device=device)
        self.graph = None

    @torch.no_grad()
    def write(self, forced, temperature):
        """Tokens [rows, length]. forced [rows, length] is the token at a position or -1, and gives position 0; temperature [rows, length] is that of
        the draw of the token at a position, 0 for the most likely one."""
        self.forced.copy_(forced)
        self.temperature.copy_(temperature)
        if self.tokens.is_cuda and self.graph is None:
            self._capture()
        self._clear()
        for _ in range(self.tokens.shape[1] - 1):
            if self.graph is None:
                self._advance()
            else:
                self.graph.replay()
        return self.tokens.clone()

    def _clear(self):
        for layer in self.layers[::2]:
            layer.clear()
        self.step.zero_()
        self.tokens[:, 0] = self.forced[:, 0]

    def _capture(self):
        self._clear()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._advance()

    def _advance(self):
        step = self.step
        x = self.embedding[self.tokens.index_select(1, step)[:, 0]]
        for layer in self.layers:
            x = layer(x) if isinstance(layer, _FeedForwardStep) else layer(x, step)
        logits = F.linear(self.norm(x).to(self.dtype), self.head).float()
        step += 1
        # argmax(logits + temperature * Gumbel noise) draws from softmax(logits / temperature), and is the plain argmax at temperature 0.
        noise = torch.empty_like(logits).exponential_().clamp_min_(SMALLEST).log_()
        chosen = (logits - self.temperature.index_select(1, step) * noise).argmax(-1, keepdim=True)
        forced = self.forced.index_select(1, step)
        self.tokens.index_copy_(1, step, torch.where(forced >= 0, forced, chosen))
