"""Live training on every lesson of page 09, five seeds; and what moving the history slider costs.

    python -m benchmarks.phase_change

The goals: with two layers at least four of seeds 0-4 learn the second copy, the default one within 60 s on two
cores; a loaded moment of the history answers in under 100 ms.
"""

import time
from itertools import pairwise

import torch

from circuits import history, induction, mechanism
from circuits.live_training import LiveRun, Setup
from circuits.weights import Head, forward

SEEDS = range(5)
LESSONS = {
    "two layers": {},
    "one layer": {"n_layers": 1},
    "one layer, smeared keys": {"n_layers": 1, "smeared": True},
    "one layer, always period 12": {"n_layers": 1, "period": 12},
}


def train(lesson: str, setup: Setup) -> None:
    """Train to the end; print the step at which it was learnt, accuracies and seconds."""
    start = time.perf_counter()
    run = LiveRun(setup)
    while not run.done:
        run.advance(100)
    seconds = time.perf_counter() - start
    row = run.rows[-1]
    trained = row.mean_accuracy(setup.periods)
    others = row.mean_accuracy(tuple(period for period in row.accuracy if period not in setup.periods))
    print(
        f"{lesson:28} seed {setup.seed}: learnt at step {run.learnt_at()!s:>5}, loss {row.loss:.2f}, "
        f"accuracy {trained:.2f}, at other periods {others:.2f}, {seconds:.1f} s"
    )


@torch.inference_mode()
def slider() -> None:
    """Time what page 09 computes for a moment: loading, the pattern of a prompt, the corner plot's scores."""
    step = history.steps()[-2]
    marks = [time.perf_counter()]
    weights = history.weights(step)
    marks.append(time.perf_counter())
    tokens = induction.repeat_probe(20, batch=1, d_vocab=weights.d_vocab)
    forward(weights, tokens)
    marks.append(time.perf_counter())
    mechanism.mechanism(weights, Head(0, 0))
    marks.append(time.perf_counter())
    load, pattern, corner = (1000 * (b - a) for a, b in pairwise(marks))
    print(f"history, step {step:,}: load {load:.0f} ms, patterns {pattern:.0f} ms, corner plot {corner:.0f} ms (kept)")


if __name__ == "__main__":
    for lesson, options in LESSONS.items():
        for seed in SEEDS:
            train(lesson, Setup(seed=seed, **options))
    slider()
