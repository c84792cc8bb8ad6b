"""Questions of page 13."""

from jaxtyping import Float
from torch import Tensor

from circuits.weights import Head
from pages.ui.exercises import Choice, Exercise, HeadName, Number, Prediction


def prediction(n_edges: int, enough: int) -> Prediction:
    """Ask how many edges keep 80 %; ``enough`` is the answer measured."""
    return Prediction(
        f"This model has {n_edges} edges. How many of them keep 80 % of what tells the clean prompt from the "
        "corrupt one?",
        ("Fewer than 30", "30 to 150", "More than 150"),
        "Fewer than 30" if enough < 30 else "30 to 150" if enough <= 150 else "More than 150",
        f"Of the sizes tried, {enough} edges are the first to reach it.",
    )


def exercises(reference: Float[Tensor, "layer head"], previous: Head) -> list[Exercise]:
    """Return the exercises; ``reference`` is the cost of resampling each head on random repeats (B B)."""
    n_layers, n_heads = reference.shape
    costliest = Head(0, int(reference[0].argmin()))
    return [
        Exercise(
            "You patch z of a head in the *last* layer. How does attribution patching compare to activation patching?",
            Choice(("It is exactly equal", "It is about equal", "It can have the wrong sign"), "It is exactly equal"),
            ("What lies between that head's output and the metric?", "Only a sum and the unembedding."),
            "The metric is linear in the last layer's outputs (no LayerNorm here), and a line is its own tangent.",
        ),
        Exercise(
            f"{n_layers} layers of {n_heads} heads: how many patched passes does activation patching of z take?",
            Number(n_layers * n_heads),
            ("One patch, one pass.", "Count the heads."),
            f"{n_layers} · {n_heads} = {n_layers * n_heads}, and 2 to record both runs. Attribution patching "
            "takes those 2 and one backward pass, for any number of heads.",
        ),
        Exercise(
            "Clean is A A, corrupt is A B. Which input of the induction head do you have to patch to break it?",
            Choice(("Queries", "Keys", "Values"), "Queries"),
            ("Which half of the prompt has changed?", "Keys and values that matter sit in the first half."),
            "The first half is the same in both, so keys and values there are intact. What the last token asks is not.",
        ),
        Exercise(
            "On random repeats (corrupt B B), which head of layer 0 costs most when its output is resampled?",
            HeadName((costliest,)),
            (
                "Look at the bars under “Remove a head”, with Random repeats and BB chosen.",
                "The bar furthest to the left.",
            ),
            f"{costliest}, with {reference[costliest]:.1f} logits. The previous-token head here is {previous}.",
        ),
        Exercise(
            "Two heads do the same job, and either one suffices. Ablating one changes almost nothing. What follows?",
            Choice(
                ("The head has no part in it", "Nothing yet: ablate both", "The behaviour is not in the model"),
                "Nothing yet: ablate both",
            ),
            ("Think of the OR gate above.", "Noising either part of OR leaves it at 1."),
            "Redundant parts hide each other. Ablate them together, or restore them one at a time in the corrupt run.",
        ),
    ]
