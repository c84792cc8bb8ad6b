"""Questions of page 05."""

import torch

from circuits.paths import Expansion
from pages.ui.exercises import Choice, Exercise, Number, Prediction


def prediction(n_highest: int) -> Prediction:
    return Prediction(
        f"Switch off the {n_highest} terms of the highest order and keep the others. What is left of the logits?",
        ("The same, exactly", "An approximation", "Nothing useful"),
        "An approximation",
        "The sum is exact with every term, and with no fewer. How good the rest is, the numbers below say.",
    )


def exercises(expansion: Expansion, n_layers: int) -> list[Exercise]:
    """Return the exercises; the last has its key from the loss on the reader's text, where there is one."""
    return [*COUNTING, *_dropped(expansion, n_layers)]


COUNTING = (
    Exercise(
        "How many paths has a model of 2 layers with 8 heads each, counted from one start?",
        Number(81),
        ("In each layer a path takes no head, or one of eight.", "(1 + 8) choices in layer 0, as many in layer 1."),
        "$(1 + 8)^2 = 81$: 1 direct path, 16 through one head, 64 through two.",
    ),
    Exercise(
        "And a model of 3 layers with 4 heads each?",
        Number(125),
        ("Now there are three choices to make.", "Each is one of five."),
        "$(1 + 4)^3 = 125$.",
    ),
    Exercise(
        "By hand: A = [[1, 0], [½, ½]], W = [[3]], x = (2, 4), one number a position. "
        "What is (A ⊗ W) x at the second position?",
        Number(9, 1e-6),
        ("First let A mix the positions.", "½ · 2 + ½ · 4 = 3."),
        "A mixes to 3, W triples it: 9.",
    ),
    Exercise(
        "Two layers with 8 heads; L0H3 is removed (its W_O is zero). How many of the 162 rows become zero?",
        Number(18),
        ("Which paths go through L0H3?", "A path has two starts, and after L0H3 it takes none or one of eight heads."),
        "2 starts × (1 + 8) ways on = 18.",
    ),
    Exercise(
        "Are the terms of the sum independent causes: does changing one token move only the terms that start there?",
        Choice(
            ("Yes, the sum is exact", "No, the patterns change too", "Only in layer 1"),
            "No, the patterns change too",
        ),
        ("What is held fixed in the expansion?", "Where do the patterns come from?"),
        "The sum is exact given the patterns. A new token makes new patterns, and they stand in every other term.",
    ),
)


def _dropped(expansion: Expansion, n_layers: int) -> list[Exercise]:
    if n_layers == 0 or len(expansion.tokens) < 2:
        return []
    everything = torch.ones(len(expansion.paths), dtype=torch.bool)
    rise = expansion.loss(~expansion.of_order(n_layers)) - expansion.loss(everything)
    return [
        Exercise(
            f"On your text: by how much does the loss rise when all terms of order {n_layers} are switched off? "
            "(nats per token; negative if it falls)",
            Number(rise, 0.02),
            ("Use the switches beside the figure, with every single term ticked.", "Subtract the loss with all terms."),
            "Both losses stand under the figure. In the paper's model the second order was worth about 0.3 nats, "
            "as read from published notes on its figure.",
        )
    ]
