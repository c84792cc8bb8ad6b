"""The texts of the glossary are complete, and the search finds them."""

import pytest

from circuits import glossary

TERMS_WANTED = """residual stream, virtual weights, privileged basis, bottleneck activation, subspace, bandwidth,
memory management, head, attention pattern, attention score, causal mask, value-weighted attention, QK matrix,
QK circuit, OV matrix, OV circuit, direct path, path expansion, order of a path, frozen attention, skip-trigram, bug,
copying matrix, eigenvalue score, positional head, previous-token head, duplicate-token head, induction head,
prefix matching, K-composition, composition score, virtual head, term importance, direct logit attribution,
logit lens, LN folding, nat, cross-entropy, bigram, in-context score, phase change, smeared key, key-value memory,
superposition, interference, feature dimensionality, SAE, dead feature, ablation, activation patching, path patching,
attribution patching, ACDC, causal scrubbing, faithfulness"""


def test_every_term_a_reader_will_look_up_is_there_once():
    names = [name for term in glossary.terms() for name in term.names]
    assert len(names) == len(set(names))
    missing = {name.strip() for name in TERMS_WANTED.replace("\n", " ").split(",")} - set(names)
    assert not missing


@pytest.mark.parametrize("term", glossary.terms(), ids=lambda term: term.name)
def test_a_term_is_defined_in_sentences_and_has_a_shape(term):
    assert term.definition.endswith(".")
    assert 60 < len(term.definition) < 450
    assert term.shape


def test_terms_are_in_the_order_of_the_alphabet():
    names = [term.name.lower() for term in glossary.terms()]
    assert names == sorted(names)


def test_search_puts_names_before_definitions():
    found = glossary.search("Virtual HEAD")
    assert found[0].name == "virtual head"
    assert "order of a path" in [term.name for term in found[1:]], "its definition speaks of virtual heads"


def test_search_for_nothing_returns_all_and_for_nonsense_none():
    assert glossary.search("  ") == glossary.terms()
    assert glossary.search("xyzzy $a$ <b>") == ()


def test_an_abbreviation_finds_its_term():
    assert glossary.search("SAE")[0].name == "sparse autoencoder"
    assert glossary.search("DLA")[0].name == "direct logit attribution"


@pytest.mark.parametrize(
    "topic",
    ["convention", "approximate", "arXiv", "correction", "big models", "induction heads", "eigenvalues", "Norm"],
)
def test_the_questions_that_must_be_answered(topic):
    assert any(topic in question.question for question in glossary.questions())
