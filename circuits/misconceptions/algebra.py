"""Matrices: the wrong order, the wrong cycle, the wrong decomposition."""

import torch

from circuits import heads
from circuits.composition import random_rotation
from circuits.misconceptions.base import Fact, Scene, often_said
from circuits.weights import Head


@often_said(
    "In code, the QK matrix is W_Q.T @ W_K.",
    "With row vectors it is W_Q @ W_K.T. The other product has no shape error: it is a smaller matrix with the same "
    "nonzero eigenvalues, so an eigenvalue score does not notice. Norms and singular values do.",
    page="qk_ov_circuits",
)
def transposed_qk(scene: Scene) -> tuple[Fact, ...]:
    W_Q, W_K = scene.weights.W_Q[0, 0].double(), scene.weights.W_K[0, 0].double()
    right, wrong = W_Q @ W_K.T, W_Q.T @ W_K
    return (
        Fact("shape of W_Q @ W_K.T", str(list(right.shape))),
        Fact("shape of W_Q.T @ W_K", str(list(wrong.shape))),
        Fact("Σ|λ| of W_Q @ W_K.T", torch.linalg.eigvals(right).abs().sum().item()),
        Fact("Σ|λ| of W_Q.T @ W_K", torch.linalg.eigvals(wrong).abs().sum().item()),
        Fact("norm of W_Q @ W_K.T", right.norm().item()),
        Fact("norm of W_Q.T @ W_K", wrong.norm().item()),
    )


@often_said(
    "In code, the OV matrix is W_O @ W_V.",
    "That is the paper's order, for columns. With rows a vector meets W_V first: W_V @ W_O, [d_model, d_model]. "
    "W_O @ W_V is [d_head, d_head]: its trace agrees, its norm does not, and it cannot act on the stream.",
    page="qk_ov_circuits",
)
def transposed_ov(scene: Scene) -> tuple[Fact, ...]:
    W_V, W_O = scene.weights.W_V[0, 0].double(), scene.weights.W_O[0, 0].double()
    right, wrong = W_V @ W_O, W_O @ W_V
    return (
        Fact("shape of W_V @ W_O", str(list(right.shape))),
        Fact("shape of W_O @ W_V", str(list(wrong.shape))),
        Fact("trace of W_V @ W_O", right.trace().item()),
        Fact("trace of W_O @ W_V", wrong.trace().item()),
        Fact("norm of W_V @ W_O", right.norm().item()),
        Fact("norm of W_O @ W_V", wrong.norm().item()),
    )


@often_said(
    "Factors may go round the cycle: ‖A B C‖ = ‖B C A‖.",
    "True of traces and eigenvalues, false of Frobenius norms. This slip was in the code behind the paper's own "
    "composition figure and is the reason for its published correction.",
    page="composition",
)
def cyclic_norm(scene: Scene) -> tuple[Fact, ...]:
    writer, reader = scene.weights.heads[0], scene.weights.heads[-1]
    W_OV = heads.W_OV(scene.weights, writer)
    W_Q, W_K = (W[reader.layer, reader.head].double() for W in (scene.weights.W_Q, scene.weights.W_K))
    W_V, W_O = W_OV.A.double(), W_OV.B.double()
    right, cycled = W_V @ W_O @ W_K @ W_Q.T, W_O @ W_K @ W_Q.T @ W_V
    return (
        Fact("trace of W_V W_O W_K W_Qᵀ", right.trace().item()),
        Fact("trace of W_O W_K W_Qᵀ W_V", cycled.trace().item()),
        Fact("norm of W_V W_O W_K W_Qᵀ", right.norm().item()),
        Fact("norm of W_O W_K W_Qᵀ W_V", cycled.norm().item()),
    )


@often_said(
    "A composition score runs from 0 (none) to 1 (perfect).",
    "Unrelated heads score about 1/√d_model, whatever d_head is. Two flat matrices of rank r whose subspaces match "
    "perfectly score 1/√r. Only rank 1 reaches 1.",
    page="composition",
)
def perfect_alignment(scene: Scene) -> tuple[Fact, ...]:
    d, r = scene.weights.d_model, scene.weights.d_head
    generator = torch.Generator().manual_seed(0)
    Q, other = (random_rotation(d, generator, torch.double)[:, :r] for _ in range(2))

    def score(A: torch.Tensor, B: torch.Tensor) -> float:
        return ((A @ B).norm() / (A.norm() * B.norm())).item()

    return (
        Fact("score of a perfect match", score(Q @ Q.T, Q @ Q.T)),
        Fact("1/√d_head", r**-0.5),
        Fact("score of unrelated subspaces", score(Q @ Q.T, other @ other.T)),
        Fact("1/√d_model", d**-0.5),
        Fact("score of a perfect match, rank 1", score(Q[:, :1] @ Q[:, :1].T, Q[:, :1] @ Q[:, :1].T)),
    )


@often_said(
    "A copying head is close to the identity.",
    "It cannot be. W_OV has rank d_head at most, and no matrix of rank r has a cosine above √(r/d) with the identity. "
    "Nor need it be: copying leads from a token's embedding to its unembedding, which is another vector.",
    page="skip_trigrams",
)
def low_rank_identity(scene: Scene) -> tuple[Fact, ...]:
    d, r = scene.weights.d_model, scene.weights.d_head
    cosines = {head: _cosine_with_identity(heads.W_OV(scene.weights, head).AB.double()) for head in scene.weights.heads}
    best = max(cosines, key=cosines.get)
    return (
        Fact("rank of one head's W_OV, of d_model", f"{r} of {d}"),
        Fact("highest cosine possible, √(r/d)", (r / d) ** 0.5),
        Fact(f"highest cosine in this model ({best})", cosines[best]),
    )


def _cosine_with_identity(M: torch.Tensor) -> float:
    return (M.trace() / (M.norm() * len(M) ** 0.5)).item()


@often_said(
    "The eigenvectors of W_QK say what a head is sensitive to.",
    "The left side of W_QK takes queries, the right side keys: two roles, and the matrix is not symmetric. "
    "Eigenvectors mix the roles. Singular vectors keep them apart: left for queries, right for keys.",
    page="qk_ov_circuits",
)
def asymmetric_qk(scene: Scene) -> tuple[Fact, ...]:
    shares = {head: _antisymmetric_share(heads.W_QK(scene.weights, head).AB.double()) for head in scene.weights.heads}
    least, most = min(shares, key=shares.get), max(shares, key=shares.get)
    return (
        Fact("antisymmetric share: 0 if symmetric, 0.5 if unrelated", "‖(M − Mᵀ)/2‖² / ‖M‖²"),
        Fact(f"most symmetric head ({least})", shares[least]),
        Fact(f"least symmetric head ({most})", shares[most]),
    )


def _antisymmetric_share(M: torch.Tensor) -> float:
    return (((M - M.T) / 2).square().sum() / M.square().sum()).item()


@often_said(
    "W_QK and W_OV are the QK circuit and the OV circuit.",
    "In the paper W_QK and W_OV are d_model × d_model matrices between stream vectors. The circuits are the products "
    "with W_E and W_U, from tokens to tokens. Both are of low rank, so neither need be written out.",
    page="qk_ov_circuits",
)
def matrix_or_circuit(scene: Scene) -> tuple[Fact, ...]:
    V, d, r = scene.weights.d_vocab, scene.weights.d_model, scene.weights.d_head
    head = Head(0, 0)
    return (
        Fact("shape of W_OV", str(list(heads.W_OV(scene.weights, head).AB.shape))),
        Fact("shape of the OV circuit", str([V, V])),
        Fact("numbers in the OV circuit", V * V),
        Fact("numbers that define it (its two factors)", 2 * V * r),
        Fact("numbers in W_V and W_O", 2 * d * r),
    )
