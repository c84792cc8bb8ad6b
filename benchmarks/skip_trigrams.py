"""Ranking skip-trigrams in blocks, beside the dense d_vocab × d_vocab product it replaces.

    python -m benchmarks.skip_trigrams

A whole OV circuit at GPT-2's size, V = 50,257 and d_head 64 with random weights (goal: at most 600 MB beyond
the weights): the dense product would be 10 GB, so its time is measured on a slice of rows and scaled up.  Then
one head of the shipped model, every choice of two fixed tokens (goal: under 50 ms).
"""

import resource
import time
from collections.abc import Callable

import torch
from transformer_lens import FactoredMatrix

from circuits import models
from circuits.skip_trigrams import Tables, rank, top_entries
from circuits.weights import Head, Weights

REPEATS, K = 5, 50
V, D_HEAD = 50_257, 64
SLICE = 2_048
"""Rows of the large dense product that are really computed: 412 MB."""


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the best of a few runs: the machine's other work can only add."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_mb() -> float:
    """Return the most memory this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def dense_top(table: FactoredMatrix, k: int = K) -> torch.Tensor:
    """Return the k largest entries by building the whole table."""
    return table.AB.flatten().topk(k).values


def shipped() -> None:
    weights, head = Weights.of(models.load("one-layer")), Head(0, 0)
    dense = seconds(lambda: dense_top(Tables.of(weights, head).ov))
    print(f"one head of one-layer, top {K}, {torch.get_num_threads()} threads, best of {REPEATS}")
    print(f"  dense OV product and its top     {dense * 1e3:8.1f} ms   1.00")
    whole = seconds(lambda: top_entries(Tables.of(weights, head).ov, K))
    print(f"  the same in blocks               {whole * 1e3:8.1f} ms   {whole / dense:.2f}")
    for fixed in ({"source": 300, "destination": 400}, {"source": 300, "out": 500}, {"destination": 400, "out": 500}):
        took = seconds(lambda fixed=fixed: rank(Tables.of(weights, head), **fixed, k=K))
        print(f"  {' and '.join(fixed) + ' fixed':32} {took * 1e3:8.1f} ms   {took / dense:.2f}   (goal: under 50 ms)")


def gpt2_size() -> None:
    generator = torch.Generator().manual_seed(0)
    table = FactoredMatrix(*(torch.randn(shape, generator=generator) for shape in ((V, D_HEAD), (D_HEAD, V))))
    before = peak_mb()
    took = seconds(lambda: top_entries(table, K), repeats=1)
    grown = peak_mb() - before
    values = top_entries(table, K).values
    part = FactoredMatrix(table.A[:SLICE], table.B)
    dense = seconds(lambda: dense_top(part), repeats=1) * V / SLICE
    print(f"V = {V:,}, d_head {D_HEAD}, random weights: top {K} of {V * V:,} entries")
    print(f"  dense product, a slice scaled up {dense:8.1f} s    1.00   {V * V * 4 / 2**20:,.0f} MB")
    print(
        f"  in blocks                        {took:8.1f} s    {took / dense:.2f}   {grown:,.0f} MB   (goal: under 600)"
    )
    print(f"  largest entry {values[0]:.2f}, {K}th {values[-1]:.2f}")


if __name__ == "__main__":
    gpt2_size()  # first: memory is counted by the highest mark so far
    shipped()
