"""Questions of page 04."""

from circuits.weights import Head
from pages.ui.exercises import Choice, Exercise, HeadName, Number, Prediction, Sizes


def prediction(head: Head) -> Prediction:
    return Prediction(
        f"{head} has two tables for a source token: who would look at it, and what it makes more likely. "
        "Suppose W_QK were another matrix. What would happen to the second table?",
        ("Nothing", "It would scale", "It would change"),
        "Nothing",
        "OV is a table of the source alone. Attention only decides how much of a row is added, and where.",
    )


def exercises(model_name: str, positional: dict[Head, float]) -> list[Exercise]:
    """Return the exercises; ``positional`` is each head's attention to the token before, seen from positions only."""
    best = max((head for head in positional if head.layer == 0), key=positional.get)
    return [
        *SHAPES,
        Exercise(
            f"In `{model_name}`, which layer-0 head's *positions alone* (W_pos W_QK W_posᵀ, then mask and softmax) "
            "put the most attention on the token just before?",
            HeadName((best,)),
            (
                "Token–token tables cannot see who stands next to whom.",
                "In *One score, four parts*, look for a stripe just below the diagonal in position → position.",
            ),
            f"{best}, with {positional[best]:.2f} on average: which matrix shows a previous-token head is "
            "W_pos W_QK W_posᵀ.",
        ),
    ]


SHAPES = (
    Exercise(
        "`W_Q` and `W_K` are [64, 8]. What is the shape of `W_Q.T @ W_K`?",
        Sizes((8, 8)),
        ("Inner sizes must match: 64 with 64.", "[8, 64] times [64, 8]."),
        "No error appears, but it is the wrong object. The scores need `W_Q @ W_K.T`, [64, 64].",
    ),
    Exercise(
        "A full OV circuit has V = 1,000 and d_head = 8. How many numbers are enough to store it?",
        Number(16_000, relative=0.01),
        ("Its rank is at most 8.", "Two factors: [1,000, 8] and [8, 1,000]."),
        "2 · V · r = 16,000, against 1,000,000 entries.",
    ),
    Exercise(
        "At position 3 (counting from 0) all scores are equal. How much attention does each visible token get?",
        Number(0.25),
        ("Which positions are visible from 3?", "0, 1, 2 and 3: four of them."),
        "Softmax of four equal numbers is 1/4 each.",
    ),
    Exercise(
        "You add 5 to every score of one row. What happens to the attention?",
        Choice(("Nothing", "That row gets sharper", "The column gets more attention"), "Nothing"),
        ("Write the softmax with e⁵ in it.", "e⁵ is in every term, above and below."),
        "It cancels. That is why each row of the QK table is centred before it is shown.",
    ),
)
