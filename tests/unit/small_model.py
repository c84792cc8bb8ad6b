"""A small random model in float64, and its two circuits by definition."""

import math

import torch

from circuits.weights import Head, Weights

D, R, H, V, N = 24, 5, 3, 40, 12
HEAD = Head(0, 1)


def random_weights(layers: int = 2, seed: int = 0) -> Weights:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Weights(
        W_E=normal(V, D),
        W_pos=normal(N, D),
        W_Q=normal(layers, H, D, R) / D**0.5,
        W_K=normal(layers, H, D, R) / D**0.5,
        W_V=normal(layers, H, D, R) / D**0.5,
        W_O=normal(layers, H, R, D) / R**0.5,
        W_U=normal(D, V) / D**0.5,
    )


def dense_qk(weights: Weights, head: Head = HEAD) -> torch.Tensor:
    return weights.W_E @ weights.W_Q[head] @ weights.W_K[head].T @ weights.W_E.T / math.sqrt(R)


def dense_ov(weights: Weights, head: Head = HEAD) -> torch.Tensor:
    return weights.W_E @ weights.W_V[head] @ weights.W_O[head] @ weights.W_U
