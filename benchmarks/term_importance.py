"""How long term importance by order takes, beside the plain forward passes it is made of.

    python -m benchmarks.term_importance

32 windows of 256 tokens of the sample text (or random tokens, where there are fewer).  Freezing and replacing
order by order needs three losses of a two-layer model, so about three forward passes is the least it can take;
summing the listed paths is measured on two windows and scaled up.  The goal is under 3 s on two cores.
"""

import time
from collections.abc import Callable

import torch

from circuits import models, paths, sample_text, term_importance
from circuits.weights import Weights, forward

WINDOWS, REPEATS = 32, 3


def seconds(work: Callable[[], object]) -> float:
    """Return the best of a few runs: the machine's other work can only add."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@torch.inference_mode()
def main() -> None:
    model = models.load("two-layer")
    weights = Weights.of(model)
    windows = sample_text.windows(model)[:WINDOWS]
    if len(windows) < WINDOWS:
        windows = torch.randint(1, weights.d_vocab, (WINDOWS, weights.n_ctx))

    def plain() -> None:
        for block in windows.split(term_importance.BLOCK):
            logits = model(block)[:, :-1].flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, block[:, 1:].flatten())

    def listed() -> None:
        for window in windows[:2]:
            expansion = paths.expand(weights, forward(weights, window))
            for order in range(weights.n_layers + 1):
                expansion.loss(torch.tensor([path.order <= order for path in expansion.paths]))

    one, ours = seconds(plain), seconds(lambda: term_importance.losses_by_order(weights, windows))
    brute = seconds(listed) * WINDOWS / 2
    print(f"{WINDOWS} x {weights.n_ctx} tokens, {torch.get_num_threads()} threads, best of {REPEATS}")
    print(f"  one forward pass with its loss   {one:7.2f} s   1.0")
    print(f"  term importance by order         {ours:7.2f} s   {ours / one:.1f}   (goal: under 3 s)")
    print(f"  the listed paths, summed         {brute:7.2f} s   {brute / one:.1f}")


if __name__ == "__main__":
    main()
