"""The gated delta rule in its chunk form, for training (docs of the engine: the recurrence is the definition).

In a chunk of C tokens with c = cumulative log decay and G_ij = exp(c_i - c_j) for i >= j (else 0):
    A = strictly lower part of diag(beta) (K K^T * G),  T = (I + A)^-1
    W = T diag(beta exp(c)) K,  U = T diag(beta) V
    S' = P S + Q with P = exp(c_C) I - Kd^T W, Q = Kd^T U, Kd = diag(exp(c_C - c)) K       the state after the chunk
    O = diag(exp(c)) Q S + (Q K^T * G) (U - W S)
All but the walk over S' runs for all chunks at once; the walk costs one small matrix product a chunk. Two steps are custom operators: torch.compile
would unroll the walk, and the inverse needs full FP32 (the products around it run in TF32 on a GPU).
"""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU-only installs of PyTorch bring no Triton; they take the solver below
    triton = None

CHUNK = 64


def gated_delta_rule(q, k, v, beta, log_decay):
    """q, k, v [batch, length, heads, dim] (q scaled, q and k of unit length), beta and log_decay [batch, length, heads]; FP32 out like v."""
    batch, length, heads, _ = q.shape
    chunks = length // CHUNK

    def by_chunk(x):  # -> [chunks, batch * heads, CHUNK, dim]
        return x.view(batch, chunks, CHUNK, heads, -1).permute(1, 0, 3, 2, 4).reshape(chunks, batch * heads, CHUNK, -1)

    q, k, v = by_chunk(q.float()), by_chunk(k.float()), by_chunk(v.float())
    beta = by_chunk(beta[..., None])
    c = by_chunk(log_decay[..., None]).cumsum(-2)
    causal = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decay = torch.exp((c - c.transpose(-1, -2)).masked_fill(~causal, -1e9))  # masked before the exponential: above the diagonal it would overflow
    inverse = unit_lower_inverse((beta * (k @ k.transpose(-1, -2)) * decay).tril(-1))
    w = inverse @ (beta * torch.exp(c) * k)
    u = inverse @ (beta * v)
    last = c[..., -1:, :]
    keys_decayed = (torch.exp(last - c) * k).transpose(-1, -2)
    transition = torch.exp(last) * torch.eye(k.shape[-1], device=k.device) - keys_decayed @ w
    states = chunk_states(transition, keys_decayed @ u)
    o = (q * torch.exp(c)) @ states + ((q @ k.transpose(-1, -2)) * decay) @ (u - w @ states)
    return o.view(chunks, batch, heads, CHUNK, -1).permute(1, 0, 3, 2, 4).reshape(batch, length, heads, -1)


@torch.library.custom_op("tare_train::chunk_states", mutates_args=())
def chunk_states(transition: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
    """States before each chunk: S_0 = 0, S_{n+1} = transition_n S_n + update_n; all [chunks, batch, dk, dv] (transition [.., dk, dk])."""
    states = torch.empty_like(update)
    states[0].zero_()
    for n in range(update.shape[0] - 1):
        torch.baddbmm(update[n], transition[n], states[n], out=states[n + 1])
    return states


@chunk_states.register_fake
def _(transition, update):
    return torch.empty_like(update)


@torch.library.custom_op("tare_train::chunk_states_gradient", mutates_args=())
def chunk_states_gradient(transition: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Gradient with respect to the updates, given that with respect to the states."""
    result = torch.empty_like(gradient)
    result[-1].zero_()
    for n in range(gradient.shape[0] - 1, 0, -1):
        torch.baddbmm(gradient[n], transition[n].transpose(-1, -2), result[n], out=result[n - 1])
    return result


@chunk_states_gradient.register_fake
def _(transition, gradient):
    return torch.empty_like(gradient)


def _chunk_states_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], output)


def _chunk_states_backward(ctx, gradient):
    transition, states = ctx.saved_tensors
    updates = chunk_states_gradient(transition, gradient.contiguous())
    return updates @ states.transpose(-1, -2), updates


chunk_states.register_autograd(_chunk_states_backward, setup_context=_chunk_states_setup)


if triton is not None:
    @triton.jit
    def _unit_lower_inverse_kernel(a_pointer, out_pointer, SIZE: tl.constexpr):
        """One program inverts one I + A by forward substitution: row i of the inverse is e_i - A_i (rows before i)."""
        base = tl.program_id(0) * SIZE * SIZE
        rows = tl.arange(0, SIZE)[:, None]
        columns = tl.arange(0, SIZE)[None, :]
        transposed = tl.load(a_pointer + base + columns * SIZE + rows)
        inverse = tl.where(rows == columns, 1.0, 0.0)
        for i in range(1, SIZE):
            weights = tl.sum(tl.where(columns == i, transposed, 0.0), 1)  # A[i, :], zero from the diagonal on
            row = tl.sum(weights[:, None] * inverse, 0)
            inverse = tl.where(rows == i, inverse - row[None, :], inverse)
        tl.store(out_pointer + base + rows * SIZE + columns, inverse)


@torch.library.custom_op("tare_train::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(a: torch.Tensor) -> torch.Tensor:
    """(I + a)^-1 for strictly lower triangular a [.., CHUNK, CHUNK], FP32."""
    if a.is_cuda:
        a = a.contiguous()
        inverse = torch.empty_like(a)
        _unit_lower_inverse_kernel[(a.numel() // (CHUNK * CHUNK),)](a, inverse, CHUNK, num_warps=4)
        return inverse
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return torch.linalg.solve_triangular(identity + a, identity.expand_as(a), upper=False, unitriangular=True).contiguous()


@unit_lower_inverse.register_fake
def _(a):
    return torch.empty_like(a, memory_format=torch.contiguous_format)


def _unit_lower_inverse_setup(ctx, inputs, output):
    ctx.save_for_backward(output)


def _unit_lower_inverse_backward(ctx, gradient):
    (inverse,) = ctx.saved_tensors
    return -(inverse.transpose(-1, -2) @ gradient @ inverse.transpose(-1, -2))


unit_lower_inverse.register_autograd(_unit_lower_inverse_backward, setup_context=_unit_lower_inverse_setup)
