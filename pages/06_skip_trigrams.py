"""Claim: a one-layer model is bigrams plus skip-trigrams, all readable from its weights, bugs included.

Elhage et al. 2021, "One-layer attention-only transformers": skip-trigrams, their bugs, copying heads and their
eigenvalues, primitive in-context learning.
"""

import pandas as pd
import streamlit as st
import torch

from circuits import bugs, copying, heads, skip_trigrams, split_tokens, tokens
from circuits.charts import base
from circuits.charts import heads as head_charts
from circuits.charts import skip_trigrams as charts
from circuits.weights import Head
from pages import ui
from pages.ui.cached import heads as cached_heads
from pages.ui.cached import skip_trigrams as cached
from pages.ui.questions import skip_trigrams as questions
from pages.ui.small_matrices import counter_example

TWO_DECIMALS, PERCENT = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="percent")
FORMATS = dict.fromkeys(("QK score", "OV logit", "QK · OV", "lift", "Σλ / Σ|λ|", "sd from null"), TWO_DECIMALS) | (
    dict.fromkeys(("p(out | dest.)", "raises itself", "is its top 1", "in its top 5"), PERCENT)
)
WORST, FOCUS, TYPED = "worst", "in focus", "typed"
LEAST = {"all": 0, "20×": bugs.GOOD_COUNT, "200×": 200}
"""How often a token must occur in the training text to be ranked."""
PICKS = ("destination 1", "out 1", "destination 2", "out 2")

view = ui.begin("skip_trigrams")
weights, model, name = view.weights, view.model, view.model_name


def shown(token: int) -> str:
    return tokens.label(model, token)


def load_bug(table: str) -> None:
    """Put the bug of a ticked row on the first screen."""
    for row in st.session_state[table].selection.rows:
        for pick in PICKS:
            st.session_state.pop(f"skip_trigrams.{pick}", None)
        st.session_state["skip_trigrams.origin"] = TYPED
        st.session_state["skip_trigrams.source"] = cached.text_of(name, cached.worst_bugs(name, *head)[row].source)


def pick(what: str, found: heads.Tokens, default: int) -> int:
    """Ask for one of the tokens found, each with its value."""
    ids = found.ids.tolist()
    names = [f"{i}. {shown(t)}  {v:+.2f}" for i, (t, v) in enumerate(zip(ids, found.values.tolist(), strict=True), 1)]
    first = names[ids.index(default)] if default in ids else names[0]
    return ids[names.index(ui.select(what.capitalize(), names, name=what, default=first))]


# ── The first screen: two trigrams are chosen, two more follow ───────────────────────────────────────────

control, figure = st.columns([1, 1.35], gap="medium")
with control:
    one, two = st.columns([1, 2.4], vertical_alignment="bottom")
    with one:
        head = ui.head("Head", weights.heads, name="head", default=Head(*cached.strongest_head(name)))
    with two:
        origin = ui.choice(
            "Source", (WORST, FOCUS, TYPED), name="origin", help="The worst bug's, the chip above, or yours."
        )
    tables, counts, listed = cached.tables(name, *head), ui.cached.counts(), cached.worst_bugs(name, *head)
    if origin == TYPED:
        source = ui.token("Source token", model, " the", name="source")
    else:
        source = listed[0].source if listed and origin == WORST else view.ids[view.focus]
    at = torch.tensor([source])
    lookers, raised = (
        heads.Tokens(*(found[0] for found in skip_trigrams.top_columns(table, at, cached.seen(), 24)))
        for table in (tables.qk, tables.ov)
    )
    found = bugs.worst_bugs(tables, counts, at)
    start = found[0] if found else bugs.bug(tables, source, *(tuple(t.ids[:2].tolist()) for t in (lookers, raised)))
    st.caption(f"Source {ui.code(shown(source))}. Choose two trigrams, *destination → out*, that you would want:")
    picked = []
    for row in (0, 1):
        left, right = st.columns(2)
        with left:
            picked.append(pick(PICKS[2 * row], lookers, start.destinations[row]))
        with right:
            picked.append(pick(PICKS[2 * row + 1], raised, start.outs[row]))
destinations, outs = tuple(picked[::2]), tuple(picked[1::2])
bug = bugs.bug(tables, source, destinations, outs)

with figure:
    if ui.predict(questions.PREDICTION):
        ui.chart(
            charts.two_by_two(
                bug.table.numpy(),
                [shown(token) for token in destinations],
                [shown(token) for token in outs],
                f"{head}, source {shown(source)}: QK · OV",
            ),
            "You choose the two on the diagonal. The other two come with them, wanted or not.",
            "Two by two table of QK times OV: two chosen skip-trigrams and the two they force",
            key="bug",
        )
        ui.check("|chosen · chosen − forced · forced|", abs(bug.interaction), 1e-9)
        follows = bugs.pair_counts(bug, counts).tolist()
        st.caption(
            "Times the pair *destination, out* occurs in the training text: "
            f"{follows[0][0]:,} and {follows[1][1]:,} chosen, {follows[0][1]:,} and {follows[1][0]:,} forced."
        )

# ── The idea ─────────────────────────────────────────────────────────────────────────────────────────────

V = f"[{weights.d_vocab:,}, {weights.d_vocab:,}], rank ≤ {weights.d_head}"
ui.idea(
    "A one-layer model has two kinds of path. The **direct path** knows the present token only: bigrams (page 3). "
    "Each head adds **skip-trigrams**, *source … destination → out*: it sits at the destination, looks back at the "
    "source however far away, and raises the out token.\n\n"
    "Two tables hold all of them. QK: how strongly a destination looks at a source. OV: what a source raises. They "
    "share only the source. So a head's effect is a product, and a product cannot tell which destination was meant "
    "to go with which out. Those are the **bugs**.\n\n"
    "QK scores are divided by $\\sqrt{d_{head}}$ and centred over keys for each destination: adding any function of "
    "the destination alone changes no attention. This model also has positions in its stream; the tables rank the "
    "token–token part.",
    r"f(s, d, o) = \mathrm{QK}[d, s]\cdot \mathrm{OV}[s, o]",
    {
        "s, d, o": "source, destination, out: tokens",
        r"\mathrm{QK}": f"$W_E W_{{QK}} W_E^\\top/\\sqrt{{{weights.d_head}}}$, rows centred, {V}",
        r"\mathrm{OV}": f"$W_E W_{{OV}} W_U$, {V}",
        "f": "for one source a table of rank 1",
    },
    paper=r"T = \mathrm{Id}\otimes W_U W_E + \sum_h A^h \otimes (W_U W_{OV}^h W_E)",
)

st.markdown("#### The worst bugs of this head")
bug_list = f"worst bugs of {head}"
st.dataframe(
    charts.bug_table(listed, shown),
    hide_index=True,
    key=bug_list,
    on_select=lambda: load_bug(bug_list),
    selection_mode="single-row",
    height=230,
)
st.caption(
    f"Searched among the head's strongest sources. *Good*: the pair occurs at least {bugs.GOOD_COUNT} times in the "
    "training text; *forced*: it never does. The counts know the pair, not the source. Tick a row to load it above."
)
left, right = st.columns([1.2, 1], gap="medium")
with left:
    st.markdown(
        "**And with the softmax?** Then the first factor is the attention that the source gets, which depends on all "
        "that stands before. It is still one number per destination, so the table still has rank 1. Beside: what the "
        "head adds to the logits for your trigrams, on the texts *BOS source destination*. Attention is at most 1, so "
        "these are logits; QK · OV above is a score times a logit, and ranks."
    )
    earnest = bugs.on_prompt(weights, head, bug)
    ui.check("|interaction| with attention", abs(bugs.interaction(earnest)), 1e-4)
with right:
    rows, columns = ([f"{i}. {shown(token)}" for i, token in enumerate(ids, 1)] for ids in (destinations, outs))
    st.dataframe(pd.DataFrame(earnest.numpy().round(5), index=rows, columns=columns))

st.markdown(f"#### On your text, from position {view.focus}, {ui.code(view.labels[view.focus])}")
st.dataframe(
    charts.active_table(skip_trigrams.active(weights, view.run, view.focus), view.unique_labels, shown),
    hide_index=True,
    column_config={column: TWO_DECIMALS for column in ("attention", "the first by")},
)
st.caption(
    "Each row is a skip-trigram at work: the source that the head looks at most, and what that adds to the logits, "
    "attention times OV, above the mean of all tokens. Click another token above. A head that rests on BOS has found "
    "nothing to look at: it adds the same whatever the text."
)

# ── The explorer ─────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### Explorer: fix one or two, rank the rest over the whole vocabulary")
roles = {"source": " under", "destination": " the", "out": " circumstances"}
one, *columns = st.columns([1.4, 1, 1, 1], gap="small")
with one:
    fixed = st.pills(
        "Fix", roles, selection_mode="multi", default=["destination"], key="skip_trigrams.fix", persist_state="session"
    )
chosen = {}
for column, (role, default) in zip(columns, roles.items(), strict=True):
    if role in fixed:
        with column:
            chosen[role] = ui.token(role.capitalize(), model, default, name=f"explore {role}")
one, two, three = st.columns(3, vertical_alignment="bottom")
with one:
    by = ui.choice("Rank by", ("QK · OV", "QK", "OV"), name="by")
with two:
    which = ui.choice(
        "OV of", ("this head", "all heads"), name="ov", help="OV tables add. QK tables do not: a softmax lies between."
    )
with three:
    least = ui.choice("Tokens seen in training", tuple(LEAST), name="least", default="200×", help="At least so often.")
explored = cached.tables(name, *head, all_heads=which == "all heads")
ranking = skip_trigrams.rank(
    explored,
    **chosen,
    by={"QK · OV": "product", "QK": "qk", "OV": "ov"}[by],
    k=25,
    among=cached.seen(LEAST[least]) if LEAST[least] else None,
)
triples = zip(ranking.source.tolist(), ranking.destination.tolist(), ranking.out.tolist(), strict=True)
relations = [split_tokens.relation(model, *triple) for triple in triples]
support = skip_trigrams.support(ranking, counts)
st.dataframe(
    charts.ranking_table(ranking, support, relations, shown), hide_index=True, height=300, column_config=FORMATS
)
if not relations:
    st.caption("No such trigram has both factors positive. Rank by QK or by OV to see it all the same.")
unseen = int((counts.unigrams[ranking.out] < bugs.GOOD_COUNT).sum())
if unseen:
    st.caption(
        f":orange[{unseen} of these out tokens hardly occur in the training text: nothing taught them anything.]"
    )
st.caption(
    "By *QK · OV* all free triples compete where both factors are positive (two negatives would only look like a "
    "plus). By *QK* or *OV* pairs compete, each with its best partner. Corpus columns: how often destination → out "
    "occurs, and how many times more often than by chance (lift). *copies*: out is the source; *completes*: "
    "destination + out spell it."
)
ui.check("max |QK listed − its definition in float64|", skip_trigrams.definition_error(weights, head, ranking), 1e-3)
with st.expander("Phrases the paper found in its models: are they in this one?", icon=":material/manage_search:"):
    st.dataframe(charts.phrase_table(cached.paper_phrases(name)), hide_index=True, column_config=FORMATS)
    st.caption("The phrases are the paper's, from models trained on other text; the numbers are this model's.")

# ── Copying ──────────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### Which heads copy?")
scores, null = cached_heads.copying_scores(name), cached_heads.null(name)
board = charts.scoreboard(scores, null, cached_heads.self_counts(name), copying.chance_counts(weights.d_vocab))
left, right = st.columns([1, 1.5], gap="medium")
with left:
    figure = head_charts.scores_with_null([str(h) for h in scores], list(scores.values()), null.mean, null.sd)
    ui.chart(
        figure, "Right of the band: more than random heads show.", "Copying scores and null", key="scores", table=board
    )
    count = sum(null.z(score) > 2 for score in scores.values())
    ui.measure("heads that copy, at 2 sd", f"{count} of {len(scores)}", "(the paper, in its model: 10 of 12)")
with right:
    st.dataframe(board, hide_index=True, column_config=FORMATS)
    st.caption(
        "Four statistics of one table: the eigenvalue score; and for how many of all tokens a token raises itself at "
        "all, most of all, or among its first five. Random heads are random W_V, W_O between this model's "
        f"embeddings; a plain Gaussian circuit would have sd 1.5 / d_head = {copying.GAUSSIAN_SD / weights.d_head:.3f}."
    )
random = cached_heads.null_eigenvalues(name)[:6].flatten().numpy()
ui.chart(
    head_charts.discs(
        {str(h): copying.ov_eigenvalues(weights, h).numpy() for h in weights.heads},
        {str(h): random * copying.head_size(weights, h) for h in weights.heads},
    ),
    "Orange: the head's eigenvalues. Grey: random heads of its size; 95 % lie in the circle, whose radius is "
    f"the unit; what lies beyond {head_charts.RIM:g} is drawn there. Orange far to the right means copying.",
    "Eigenvalues of every head's OV circuit in the complex plane, over those of random heads",
    key="discs",
)
with st.expander("Why positive eigenvalues are no proof: edit a 2 × 2 circuit", icon=":material/grid_on:"):
    counter_example()

# ── Split tokens ─────────────────────────────────────────────────────────────────────────────────────────

st.markdown("#### A crude kind of induction: words that fall apart")
left, right = st.columns([1, 1.2], gap="medium")
gains = cached.split_gains(name)
best = [f"{shown(p.joined)} … {shown(p.first)} → {shown(p.second)}" for p in gains.pairs[:12]]
with left:
    st.markdown(
        "A word may be one token after a space and two without it: *[ab]*, but *[a][b]*. A head can then learn "
        "*[ab] … [a] → [b]*: from the first piece it looks back at the whole word and raises the second piece. The "
        "tokenizer is searched for capitalised words of this kind, and each is tried: does it help to predict [b] "
        "that the word stood earlier, compared with another of these words in its place?"
    )
    ui.measure("mean gain", f"{float(gains.gain.mean()):+.3f} nats", f"over {len(gains.pairs)} words")
    ui.measure("words helped", f"{float((gains.gain > 0).double().mean()):.0%}", "(chance: 50%)")
with right:
    figure = head_charts.token_bars(
        best,
        gains.gain[:12].tolist(),
        title="The words helped most",
        unit="gain in ln p, nats",
        colour=base.OV,
        height=300,
    )
    ui.chart(figure, "The best of many, picked after the fact: read the mean too.", "Gains of split words", key="split")

# ── Positions and ablation ───────────────────────────────────────────────────────────────────────────────

st.markdown("#### Heads that look by position, and what each head is worth")
left, middle, right = st.columns([1.1, 1.2, 1], gap="medium")
with left:
    positions = heads.centre_visible(heads.positional_circuit(weights, head)).numpy()
    numbers = [str(i) for i in range(len(positions))]
    figure = base.heatmap(
        positions, numbers, numbers, title=f"{head}: W_pos W_QK W_posᵀ", unit="score", diverging=True, height=280
    )
    caption = "Rows centred. A stripe along the diagonal is a fixed offset."
    ui.chart(figure, caption, "Positional scores", key="positional", table=pd.DataFrame(positions))
with middle:
    offsets = cached.offsets(name)[0, :, :12]
    figure = base.curves(
        {str(h): offsets[h.head].tolist() for h in weights.heads},
        range(12),
        title="Mean attention, sample text",
        x_title="tokens back (0 = itself)",
        y_title="attention",
        height=280,
    )
    ui.chart(figure, "A peak at one offset: a positional head. BOS is left out.", "Attention by offset", key="offsets")
with right:
    costs = cached.costs(name)
    names = [str(h) for h in costs.heads]
    figure = base.bars(
        names,
        costs.rise.tolist(),
        title="Loss added without it",
        unit="nats",
        colours=[base.REMOVED] * len(names),
        height=280,
    )
    caption = f"All heads on: {costs.loss:.3f} nats a token, sample text. Rises do not add up: heads share work."
    ui.chart(figure, caption, "Loss added when a head is silenced", key="costs")

# ── By hand, exercises, code ─────────────────────────────────────────────────────────────────────────────

ui.by_hand(
    "why two good trigrams force two bad ones",
    "For the source *keep*, say QK gives destination *in* 2 and *at* 3; OV gives out *mind* 5 and *bay* 4. "
    "Wanted: in → mind = 2 · 5 = 10, at → bay = 3 · 4 = 12. Forced: in → bay = 2 · 4 = 8, at → mind = 3 · 5 = 15. "
    "10 · 12 = 8 · 15 = 120, whatever the numbers. (The phrases are the paper's, the numbers made up.)",
)
ui.exercises(*questions.exercises(scores, null))
ui.show_code(
    skip_trigrams.rank,
    skip_trigrams.row_maxima,
    bugs.bug,
    bugs.worst_bugs,
    copying.copying_score,
    copying.self_counts,
    split_tokens.split_gains,
    call="from circuits.copying import ov_eigenvalues\n"
    f"copying_score(ov_eigenvalues(weights, Head{tuple(head)})).item()",
    gives=scores[head],
)
ui.limits(
    "The largest entries of a table are shown because they are large; they are not a head's average behaviour, nor "
    "what matters most for the loss. Heads share work, positions add to every score, and sources compete in a softmax."
)
ui.takeaways(
    "A skip-trigram is source … destination → out; the source may be far away.",
    "QK and OV share only the source, so good trigrams of one head force bad ones.",
    "Positive eigenvalues suggest copying. Compare them with random heads, and with the diagonal itself.",
)
ui.end(view)
