"""How long page 11's default run takes, beside the same models trained one after another with a recorded graph.

    python -m benchmarks.superposition

Ten densities, eight starts each: eighty toys of five features in two dimensions, 1,500 steps.  The peer trains one
toy the usual way (rows are samples, autograd, ``torch.optim.Adam``) and is scaled up to eighty.  The goal is under
5 s on two cores.
"""

import time

import torch

from circuits.superposition import geometry, toy

DENSITIES, SEEDS, STEPS, BATCH = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01), 8, 1500, 256
PEER_STEPS = 300


def peer(density: float) -> None:
    """Train one toy for a fifth of the steps."""
    W, b = torch.randn(5, 2, requires_grad=True), torch.zeros(5, requires_grad=True)
    optimiser = torch.optim.Adam([W, b], lr=0.03)
    for _ in range(PEER_STEPS):
        x = torch.rand(BATCH, 5) * (torch.rand(BATCH, 5) < density)
        loss = ((x @ W @ W.T + b).relu() - x).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main() -> None:
    """Time both and print them side by side, with the pentagon as proof that the run has arrived."""
    start = time.perf_counter()
    *_, last = toy.train([toy.Setting(density=p) for p in DENSITIES], SEEDS, STEPS, BATCH)
    best = toy.best(last.toys)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    peer(0.05)
    one_by_one = (time.perf_counter() - start) * STEPS / PEER_STEPS * len(DENSITIES) * SEEDS
    error = geometry.polygon_error(best[DENSITIES.index(0.05)].W)
    print(f"{len(DENSITIES)} densities x {SEEDS} starts, {STEPS} steps, {torch.get_num_threads()} threads")
    print(f"  all as one tensor    {ours:7.2f} s   1.0   (goal: under 5 s)")
    print(f"  one after another    {one_by_one:7.2f} s   {one_by_one / ours:.1f}")
    print(f"  at density 0.05: {error.sides} sides, worst angle off by {error.angle:.1f}°")


if __name__ == "__main__":
    main()
