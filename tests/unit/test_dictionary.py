"""The autoencoder against its definition, against known truth, and against closed forms."""

from dataclasses import replace

import pytest
import torch

from circuits import contexts, mlp
from circuits.dictionary import autoencoder, features, measures, search, shipped, truth
from circuits.dictionary.autoencoder import Autoencoder
from circuits.superposition import geometry, toy
from circuits.weights import forward

EXACT = 1e-9
"""Identities in float64."""

GRID = 1e-3
"""Spacing of a brute-force minimisation."""

L1S = torch.tensor([0.01, 0.2, 0.8])


def random_autoencoder(d: int, n_features: int, *models: int, seed: int = 0) -> Autoencoder:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*models, *shape, generator=generator, dtype=torch.float64)

    W_dec = torch.nn.functional.normalize(normal(n_features, d), dim=-1)
    return Autoencoder(normal(d, n_features), normal(n_features), W_dec, normal(d))


def test_autoencoder_is_its_definition():
    model = random_autoencoder(5, 7, 2)
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    for k in range(2):
        for s in range(3):
            f = [
                max(0.0, ((x[k, s] - model.b_dec[k]) @ model.W_enc[k, :, i] + model.b_enc[k, i]).item())
                for i in range(7)
            ]
            x_hat = model.b_dec[k] + sum(f[i] * model.W_dec[k, i] for i in range(7))
            assert (model.encode(x)[k, s] - torch.tensor(f, dtype=torch.float64)).abs().max() < EXACT
            assert (model(x)[k, s] - x_hat).abs().max() < EXACT
            assert (model[k](x[k])[s] - x_hat).abs().max() < EXACT


@pytest.mark.parametrize(("a", "l1"), [(1.0, 0.3), (0.4, 0.1), (0.1, 0.5), (2.0, 1.0)])
def test_shrinkage_closed_form_is_the_minimum(a, l1):
    f = torch.arange(0, 3, GRID, dtype=torch.float64)
    brute = f[((a - f) ** 2 + l1 * f).argmin()]
    assert measures.shrunk(torch.tensor(a), l1).item() == pytest.approx(brute.item(), abs=GRID)


def test_measures_are_counts():
    f = torch.tensor([[1.0, 0.0, 0.0], [2.0, 0.5, 0.0]])
    assert measures.l0(f).item() == 1.5
    assert measures.density(f).tolist() == [1.0, 0.5, 0.0]
    assert measures.dead(f).tolist() == [False, False, True]
    x = torch.randn(50, 4, dtype=torch.float64)
    assert measures.explained_variance(x, x).item() == 1.0
    assert measures.explained_variance(x, x.mean(0).expand_as(x)).item() == pytest.approx(0.0, abs=EXACT)


@pytest.fixture(scope="module")
def known():
    """Twenty features in six dimensions: no pair of them is orthogonal, so nothing is found by luck."""
    return toy.fit(toy.Setting(20, 6, density=0.03), seeds=4, steps=1000)


@pytest.fixture(scope="module")
def trained(known):
    *_, last = autoencoder.train(truth.batches(known, 512), 20, L1S, steps=1200, lr=0.01, resample_at=(300, 600))
    return last.model


def test_known_features_are_found_and_only_at_the_right_sparsity(known, trained):
    report = truth.report(trained, known)
    assert geometry.stored(known.W) == 20
    assert report.mean_max_cosine[1] > 0.95
    assert report.recovered[1] >= 19
    assert report.recovered[0] < 19  # hardly any penalty: a good reconstruction from wrong directions
    assert report.explained[0] > 0.99


def test_more_penalty_means_sparser_and_worse(known, trained):
    report = truth.report(trained, known)
    assert (report.l0.diff() < 0).all()
    assert (report.error.diff() > 0).all()


def test_decoder_rows_stay_unit_vectors(trained):
    assert (trained.W_dec.norm(dim=-1) - 1).abs().max() < 1e-5  # float32


def test_activations_are_too_small_by_half_lambda():
    """Ten antipodal pairs: no interference between lines, so the closed form holds for every feature."""
    known = toy.fit(toy.Setting(20, 10, density=0.05), seeds=4, steps=1000)
    l1 = torch.tensor([0.1, 0.2])
    *_, last = autoencoder.train(truth.batches(known, 512), 20, l1, steps=1000, lr=0.01, resample_at=(300, 600))
    # The encoder must serve samples with two features as well: that costs a few thousandths.
    assert truth.report(last.model, known).shrinkage.tolist() == pytest.approx((l1 / 2).tolist(), abs=0.01)


def test_interference_makes_activations_smaller_still(known, trained):
    assert truth.report(trained, known).shrinkage[1] > L1S[1] / 2 + 0.02


def test_report_counts_what_it_says(known, trained):
    report = truth.report(trained, known)
    cosine = truth.match(known.W, trained.W_dec)
    i, j = 3, 5
    brute = known.W[i] @ trained.W_dec[1, j] / (known.W[i].norm() * trained.W_dec[1, j].norm())
    assert cosine[1, i, j].item() == pytest.approx(brute.item(), abs=1e-5)
    x, h = truth.hidden_vectors(known, 8192, torch.Generator().manual_seed(1))
    assert (x.sum(-1) > 0).all()
    assert torch.allclose(h, x @ known.W)
    f = trained[1].encode(h)
    assert report.l0[1].item() == pytest.approx((f > 0).sum().item() / len(f), abs=1e-4)
    assert report.dead[1].item() == ((f > 0).sum(0) == 0).sum()


REMADE = 0.02
"""Cosines, and overlaps of the known toy, of one training made twice: sums in another order."""


def test_shipped_search_is_what_the_code_finds():
    theirs = search.load()
    known = search.known(search.DEFAULT.toy)
    assert (known.W @ known.W.T - theirs.known.W @ theirs.known.W.T).abs().max() < REMADE
    *_, ours = search.train(search.DEFAULT, theirs.known)
    assert ours.step == ours.steps == theirs.steps
    clear = [search.L1S.index(l1) for l1 in (0.15, 0.2, 0.3)]  # a smaller penalty leaves the rows undecided
    best = [truth.match(theirs.known.W, found.model.W_dec).amax(-1)[clear] for found in (ours, theirs)]
    assert (best[0] - best[1]).abs().max() < REMADE


def test_shipped_search_shows_what_its_page_claims():
    report, at = search.load().report, search.L1S.index(0.2)
    assert report.recovered[at] == 20
    assert report.mean_max_cosine[at] > 0.95
    assert report.recovered[0] < 19  # hardly any penalty: a good reconstruction from wrong directions
    assert report.explained[0] > 0.99
    assert report.shrinkage[at] > 0.2 / 2 + 0.02


def test_a_missing_search_names_its_command(tmp_path):
    with pytest.raises(ValueError, match="dictionary search"):
        search.load(tmp_path)


def test_a_dictionary_of_m_rows_cannot_hold_2m_features():
    known = toy.fit(toy.Setting(8, 4, density=0.05), seeds=4, steps=800)
    *_, last = autoencoder.train(truth.batches(known, 512), 4, torch.tensor([0.2]), steps=600, lr=0.01)
    report = truth.report(last.model, known)
    assert geometry.stored(known.W) == 8
    assert report.recovered[0] <= 4


def test_many_lambdas_train_as_if_alone(known):
    def run(l1: torch.Tensor) -> Autoencoder:
        *_, last = autoencoder.train(truth.batches(known, 256), 10, l1, steps=40)
        return last.model

    together, alone = run(L1S), run(L1S[1:2])
    assert torch.allclose(together.W_dec[1], alone.W_dec[0], atol=1e-4)  # float32, another order of sums


def test_resampling_revives_the_dead():
    model = random_autoencoder(4, 6)
    model = replace(model, b_enc=torch.full_like(model.b_enc, -100.0))
    optimiser = torch.optim.Adam([model.W_enc, model.b_enc, model.W_dec, model.b_dec], lr=0.0)
    x = torch.randn(64, 4, dtype=torch.float64)
    autoencoder.update(model, optimiser, x, torch.tensor(0.1, dtype=torch.float64))
    kept = model.W_dec.detach().clone()
    fired = torch.tensor([True, False, True, False, False, True])
    autoencoder.resample(model, optimiser, fired, x, torch.Generator().manual_seed(0))
    assert torch.equal(model.W_dec.detach()[fired], kept[fired])
    assert (model.W_dec.detach()[~fired].norm(dim=-1) - 1).abs().max() < EXACT
    assert (model.encode(x)[:, ~fired] > 0).any(0).all()  # each now answers to something
    assert (optimiser.state[model.W_enc]["exp_avg"][:, ~fired] == 0).all()


def test_training_says_when_the_data_end():
    with pytest.raises(ValueError, match="after 3 of 10"):
        list(autoencoder.train([torch.randn(5, 4)] * 3, 6, torch.tensor(0.1), steps=10))


def test_splicing_the_true_activations_changes_nothing(small_mlp, prompt):
    run = forward(small_mlp, prompt)
    activation = mlp.activations(small_mlp, mlp.inputs(run))
    assert (features.splice(small_mlp, run, activation) - run.logits).abs().max() < EXACT


def test_splicing_zero_is_a_model_without_values(small_mlp, prompt):
    run = forward(small_mlp, prompt)
    without = forward(replace(small_mlp, W_out=torch.zeros_like(small_mlp.W_out)), prompt)
    assert (
        features.splice(small_mlp, run, torch.zeros(len(prompt), 24, dtype=torch.float64)) - without.logits
    ).abs().max() < EXACT


def test_splicing_needs_one_layer(small, prompt):
    with pytest.raises(ValueError, match="2 layers"):
        features.splice(small, forward(small, prompt), torch.zeros(len(prompt), 24))


def test_features_and_error_sum_to_the_logit(small_mlp, prompt):
    model, run, token = random_autoencoder(24, 40), forward(small_mlp, prompt), 7
    activation = mlp.activations(small_mlp, mlp.inputs(run))[-1]
    f = model.encode(activation[None])[0]
    through = small_mlp.W_out[0] @ small_mlp.W_U[:, token]
    rest = (activation - model(activation[None])[0] + model.b_dec) @ through
    stream = (mlp.inputs(run)[-1] + small_mlp.b_out[0]) @ small_mlp.W_U[:, token]
    total = features.logit_shares(small_mlp, model, f, token).sum() + rest + stream
    assert total.item() == pytest.approx(run.logits[-1, token].item(), abs=EXACT)


def test_logit_effect_is_a_difference_of_logits(small_mlp, prompt):
    model, run = random_autoencoder(24, 40), forward(small_mlp, prompt)
    activation = mlp.activations(small_mlp, mlp.inputs(run))
    change = features.splice(small_mlp, run, activation + model.W_dec[9]) - run.logits
    change = change[3] - change[3].mean()
    assert (features.logit_effect(small_mlp, model, 9) - change).abs().max() < EXACT
    with pytest.raises(ValueError, match="40"):
        features.logit_effect(small_mlp, model, 40)


def test_peak_purity_counts_equal_tokens_of_active_contexts():
    windows = torch.tensor([[0, 5, 6, 5], [0, 5, 7, 8]])
    found = contexts.Contexts(
        window=torch.tensor([[0, 0, 1], [0, 1, 1], [0, 0, 0]]),
        position=torch.tensor([[1, 3, 1], [2, 2, 3], [1, 2, 3]]),
        activation=torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 0.0], [0.0, 0.0, 0.0]]),
    )
    assert features.peak_purity(found, windows).tolist() == [1.0, 0.5, 0.0]


def test_order_puts_matches_on_the_diagonal():
    W = torch.eye(4)
    shuffled = W[[2, 0, 3, 1]]
    cosines = truth.match(W, shuffled)
    assert torch.equal(cosines[:, truth.order(cosines)], torch.eye(4))


def test_losses_are_those_of_edited_models(small_mlp):
    windows = torch.randint(1, 29, (11, 10), generator=torch.Generator().manual_seed(0))
    windows[:, 0] = 0
    model = random_autoencoder(24, 40)
    found = features.losses(small_mlp, model, windows)

    def loss(logits):
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), windows[:, 1:].flatten()).item()

    run = forward(small_mlp, windows)
    no_values = replace(small_mlp, W_out=torch.zeros_like(small_mlp.W_out))
    a = mlp.activations(small_mlp, mlp.inputs(run))
    spliced = features.splice(small_mlp, run, model.decode(model.encode(a)))
    expected = [loss(run.logits), loss(forward(no_values, windows).logits), loss(spliced)]
    assert [found.clean, found.zero, found.spliced] == pytest.approx(expected, abs=1e-5)  # sums are float32
    assert found.recovered == pytest.approx((found.zero - found.spliced) / (found.zero - found.clean))


def test_activation_batches_are_the_activations_once_each(small_mlp):
    windows = torch.randint(1, 29, (5, 12), generator=torch.Generator().manual_seed(0))
    got = torch.cat(list(shipped.activation_batches(small_mlp, windows, seed=3)))
    expected = mlp.activations_on(small_mlp, windows).flatten(0, 1)
    assert got.shape == expected.shape
    assert torch.allclose(got[got.sum(-1).argsort()], expected[expected.sum(-1).argsort()])


def test_training_on_a_model_reaches_the_weights_that_are_returned(small_mlp):
    """The error reported at the end is that of the returned weights, in full precision: no stale copies."""
    weights = small_mlp.map(torch.Tensor.float)
    windows = torch.randint(1, 29, (3000, 12), generator=torch.Generator().manual_seed(0))
    last = []
    model = shipped.train(
        weights,
        windows,
        shipped.Recipe(steps=30, l1=0.01, lr=0.01, resample_at=()),
        lambda steps: map(lambda now: last.append(now) or now, steps),
    )
    x = mlp.activations_on(weights, windows[:200]).flatten(0, 1)
    error = ((x - model(x)).square().sum(-1).mean() / x.square().sum(-1).mean()).item()
    assert error < 0.2
    assert error == pytest.approx(last[-1].error.item(), rel=0.2)  # another sample, and bfloat16's three digits


def test_training_on_a_model_does_not_depend_on_the_scale_of_its_activations(small_mlp):
    weights = small_mlp.map(torch.Tensor.float)
    windows = torch.randint(1, 29, (400, 12), generator=torch.Generator().manual_seed(0))
    recipe = shipped.Recipe(steps=3, resample_at=())
    one = shipped.train(weights, windows, recipe)
    ten = shipped.train(replace(weights, W_in=4 * weights.W_in, b_in=4 * weights.b_in), windows, recipe)
    x = mlp.activations_on(weights, windows[:2]).flatten(0, 1)
    # Powers of two are exact in bfloat16, so even its rounding is the same.
    assert torch.allclose(4 * one(x), ten(4 * x), atol=1e-3)


def test_what_is_saved_is_loaded(tmp_path, small_mlp):
    assets, model = fake_assets(tmp_path), random_autoencoder(24, 40).float()
    windows = torch.randint(0, 29, (3, 12), generator=torch.Generator().manual_seed(0))
    density, numbers = shipped.measure(small_mlp.map(torch.Tensor.float), model, windows)
    shipped.save(model, density, shipped.Recipe(), numbers, assets)
    loaded = shipped.load(assets)
    assert torch.equal(loaded.model.W_dec, model.half().float().W_dec)
    assert torch.equal(loaded.density, density)
    f = model.encode(mlp.activations_on(small_mlp.map(torch.Tensor.float), windows).flatten(0, 1))
    assert loaded.config["held_out"]["dead"] == measures.dead(f).sum().item()
    assert loaded.config["held_out"]["l0"] == pytest.approx(measures.l0(f).item(), abs=1e-4)
    assert density.tolist() == pytest.approx(measures.density(f).tolist())


def fake_assets(tmp_path):
    (tmp_path / "models" / shipped.MODEL).mkdir(parents=True)
    (tmp_path / "models" / shipped.MODEL / "config.json").write_text('{"sha256": "of the weights"}')
    return tmp_path


def test_a_damaged_or_foreign_dictionary_is_refused(tmp_path):
    assets, model = fake_assets(tmp_path), random_autoencoder(4, 6).float()
    with pytest.raises(ValueError, match="cannot be read"):
        shipped.load(assets)
    shipped.save(model, torch.zeros(6), shipped.Recipe(), {}, assets)
    shipped.load(assets)
    (assets / "models" / shipped.MODEL / "config.json").write_text('{"sha256": "of other weights"}')
    with pytest.raises(ValueError, match="other weights"):
        shipped.load(assets)
    file = assets / "dictionary" / "autoencoder.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="damaged"):
        shipped.load(assets)


def test_contexts_of_another_dictionary_are_refused(tmp_path):
    assets = fake_assets(tmp_path)
    shipped.save(random_autoencoder(4, 6).float(), torch.zeros(6), shipped.Recipe(), {}, assets)
    text = torch.randint(0, 29, (3, 12))
    found = contexts.Contexts(torch.zeros(6, 2, dtype=torch.long), torch.ones(6, 2, dtype=torch.long), torch.ones(6, 2))
    contexts.save(assets / shipped.INDEX, found, shipped.load(assets).config["sha256"], contexts.digest(text))
    assert torch.equal(shipped.load_contexts(text, assets).position, found.position)
    with pytest.raises(ValueError, match="dictionary contexts"):
        shipped.load_contexts(text + 1, assets)
