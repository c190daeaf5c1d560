"""Muon with decoupled weight decay for the matrices of the layers (K. Jordan 2024; update scale of J. Liu et al. 2025, arXiv 2502.16982).

The momentum of a matrix is replaced by a nearly orthogonal one (five Newton-Schulz steps in BF16) and scaled so that its root mean square is that of
an AdamW update; one learning rate then serves both optimizers. Matrices of one shape are processed as one batch.
"""

import torch

MOMENTUM = 0.95
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # Jordan's quintic, chosen for steepness at zero
NEWTON_SCHULZ_STEPS = 5
UPDATE_RMS = 0.2


def orthogonalize(matrices):
    """[count, rows, columns] with rows <= columns -> the same shape with singular values near one."""
    a, b, c = NEWTON_SCHULZ
    x = matrices.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, weight_decay):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for parameter in group["params"]:
                by_shape.setdefault(tuple(sorted(parameter.shape)), []).append(parameter)
            for (rows, columns), parameters in by_shape.items():
                momenta = []
                for parameter in parameters:
                    state = self.state[parameter]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(parameter)
                    momenta.append(state["momentum"])
                gradients = [parameter.grad for parameter in parameters]
                torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
                ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov
                wide = [x if x.shape[0] == rows else x.T for x in ahead]
                updates = orthogonalize(torch.stack(wide)) * (UPDATE_RMS * columns ** 0.5)
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                updates = [u if p.shape[0] == rows else u.T for u, p in zip(updates.float().unbind(0), parameters)]
                torch._foreach_add_(parameters, updates, alpha=-group["lr"])


def split_parameters(model):
    """(matrices inside layers, other tensors with two or more axes, vectors)."""
    matrices, tables, vectors = [], [], []
    for name, parameter in model.named_parameters():
        inner = parameter.dim() == 2 and min(parameter.shape) >= 64 and "embed_tokens" not in name and "lm_head" not in name
        (matrices if inner else tables if parameter.dim() >= 2 else vectors).append(parameter)
    return matrices, tables, vectors
