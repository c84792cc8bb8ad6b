"""Every demonstration comes out as its sentence says: on random float64 weights, or on the shipped model."""

import math

import pytest
import torch

from circuits import misconceptions, models, tokens
from circuits.misconceptions import Scene
from circuits.weights import Weights

EXACT = 1e-10
"""float64, products of at most four matrices of size 16."""


def random_weights(
    n_layers: int = 2, n_heads: int = 2, d_vocab: int = 60, d_model: int = 16, d_head: int = 4
) -> Weights:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.double, generator=generator) / shape[-2] ** 0.5

    heads = (n_layers, n_heads)
    return Weights(
        W_E=2 * normal(d_vocab, d_model),
        W_pos=normal(64, d_model),
        W_Q=normal(*heads, d_model, d_head),
        W_K=normal(*heads, d_model, d_head),
        W_V=normal(*heads, d_model, d_head),
        W_O=normal(*heads, d_head, d_model),
        W_U=normal(d_model, d_vocab),
    )


@pytest.fixture(scope="module")
def random_scene() -> Scene:
    return Scene(random_weights(), torch.tensor([0, 5, 9, 5, 9, 30]))


@pytest.fixture(scope="module")
def shipped() -> Scene:
    model = models.load("two-layer")
    return Scene(Weights.of(model), torch.tensor(tokens.encode(model, "The cat sat on the mat. The cat sat on the")))


def values(name: str, scene: Scene) -> list:
    return [fact.value for fact in misconceptions.find(name).demonstrate(scene)]


@pytest.mark.parametrize("misconception", misconceptions.ALL, ids=lambda m: m.name)
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("prompt", [[0], [0, 3], [0, 5, 9, 5, 9]])
def test_every_demonstration_runs_on_any_model_and_prompt(misconception, n_layers, prompt):
    facts = misconception.demonstrate(Scene(random_weights(n_layers), torch.tensor(prompt)))
    assert len(facts) >= 2
    assert len({fact.label for fact in facts}) == len(facts)
    assert all(isinstance(fact.value, str) or math.isfinite(fact.value) for fact in facts)


def test_names_are_unique_and_found():
    names = [misconception.name for misconception in misconceptions.ALL]
    assert len(names) == len(set(names)) >= 20
    assert misconceptions.find(names[3]) is misconceptions.ALL[3]
    with pytest.raises(ValueError, match="no_such"):
        misconceptions.find("no_such")


def test_transposed_qk_keeps_eigenvalues_and_changes_the_norm(random_scene):
    right_shape, wrong_shape, right, wrong, right_norm, wrong_norm = values("transposed_qk", random_scene)
    assert (right_shape, wrong_shape) == ("[16, 16]", "[4, 4]")
    assert right == pytest.approx(wrong, abs=EXACT)
    assert abs(right_norm - wrong_norm) > 0.01 * right_norm


def test_transposed_ov_keeps_the_trace_and_changes_the_norm(random_scene):
    _, _, right, wrong, right_norm, wrong_norm = values("transposed_ov", random_scene)
    assert right == pytest.approx(wrong, abs=EXACT)
    assert abs(right_norm - wrong_norm) > 0.01 * right_norm


def test_going_round_the_cycle_keeps_traces_not_norms(random_scene):
    trace, cycled, norm, cycled_norm = values("cyclic_norm", random_scene)
    assert trace == pytest.approx(cycled, abs=EXACT)
    assert abs(norm - cycled_norm) > 0.01 * norm


def test_perfect_alignment_scores_one_over_root_r(random_scene):
    match, root_r, unrelated, root_d, rank_one = values("perfect_alignment", random_scene)
    assert match == pytest.approx(root_r, abs=EXACT)
    assert match == pytest.approx(0.5, abs=EXACT)
    assert 0.5 * root_d < unrelated < 1.5 * root_d, "one draw of d 16, r 4"
    assert rank_one == pytest.approx(1, abs=EXACT)


def test_no_head_is_closer_to_the_identity_than_its_rank_allows(random_scene, shipped):
    for scene in (random_scene, shipped):
        _, bound, best = values("low_rank_identity", scene)
        assert best <= bound


def test_the_bound_on_the_identity_is_reached_by_a_projection(random_scene):
    weights = random_scene.weights
    W_V = torch.eye(16, 4, dtype=torch.double).expand_as(weights.W_V)
    projection = Weights(**{**vars(weights), "W_V": W_V, "W_O": W_V.transpose(-1, -2)})
    _, bound, best = values("low_rank_identity", Scene(projection, random_scene.tokens))
    assert best == pytest.approx(bound, abs=EXACT)


def test_qk_is_not_symmetric(shipped):
    _, least, most = values("asymmetric_qk", shipped)
    assert 0.01 < least < most <= 1


def test_circuits_are_between_tokens(shipped):
    _, shape, dense, factors, stored = values("matrix_or_circuit", shipped)
    assert shape == "[4096, 4096]"
    assert stored < factors < dense


def test_without_the_mask_the_past_reads_the_future(shipped):
    with_mask, without = values("missing_mask", shipped)
    assert with_mask == 0
    assert without > 0.1


def test_only_a_key_that_holds_the_token_before_completes_the_repeat(random_scene, shipped):
    for scene in (random_scene, shipped):
        before, itself, after = values("what_the_key_holds", scene)
        assert before > 5 * max(itself, after)
    assert values("what_the_key_holds", shipped)[0] > 0.95


def test_one_layer_solves_one_period_by_position(random_scene):
    right, above, below = values("positional_shortcut", random_scene)
    assert right == 1
    assert max(above, below) < 0.1


def test_the_induction_head_looks_after_the_copy(shipped):
    _, after, itself = values("after_the_copy", shipped)
    assert after > 0.5 > 5 * itself


def test_the_previous_token_stripe_needs_positions(shipped):
    _, stripe, without = values("stripe_without_positions", shipped)
    assert stripe > 0.6 > 3 * without


def test_the_induction_head_copies_more_than_the_previous_token_head(shipped):
    previous, inducing = values("two_ways_to_move_a_token", shipped)
    assert previous < 0.5 < inducing  # random heads: 0.0 ± 0.23


def test_row_constants_move_rows_and_no_pattern(random_scene):
    before, after, change = values("scores_between_rows", random_scene)
    assert before != after
    assert change < EXACT


def test_patterns_of_the_last_layer_depend_on_the_first(shipped):
    _, mean, most = values("patterns_need_a_run", shipped)
    assert 0.01 < mean < most <= 1


def test_arxiv_numbers_are_read_as_months(random_scene):
    framework, heads, toys, memories = values("no_arxiv_number", random_scene)
    assert "no number" in framework
    assert heads == toys == "September 2022, 9 months later"
    assert memories == "December 2020, 12 months earlier"


def test_random_tokens_are_off_the_distribution(shipped):
    uniform, first, second = values("off_distribution", shipped)
    assert uniform == pytest.approx(math.log(4096))
    assert second < uniform < first


def test_needed_is_not_enough(shipped):
    whole, without, alone = values("necessary_is_not_sufficient", shipped)
    assert whole > 0.6
    assert without < whole / 3
    assert alone < whole


def test_mlps_are_two_thirds(random_scene):
    assert values("mlps_left_out", random_scene)[2] == pytest.approx(2 / 3)


def test_attention_is_linear_only_when_frozen(random_scene, shipped):
    for scene in (random_scene, shipped):
        live, frozen = values("attention_is_not_linear", scene)
        assert frozen < EXACT < 1e-3 < live


def test_lengths_do_not_add_and_logits_do(random_scene, shipped):
    for scene in (random_scene, shipped):
        lengths, length, logits, logit = values("lengths_do_not_add", scene)
        assert lengths > 1.2 * length
        assert logits == pytest.approx(logit, abs=1e-4), "float32 activations of the shipped model"


def test_adding_deletes(random_scene):
    before, after, length, shorter = values("deletion_by_adding", random_scene)
    assert abs(before) > 0.01
    assert after == pytest.approx(0, abs=EXACT)
    assert shorter**2 == pytest.approx(length**2 - before**2)


def test_the_stream_is_narrow(shipped):
    d_model, *writers = values("narrow_stream", shipped)
    assert d_model < sum(writers) / 10


def test_the_unembedding_is_no_inverse(shipped):
    own, antisymmetric = values("unembedding_is_no_inverse", shipped)
    assert own < 0.1
    assert antisymmetric > 0.1


def test_the_table_has_low_rank(shipped):
    entries, numbers, rank = values("low_rank_table", shipped)
    assert rank <= 256
    assert numbers < entries / 4


def test_keys_are_columns(random_scene):
    columns, rows = values("keys_are_columns", random_scene)
    assert columns < EXACT < 1 < rows


def test_parallel_blocks_differ(random_scene):
    *_, difference = values("parallel_block", random_scene)
    assert difference > 1


def test_layer_norm_is_linear_only_with_the_divisor_frozen(random_scene):
    live, frozen = values("layer_norm_is_not_linear", random_scene)
    assert frozen < EXACT < 0.1 < live


def test_a_turned_basis_is_no_superposition(random_scene):
    mixed, turned, crowded = values("turned_or_superposed", random_scene)
    assert mixed < 0.9
    assert turned < EXACT < 0.2 < crowded


def test_superposition_pays_only_when_sparse(random_scene):
    """The closed forms against the losses they integrate, on a grid of amounts."""
    dense_one, dense_both, sparse_one, sparse_both, crossover = values("superposition_needs_sparsity", random_scene)
    assert dense_one < dense_both
    assert sparse_both < sparse_one
    assert crossover / 3 - crossover**2 / 4 == pytest.approx(crossover**2 / 3)
    x = (torch.arange(400, dtype=torch.double) + 0.5) / 400
    for p, one, both in ((1.0, dense_one, dense_both), (0.1, sparse_one, sparse_both)):
        dropped = p * (x - p / 2).square().mean() + (1 - p) * (p / 2) ** 2  # the best constant is the mean, p/2
        assert one == pytest.approx(dropped.item(), abs=1e-5)
        difference = x[:, None] - x
        pairs = (difference.relu() - x[:, None]).square() + ((-difference).relu() - x).square()
        assert both == pytest.approx((p**2 * pairs.mean()).item(), abs=1e-5), "a feature alone is rebuilt exactly"
