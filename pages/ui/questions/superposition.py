"""Questions of page 11."""

import torch

from circuits.superposition import phase
from pages.ui.exercises import Exercise, Number, Prediction

PREDICTION = Prediction(
    "Five features, two dimensions, a ReLU, and inputs that are nearly always zero. How many features can the model "
    "give back?",
    ("2", "4", "5"),
    "5",
    "Rarely two at once: it stores all five, 72° apart, and the ReLU cuts off most of the mix-up.",
)


def exercises() -> list[Exercise]:
    """Return the exercises; no key depends on what was trained."""
    return [
        Exercise(
            "Five features form a regular pentagon. What share of a dimension has each?",
            Number(2 / 5, 0.005),
            ("The shares of a tight figure sum to the number of dimensions.", "Five equal shares of two dimensions."),
            "All five are equal and the figure is tight, so $5 D = 2$. Or $1 / \\sum_k \\cos^2(72° k) = 1 / 2.5$.",
        ),
        Exercise(
            "And each corner of a tetrahedron, four features in three dimensions?",
            Number(3 / 4, 0.005),
            ("Again the shares sum to the number of dimensions.", "Four equal shares of three."),
            "$4 D = 3$. The cosine of two corners is $-1/3$, and $1 / (1 + 3 \\cdot 1/9) = 3/4$.",
        ),
        Exercise(
            "Two features of importance 1, one dimension, and no bias for the pair. At which density are the pair and "
            "the dedicated dimension equally good?",
            Number(phase.unbiased_boundary(torch.tensor(1.0)).item(), 0.005),
            ("Pair: $p^2 (1 + I) / 6$. Dedicated: $I (p/3 - p^2/4)$.", "Set them equal and divide by $p$."),
            "$p (1 + I)/6 = I/3 - I p/4$ gives $p = 2I / (1 + 2.5 I) = 2/3.5$. With a trained bias the pair wins "
            "longer.",
        ),
        Exercise(
            "A linear model has 20 features of falling importance, 5 dimensions, density 0.01. How many does it keep?",
            Number(5),
            ("What does the ReLU do that a linear map cannot?", "Set the output to linear above and watch the curve."),
            "Five. Without a ReLU nothing removes the interference, and the best is the top five: sparsity does "
            "not help.",
        ),
        Exercise(
            "Density 1, four features of falling importance, two dimensions, ReLU. How many are kept, usually?",
            Number(2),
            ("At density 1 all features are present at once, always.", "Try it: n = 4, decay 0.7, density 1."),
            "Two, the most important. Everything else would interfere on every single input.",
        ),
    ]
