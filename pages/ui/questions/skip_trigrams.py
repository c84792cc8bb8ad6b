"""Questions of page 06."""

from circuits.copying import GAUSSIAN_SD, Null
from circuits.weights import Head
from pages.ui.exercises import Choice, Exercise, Number, Prediction

PREDICTION = Prediction(
    "One head, one source, two trigrams that you want. Taken together, what does the same head give to the two "
    "*crossed* ones, destination 1 with out 2 and destination 2 with out 1?",
    ("As much", "Less", "Nothing"),
    "As much",
    "Each cell is (QK of its row) · (OV of its column), so forced · forced = chosen · chosen: in the geometric mean, "
    "exactly as much.",
)


def exercises(scores: dict[Head, float], null: Null) -> list[Exercise]:
    """Return the exercises; the number of copying heads is counted in the model at hand."""
    return [
        *TABLES,
        Exercise(
            "How many heads of this model have a copying score more than 2 sd above random heads?",
            Number(sum(null.z(score) > 2 for score in scores.values())),
            ("Look at the scoreboard.", "Count the rows with more than 2 in *sd from null*."),
            "The null is computed from this model's own embeddings. The paper counted 10 of 12 in its model.",
        ),
        *BUGS,
    ]


TABLES = (
    Exercise(
        "One head, one source. What is the rank of the table f(destination, out)?",
        Number(1),
        ("Every row is a multiple of the same row.", "It is a column of QK times a row of OV."),
        "An outer product of two vectors has rank 1, so every 2 × 2 determinant in it is 0.",
    ),
    Exercise(
        "The circuit [[3, 4], [−1, −1]] has eigenvalues 1 and 1. Does it copy both tokens?",
        Choice(("Yes, the score is 1", "Token 1 only", "Token 2 only"), "Token 1 only"),
        ("Look at the diagonal.", "The diagonal is 3 and −1."),
        "Token 1 raises itself by 3, token 2 lowers itself by 1. The sum, 2, is the sum of the eigenvalues.",
    ),
    Exercise(
        "For a plain Gaussian circuit with d_head = 16, what is the standard deviation of the copying score?",
        Number(GAUSSIAN_SD / 16, 0.006),
        ("It falls with d_head.", "About 1.5 / d_head."),
        "1.5 / 16 = 0.094. A score of 0.15 would be no evidence.",
    ),
)
BUGS = (
    Exercise(
        "Can one head do *keep … in → mind* and *keep … at → bay* without the bugs?",
        Choice(
            ("Yes, with enough training", "No, but two heads can", "Yes, if d_head is large"), "No, but two heads can"
        ),
        ("What is the rank of the table for one source?", "The sum of two rank-1 tables can have rank 2."),
        "One head gives rank 1 however large d_head is. Two heads, or one head and the direct path (in → mind), can "
        "tell the pairs apart.",
    ),
)
