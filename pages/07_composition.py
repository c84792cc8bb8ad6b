"""Claim: second-layer heads read what first-layer heads wrote, and a norm measured against chance says who reads whom.

Elhage et al. 2021, "Two-layer attention-only transformers": composition, its scores (with the later
correction), virtual attention heads, term importance.
"""

import streamlit as st
import torch

from circuits import composed, composition, heads, induction, term_importance, tokens
from circuits.charts import base
from circuits.charts import composition as charts
from circuits.composition import KINDS
from pages import ui
from pages.ui.cached import composition as cached
from pages.ui.questions import composition as questions

AS_TRAINED = "as trained"
ANGLES = (AS_TRAINED, *(f"{degrees}°" for degrees in range(90, -1, -5)))

view = ui.begin("composition")
weights, run, name, labels = view.weights, view.run, view.model_name, view.labels
writers, readers = ([head for head in weights.heads if head.layer == layer] for layer in (0, 1))
usual_first, usual_second = cached.pair_of_interest(name)


def pick(kind: str, board: str) -> None:
    """Take a click on a board as the choice of a kind and a pair."""
    for point in st.session_state[board].selection["pair"]:
        st.session_state["composition.kind"] = kind
        st.session_state["composition.first"] = str(writers[point["query"]])
        st.session_state["composition.second"] = str(readers[point["key"]])


def show(column, values: torch.Tensor, title: str, caption: str, key: str, unit="attention", top=1.0) -> None:
    """Show a map over the prompt's tokens; three stand in a row, so the caption tells the scale."""
    signed = unit == "score"
    figure = charts.prompt_map(values.numpy(), labels, title=title, unit=unit, top=top, diverging=signed)
    with column:
        ui.chart(figure, f"{caption} Colour: {unit}, {'±' if signed else '0 to '}{top:.3g}.", title, key=key)


turn, figure = st.columns([1, 1.5], gap="medium")
with turn:
    slider, choices = st.container(), st.columns([1.3, 1, 1])
with choices[0]:
    kind = ui.choice("Through", KINDS, name="kind", default="K", help="The later head's queries, keys or values.")
with choices[1]:
    first = ui.head("Writes", writers, name="first", default=usual_first)
with choices[2]:
    second = ui.head("Reads", readers, name="second", default=usual_second)
with slider:
    words = f"Angle between what {first} writes and what {second} reads"
    angle = ui.select_slider(words, ANGLES, AS_TRAINED, name="angle")
turned = weights
if angle != AS_TRAINED:
    turned = composition.turn_writer(weights, first, second, kind, float(angle.removesuffix("°")))
chance, flat = composition.chance(weights), composition.flat_match(weights)
trained, now = (composition.composition_scores(w, kind)[first + second].item() for w in (weights, turned))
right_boards = cached.boards(name, False)
with figure:
    marks = {"0": 0.0, "chance, 1/√d_model": chance, "flat match, 1/√d_head": flat}
    ui.chart(
        charts.needle(now, trained, marks, f"{kind}-composition score of {first} → {second}"),
        f"Triangle: {now:.3f}, {now / chance:.2f} × chance. Circle: as trained. At 90° {second} reads nothing of "
        f"{first} there.",
        "The composition score on a line from zero over chance to a flat perfect match",
        key="needle",
    )

if ui.predict(questions.prediction(right_boards)):
    places, note = st.columns(3), st.columns([3, 1.2])
    note[0].caption("Rows write, columns read. 1.0 is chance; orange is above. Click a cell to choose a pair.")
    with note[1]:
        erratum = ui.toggle("As first published", name="erratum", help="With the mistake: see the erratum below.")
    boards = cached.boards(name, erratum)
    top = max(2.0, *(float(board.max()) for board in boards.values()))
    for column, each in zip(places, KINDS, strict=True):
        # A key of its own for every choice: a click is always a new one, and nothing stays selected.
        key = f"board {each} {first} {second} {kind} {erratum}"
        board = charts.board(
            boards[each],
            [str(head) for head in writers],
            [str(head) for head in readers],
            title=f"{each}: into {questions.INPUTS[each].lower()}, × chance",
            top=top,
            chosen=(first.head, second.head) if each == kind else None,
        )
        with column:
            st.altair_chart(board, key=key, on_select=lambda each=each, key=key: pick(each, key), alt=f"Board {each}")
ui.check("max |low-rank score − dense score|, all pairs and kinds", cached.dense_gap(name), 1e-5)

st.markdown(f"#### On your text: what {first} hands to {second}")
pattern = composed.composed_pattern(turned, run, first, second, kind)
left, middle, right = st.columns(3)
show(left, run.pattern[first], f"Pattern of {first}", "Where the earlier head looks.", "first")
handed, before = (composed.handed(w, run, first, second, kind) for w in (turned, weights))
if kind == "V":
    note = (
        "Both patterns in a row, times the length moved: V-composition changes what is moved, not where a head looks."
    )
    title, unit = f"Carried by {first} → {second}", "length"
else:
    note = f"What {first} wrote into the {questions.INPUTS[kind].lower()} of {second}, as scores; rows are centred."
    title, unit = f"Scores through {first}", "score"
# One scale for the turned and the trained head, so that what is turned away fades.
top = float(torch.maximum(handed.abs(), before.abs()).max()) or 1.0
show(middle, handed, title, note, "middle", unit, top)
spread, before = (composed.effective_keys(p) for p in (pattern, run.pattern[second]))
note = f"Where the later head looks: {spread:.1f} tokens a row; as trained {before:.1f}."
show(right, pattern, f"Pattern of {second}, {angle}", note, "second")
targets = induction.induction_targets(torch.tensor(view.ids))
if targets.any():
    seen, before = (f"{induction.target_score(p, targets):.2f}" for p in (pattern, run.pattern[second]))
    ui.measure(f"attention of {second} to what followed an earlier copy", seen, f"as trained `{before}`")

mean, deviation = cached.null(name, kind)
ui.idea(
    "A head writes into d_head directions of the stream, and reads from d_head of them. If a later head reads where "
    "an earlier one writes, the two **compose**: through the later head's *queries* or *keys* (it looks somewhere "
    "else), or through its *values* (it moves something else).\n\nThe score is the norm of the product over the "
    f"product of the norms. It needs a scale. **Chance** is $1/\\sqrt{{d_{{model}}}} = {chance:.4f}$, whatever d_head "
    f"is. Perfectly matched subspaces with flat spectra reach only $1/\\sqrt{{d_{{head}}}} = {flat:.4f}$. This "
    f"model's own matrices, turned at random, score {mean:.2f} ± {deviation:.2f} × chance ({kind}): luck goes "
    "so far.",
    r"\text{score}_K = \frac{\lVert W_{OV}^{1}\, W_{QK}^{2\,\top} \rVert_F}"
    r"{\lVert W_{OV}^{1} \rVert_F\, \lVert W_{QK}^{2} \rVert_F}",
    {
        "W_{OV}^1": f"$W_V W_O$ of the earlier head, {weights.d_model} × {weights.d_model}, rank {weights.d_head}",
        "W_{QK}^2": "$W_Q W_K^\\top$ of the later head, as large (Q: not transposed; V: $W_{OV}^2$ in its place)",
        r"\lVert \cdot \rVert_F": r"Frobenius norm; $\mathbb{E}_R \lVert A R B \rVert^2 = \lVert A \rVert^2 \lVert B "
        r"\rVert^2 / d_{model}$ for random rotations $R$",
    },
    r"\text{score}_K = \frac{\lVert W_{QK}^{2}\, W_{OV}^{1} \rVert_F}"
    r"{\lVert W_{QK}^{2} \rVert_F\, \lVert W_{OV}^{1} \rVert_F}",
)
ui.by_hand(
    "for matrices of rank one the score is a cosine",
    "Let the earlier head write all along w = (1, 0), and the later one read along r = (0.6, 0.8). The product keeps "
    "w · r = 0.6 of what is written, and both norms cancel: **0.6**, the cosine of 53°. With d_head directions a head "
    "spreads its norm over all of them, so that even a perfect match scores 1/√d_head.",
)

st.markdown("#### The erratum: a norm is not a trace")
words, plot = st.columns([1, 1.3], gap="medium")
pair, example = f"{first} → {second}", composition.erratum_example(weights, first, second)
with words:
    st.markdown(
        "The paper's figure was first drawn with a mistake, which its authors corrected. To save work, a product of "
        "four matrices was turned round like a wheel, $W_V W_O W_K W_Q^\\top \\to W_Q^\\top W_V W_O W_K$. That keeps "
        "the **trace** and the **eigenvalues**, not the **Frobenius norm**. The turned product is large only where "
        "the later head's *query* is also read from what the earlier head *reads*: nearly a detector of induction. "
        f"Its chance level is $\\sqrt{{d_{{head}}}}/d_{{model}} = {composition.cyclic_chance(weights):.4f}$."
    )
    ui.check(f"|trace − trace|, {pair}", example.trace_gap, 1e-4 * max(1.0, example.norm))
    ui.measure("norm of the product", f"{example.norm:.1f}", f"turned round `{example.cyclic_norm:.1f}`")
    moved, moved_cyclic = cached.gauge_moves(name)
    ui.check("score moved by re-writing heads (W_Q R, W_K R⁻ᵀ, W_V R, R⁻¹ W_O), × chance", moved, 1e-3)
    ui.measure("the turned score moves by", f"{moved_cyclic:.2f}", "× its chance: it is no property of the head")
with plot:
    cyclic, pairs = cached.boards(name, True)[kind].ravel(), [f"{a} → {b}" for a in writers for b in readers]
    ui.chart(
        charts.erratum(right_boards[kind].ravel(), cyclic, pairs, pair, f"{kind}-composition by both formulas"),
        "Pairs far to the right but low compose, and the mistake hid them. Dashed: chance.",
        "Scatter of corrected against first published scores of all pairs",
        key="erratum",
    )

st.markdown(f"#### The virtual head {pair}")
virtual = composed.virtual_head(weights, run, first, second)
left, middle, right = st.columns(3)
show(left, virtual.pattern, f"A of {second} × A of {first}", "Two looks in a row.", "virtual")
with middle:
    source = ui.select("Moved from", view.unique_labels, name="source", default=view.unique_labels[view.focus])
    x = run.resid_pre[first.layer, view.unique_labels.index(source)]
    most = heads.top_tokens(x @ virtual.W_OV.A @ virtual.W_OV.B @ weights.W_U, 10)
    names = tokens.labels(view.model, most.ids.tolist())
    ui.chart(
        base.bars(names, most.values.tolist(), title="What it raises", unit="logit, if fully attended", height=300),
        "The ten tokens that W_OV¹ W_OV² raises most from there.",
        "Bars: logits that the virtual head adds for one source",
        key="raised",
    )
with right:
    n_layers = ui.slider("Layers of a model", 2, 12, 2, name="layers")
    n_heads = ui.slider("Heads in each", 1, 12, 8, name="heads")
    for order in range(1, min(n_layers, 4) + 1):
        what = "heads" if order == 1 else f"virtual heads made of {order}"
        st.markdown(f"**{composed.n_virtual_heads(n_layers, n_heads, order):,}** {what}")
    st.caption("Choose the layers, then one head in each. Pairs grow with the square of the layers.")
ui.check("A² A¹ is a pattern: max |row sum − 1|", (virtual.pattern.sum(-1) - 1).abs().max().item(), 1e-5)

st.markdown("#### Term importance: what each order is worth")
st.markdown(
    "Freeze the patterns of a normal run. Run again; every head computes its output but adds *nothing*: that is the "
    "direct path. Run again, adding what was saved the run before: paths of at most one head. Once more: two. "
    "Patterns are given for free, so this is about V-composition only."
)
size, asked = st.columns(2)
with size:
    n_windows = int(ui.choice("Windows of the sample text", cached.SIZES, name="windows", default="8"))
with asked:
    each = ui.choice("What is each … worth?", cached.EACH, name="each")
wanted = (name, n_windows, each)
if not cached.known(*wanted):
    if st.session_state.get("composition.asked") == wanted:
        bar = st.progress(0.0, "Freeze, run, replace …")
        cached.importance(*wanted, lambda share: bar.progress(min(share, 1.0), "Freeze, run, replace …"))
        bar.empty()
    else:
        ask = {"on_click": st.session_state.__setitem__, "args": ("composition.asked", wanted)}
        st.button("Measure", icon=":material/play_arrow:", **ask)
if cached.known(*wanted):
    found = cached.importance(*wanted, lambda share: None)
    if each == "order":
        paper = [step.reduction for step in term_importance.PAPER_ORDERS]
        ui.chart(
            charts.reductions(found.reductions, paper, "Taken off the loss by each order, beginning at ln V"),
            f"Ours: from ln V = {found.uniform:.2f} to {', '.join(f'{loss:.2f}' for loss in found.losses)} nats. The "
            "paper's bars are from published notes on its figure; model and text differ, so compare shapes.",
            "Bars of the loss reduction by order, this model beside the paper's",
            key="orders",
        )
        error = abs(sum(found.reductions) - (found.uniform - found.losses[-1]))
        ui.check("|Σ reductions − (ln V − loss)|", error, 1e-6)
    else:
        who = (
            [f"layer {layer}" for layer in range(weights.n_layers)]
            if each == "layer"
            else list(map(str, weights.heads))
        )
        alone, marginal = ([getattr(item, side) for item in found] for side in ("alone", "marginal"))
        low, high = term_importance.PAPER_LAYERS
        ui.chart(
            charts.groups(who, alone, marginal, f"What each {each} is worth, at first order"),
            "Heads share work, so the two answers differ. In the paper's model, from published notes on its figure: "
            f"layer 0 {low.alone} alone and {low.marginal} given the rest, layer 1 {high.alone} and {high.marginal}.",
            f"Bars of the importance of each {each}",
            key="groups",
        )

ui.exercises(*questions.exercises(name, right_boards["K"], usual_second))
ui.show_code(
    composition.composition_scores,
    composition.cyclic_scores,
    composition.turn_writer,
    composed.virtual_head,
    term_importance.streams_by_order,
    call=f'composition_scores(weights, "{kind}")[{", ".join(map(str, first + second))}].item()',
    gives=trained,
)
ui.limits(
    "A score compares matrices. It does not know how long the vectors are that really pass, nor whether the later "
    "head's pattern lets them through: a high score is a place to look, and only an intervention shows a cause."
)
ui.takeaways(
    "Heads compose through queries, keys or values; a score means something only against chance, 1/√d_model.",
    "A norm is not a trace: what is right for eigenvalues gave a wrong figure, and the right one shows more "
    "composition.",
    "Virtual heads are pairs acting as one. Term importance says what they are worth, and nothing of Q and K.",
)
ui.end(view)
