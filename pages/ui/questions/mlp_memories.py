"""Questions of page 10."""

from pages.ui.exercises import Choice, Exercise, Number, Prediction


def prediction(n_active: int, d_mlp: int, enough: int) -> Prediction:
    """Ask how many of the memories that answer are needed; ``enough`` is the answer measured."""
    return Prediction(
        f"{n_active} of {d_mlp:,} memories answer here. How many of those, strongest first, must be kept before "
        "the model's first choice is settled?",
        ("At most ¼", "¼ to ¾", "Nearly all"),
        "At most ¼" if enough <= n_active / 4 else "¼ to ¾" if enough <= n_active * 3 / 4 else "Nearly all",
        f"At this position it is settled from {enough} memories on.",
    )


def exercises(share: float, top_flips: bool, strongest: int) -> list[Exercise]:
    """Return the exercises; ``share`` of the activations are not zero, ``strongest`` is the neuron that writes most."""
    return [
        Exercise(
            "In `x @ W_in`, with rows as vectors, where is the key of neuron i?",
            Choice(("Column i of W_in", "Row i of W_in", "Row i of W_out"), "Column i of W_in"),
            ("Each activation is one dot product with x.", "`(x @ W)[i]` uses `W[:, i]`."),
            "`(x @ W_in)[i] = x · W_in[:, i]`: a column. Geva et al. write K = W_inᵀ, whose rows are the keys.",
        ),
        Exercise(
            "How many parameters do W_in and W_out have together for d_model = 64, d_mlp = 256 (no biases)?",
            Number(2 * 64 * 256, relative=0.01),
            ("Both are 64 by 256, one of them turned.", "2 · 64 · 256."),
            "2 · 64 · 256 = 32,768, and 256 + 64 = 320 biases on top.",
        ),
        Exercise(
            "x = (1, 2), keys (1, 0) and (−1, 1), values (3, 0) and (2, 1), no biases. First number of the output?",
            Number(5),
            ("Both matches are positive.", "x · k₁ = 1 and x · k₂ = −1 + 2 = 1."),
            "1 · 3 + 1 · 2 = 5.",
        ),
        Exercise(
            "On the text above, what share of all activations (all positions, all neurons) is not zero? (within 0.001)",
            Number(share, 0.001),
            ("It is measured on this page.", "Look beside the switch between ReLU and GELU, set to ReLU."),
            "ReLU leaves a memory silent wherever its match is negative.",
        ),
        Exercise(
            "At the position in focus, does removing the strongest memory change the model's first choice?",
            Choice(("Yes", "No"), "Yes" if top_flips else "No"),
            (
                f"The strongest write here is neuron {strongest}.",
                "Find it under “Take one memory away”, or keep all but it in mind.",
            ),
            "One memory rarely decides alone; where it does, the two best tokens were close.",
        ),
    ]
