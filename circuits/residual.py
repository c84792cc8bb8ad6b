"""The residual stream: a sum of writes, in a space without a privileged basis.

.. math:: x_{final} = W_E[t] + W_{pos} + \\sum_{l,h} A^{lh} x_l W_{OV}^{lh}, \\qquad \\mathrm{logits} = x_{final} W_U

Because the stream is a sum and the unembedding is linear, every logit is a sum too: one number per
writer.  And because every component reads and writes through matrices, the basis is arbitrary: rotate all
of them together and nothing that can be observed changes.

Source: Elhage et al. 2021, "Residual stream", "Virtual weights", "Subspaces and residual stream bandwidth".
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from circuits.weights import Head, Run, Weights


@dataclass(frozen=True)
class Components:
    """Everything that was written into the stream at the end, one row per writer."""

    names: list[str]
    values: Float[Tensor, "component pos d_model"]

    def total(self) -> Float[Tensor, "pos d_model"]:
        return self.values.sum(0)


@torch.inference_mode()
def components(run: Run) -> Components:
    """Return the writers of ``resid_final``: token, position, every head, every MLP.  They sum to it.

    ``run`` is one prompt without a batch dimension.
    """
    n_layers, n_heads = run.head_out.shape[:2]
    names, values = ["token", "position"], [run.embed, run.pos_embed]
    for layer in range(n_layers):
        names += [str(Head(layer, head)) for head in range(n_heads)]
        values += list(run.head_out[layer])
        if run.mlp_out is not None:
            names.append(f"MLP {layer}")
            values.append(run.mlp_out[layer])
    return Components(names, torch.stack(values))


@torch.inference_mode()
def direct_logit_attribution(
    parts: Components, W_U: Float[Tensor, "d_model d_vocab"], token: int, position: int
) -> Float[Tensor, "component"]:
    """Return what each writer adds to the logit of ``token`` at ``position``: ``value · W_U[:, token]``.

    The entries sum to the logit.
    """
    return parts.values[:, position] @ W_U[:, token]


@torch.inference_mode()
def logit_lens(run: Run, W_U: Float[Tensor, "d_model d_vocab"], position: int) -> Float[Tensor, "stage d_vocab"]:
    """Return the next-token log-probabilities read from the stream before each layer, and at the end.

    These models have no final LayerNorm, so the stream is unembedded as it is.
    """
    stages = torch.cat([run.resid_pre[:, position], run.resid_final[None, position]])
    return (stages @ W_U).log_softmax(-1)


def rotation(d: int, angle: float, seed: int = 0) -> Float[Tensor, "d d"]:
    """Return a random rotation by ``angle`` degrees in each of d/2 random planes (float64, R Rᵀ = I).

    ``R = Q · diag(blocks) · Qᵀ`` with a random orthogonal Q: at 0° the identity, at 90° every vector is
    turned into one orthogonal to itself.

    Raises:
        ValueError: ``d`` is odd (a plane would be missing).
    """
    if d % 2:
        raise ValueError(f"d = {d} is odd: rotations turn planes, so d must be even")
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    radians = torch.deg2rad(torch.tensor(angle, dtype=torch.float64))
    plane = torch.stack([radians.cos(), -radians.sin(), radians.sin(), radians.cos()]).reshape(2, 2)
    return basis @ torch.block_diag(*[plane] * (d // 2)) @ basis.T


@torch.inference_mode()
def rotate(weights: Weights, R: Float[Tensor, "d_model d_model"]) -> Weights:
    """Turn the whole stream: what writes is multiplied by R from the right, what reads by Rᵀ from the left.

    ``W_E → W_E R``, ``W_Q → Rᵀ W_Q``, ``W_O → W_O R``, ``W_U → Rᵀ W_U``: R Rᵀ = I cancels in every product
    between a writer and a reader, so patterns and logits stay as they are.
    """
    R = R.to(weights.W_E.dtype)
    turned = replace(
        weights,
        W_E=weights.W_E @ R,
        W_pos=weights.W_pos @ R,
        W_Q=R.T @ weights.W_Q,
        W_K=R.T @ weights.W_K,
        W_V=R.T @ weights.W_V,
        W_O=weights.W_O @ R,
        W_U=R.T @ weights.W_U,
    )
    if weights.W_in is None:
        return turned
    return replace(turned, W_in=R.T @ weights.W_in, W_out=weights.W_out @ R, b_out=weights.b_out @ R)


def writers(weights: Weights) -> dict[str, Float[Tensor, "width d_model"]]:
    """Return every matrix that writes into the stream, as rows in the stream."""
    named = {"token": weights.W_E, "position": weights.W_pos}
    named |= {str(head): weights.W_O[head] for head in weights.heads}
    return named if weights.W_out is None else named | {"MLP 0": weights.W_out[0]}


def readers(weights: Weights) -> dict[str, Float[Tensor, "d_model width"]]:
    """Return every matrix that reads from the stream, as columns in the stream."""
    named = {}
    for head in weights.heads:
        named |= {
            f"{head} {kind}": W[head] for kind, W in zip("QKV", (weights.W_Q, weights.W_K, weights.W_V), strict=True)
        }
    if weights.W_in is not None:
        named["MLP 0"] = weights.W_in[0]
    return named | {"logits": weights.W_U}


def gram_norm(A: Float[Tensor, "m d"], B: Float[Tensor, "d n"]) -> float:
    """Return ‖A B‖_F without forming the product: ``√⟨AᵀA, B Bᵀ⟩``.

    An m × n product of vocabulary size is never built; a d × d Gram matrix is.  This is the trace of
    ``AᵀA B Bᵀ``, an identity of the Frobenius norm itself, not the cyclic shift that misled the paper's figure.
    """
    return ((A.T @ A) * (B @ B.T)).sum().clamp_min(0).sqrt().item()


@torch.inference_mode()
def virtual_weights(weights: Weights) -> tuple[list[str], list[str], Float[Tensor, "writer reader"]]:
    """Return ``‖W_write W_read‖_F / (‖W_write‖_F ‖W_read‖_F)`` for every writer and reader.

    Cells without meaning (a reader that comes before the writer) are NaN.  Chance is 1/√d_model; 1 would
    need two rank-one matrices in line.

    Source: Elhage et al. 2021, "Virtual weights".
    """
    write, read = writers(weights), readers(weights)
    table = torch.full((len(write), len(read)), torch.nan)
    for row, (source, A) in enumerate(write.items()):
        for column, (target, B) in enumerate(read.items()):
            if _comes_before(source, target):
                table[row, column] = gram_norm(A, B) / (A.norm() * B.norm())
    return list(write), list(read), table


def _comes_before(writer: str, reader: str) -> bool:
    """Tell whether a reader sees a writer: embeddings first, then L0 heads, the MLP, L1 heads, the logits."""

    def order(name: str, writes: bool) -> float:
        if name.startswith("L") and name[1].isdigit():
            return int(name[1]) + 0.1 * writes
        return {"token": -1.0, "position": -1.0, "MLP 0": 0.5 + 0.1 * writes, "logits": 99.0}[name]

    return order(writer, True) <= order(reader, False)


@torch.inference_mode()
def principal_angles(A: Float[Tensor, "m d"], B: Float[Tensor, "d n"]) -> Float[Tensor, "angle"]:
    """Return the principal angles in degrees between the row space of A and the column space of B.

    ``cos θ_i`` are the singular values of ``Q_A Q_B`` with orthonormal bases of the two spaces: 0° is a
    shared direction, 90° one that the other cannot see.
    """
    rows = torch.linalg.qr(A.double().T).Q
    columns = torch.linalg.qr(B.double()).Q
    return torch.linalg.svdvals(rows.T @ columns).clamp(0, 1).acos().rad2deg()


@torch.inference_mode()
def variance_spectrum(W: Float[Tensor, "rows d_model"]) -> Float[Tensor, "d_model"]:
    """Return the share of variance along each principal component of the centred rows, largest first."""
    centred = (W - W.mean(0)).double()
    eigenvalues = torch.linalg.eigvalsh(centred.T @ centred).flip(0).clamp_min(0)
    return eigenvalues / eigenvalues.sum()


@dataclass(frozen=True)
class Bandwidth:
    """How many dimensions compute, and how many carry the results between layers."""

    neurons_before: int
    head_dims_before: int
    stream: int

    @property
    def ratio(self) -> float:
        """Neurons that write before this layer, per dimension of the stream."""
        return self.neurons_before / self.stream


def bandwidth(layer: int, d_model: int, d_mlp: int, n_heads: int, d_head: int) -> Bandwidth:
    """Count what has written into a stream of ``d_model`` dimensions when ``layer`` layers have run.

    Half-way through 50 layers with ``d_mlp = 4 d_model`` that is 100 neurons for every dimension.
    """
    if min(d_model, n_heads, d_head) < 1 or min(layer, d_mlp) < 0:
        raise ValueError(f"sizes must be positive, got d_model {d_model}, n_heads {n_heads}, d_head {d_head}")
    return Bandwidth(layer * d_mlp, layer * n_heads * d_head, d_model)
