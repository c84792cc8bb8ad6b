"""Model cards, written by code from what was measured; no number on a card was typed."""

from circuits.weights import Head

DESCRIPTION = (
    "No attention, no MLP: `logits = W_E[token] W_U`; `W_pos` is zero. The product *is* the bigram table it learned.",
    "One layer of attention on the stream",
    "Two layers of attention on one stream",
)


def card(name: str, config: dict, log: list[dict]) -> str:
    """Return the model card of one model in Markdown."""
    sections = [
        f"# {name}",
        _what(config),
        "## Data\n\n" + _data(config),
        "## Training\n\n" + _training(config),
        "## Measured\n\n" + _losses(config),
        _heads(config),
        "## Log of the run\n\n" + _log(log),
        "## What it cannot do\n\n" + _limits(config),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _what(config: dict) -> str:
    sizes = ", ".join(f"`{key}` {config[key]}" for key in ("d_model", "n_ctx", "d_vocab"))
    if not config["n_layers"]:
        return f"{DESCRIPTION[0]} Sizes: {sizes}."
    mlp = f", then an MLP (ReLU, `d_mlp` {config['d_mlp']}, the only part with biases)" if "d_mlp" in config else ""
    heads = f"`n_heads` {config['n_heads']}, `d_head` {config['d_head']}"
    return (
        f"{DESCRIPTION[config['n_layers']]}{mlp}. No LayerNorm and no biases elsewhere (zeros are stored where "
        f"TransformerLens expects them), learned positions added at the start. Sizes: {sizes}, {heads}.\n\n"
        "Load it with `circuits.models.load`; the file holds float16 under the key names of TransformerLens' "
        "`boot_native`, and `config.json` its SHA-256."
    )


def _data(config: dict) -> str:
    data = config["data"]
    return (
        f"{data['files']} text files, normalised by `circuits.training.corpus.normalise` and cut into tokens by the "
        f"byte-level BPE in `assets/tokenizer`: {data['training_tokens']:,} tokens to train on. The last 2 % of every "
        f"file, {data['held_out_tokens']:,} tokens, was held out. The models that come with the app were trained on 95 "
        "English novels of 1839-1930 in the public domain: the folder `corpus/` of the GitHub repository "
        "`computationalstylistics/100_english_novels`. The text itself is not part of this project."
    )


def _training(config: dict) -> str:
    recipe = config["recipe"]
    if not config["n_layers"]:
        return _table_training(recipe)
    share = f" The MLP takes {recipe['mlp_lr_share']:g} of that rate." if config.get("d_mlp") else ""
    return _text_training(recipe, config["n_ctx"], share)


def _table_training(recipe: dict) -> str:
    return (
        "The loss of such a model depends on the text through its bigram counts alone, so it was trained on the table "
        f"of counts: {recipe['steps']} steps, each the exact gradient over the whole text (no repeated rows). "
        f"{_optimiser(recipe)} One block of the training text in {recipe['validation_every']} was left out and chose "
        f"the step that was kept: {recipe['kept_step']}."
    )


def _text_training(recipe: dict, n_ctx: int, mlp_rate: str) -> str:
    seen = recipe["steps"] * recipe["rows"] * n_ctx
    return (
        f"{recipe['steps']:,} steps of {recipe['rows']} rows of {n_ctx} tokens ({seen:,} tokens), every row begun by "
        "BOS. Half of the rows repeat up to step 2,500, a third from step 5,000 on: a stretch of random length, then a "
        "block of 4 to 63 tokens tiled to the end; in half of these rows the tokens are random, in half they are text. "
        f"{_optimiser(recipe)}{mlp_rate} Gradient norm clipped at {recipe['clip']:g}. "
        f"Mixed precision: {recipe['precision']}."
    )


def _optimiser(recipe: dict) -> str:
    return (
        f"Learning rate {recipe['peak_lr']:g} after {recipe['warmup']} steps of warm-up, then a cosine to "
        f"{recipe['floor']:.0%} of it; AdamW, betas {tuple(recipe['betas'])}, weight decay {recipe['weight_decay']:g}; "
        f"seed {recipe['seed']}."
    )


def _losses(config: dict) -> str:
    text, repeats = config["measured"]["held_out"], config["measured"]["repeats"]
    rows = [
        ("uniform over the vocabulary", text["uniform"]),
        ("unigram counts", text["unigram"]),
        ("bigram counts, absolute discounting 0.75", text["bigram"]),
        ("**this model**", text["loss"]),
    ]
    lines = [
        "| on the held-out text | nats per token |",
        "|---|---|",
        *(f"| {what} | {loss:.3f} |" for what, loss in rows),
    ]
    return "\n".join(lines) + (
        f"\n\nOver {text['windows']:,} windows of {config['n_ctx']} tokens that begin with BOS, from the float16 file "
        "as shipped, computed in float32. Loss late in the window minus loss early: "
        f"{text['in_context']:+.3f}.\n\n"
        "On random tokens that repeat (16 rows of BOS, 50 random tokens, the same 50 again) the second copy is "
        f"predicted with accuracy **{repeats['copy_accuracy']:.3f}** and loss {repeats['copy_loss']:.3f} nats."
    )


def _heads(config: dict) -> str:
    repeats = config["measured"]["repeats"]
    if not config["n_layers"]:
        return ""
    lines = ["| head | previous token | duplicate token | induction |", "|---|---|---|---|"]
    for layer in range(config["n_layers"]):
        for head in range(config["n_heads"]):
            scores = (f"{repeats[kind][layer][head]:.3f}" for kind in ("previous", "duplicate", "induction"))
            lines.append(f"| {Head(layer, head)} | {' | '.join(scores)} |")
    ablated = config["measured"]["ablated"]
    before, after = (max(map(max, scores["induction"])) for scores in (repeats, ablated))
    return (
        "## Heads\n\nMean attention on the same random repeats (`circuits.induction` defines the three scores).\n\n"
        + "\n".join(lines)
        + f"\n\nWithout {ablated['head']}, the head with the highest previous-token score (its output set to zero), "
        f"the best induction score goes from {before:.3f} to {after:.3f} and the accuracy on the second copy from "
        f"{repeats['copy_accuracy']:.3f} to {ablated['copy_accuracy']:.3f}."
    )


def _log(log: list[dict], n_rows: int = 16) -> str:
    """Return every so many rows of the log as a table, the first and the last among them."""
    chosen = sorted({round(i * (len(log) - 1) / (n_rows - 1)) for i in range(n_rows)})
    if "validation_loss" in log[0]:
        lines = ["| step | loss on the counts | on the part left out |", "|---|---|---|"]
        return "\n".join(
            lines + ["| {step:,} | {train_loss:.3f} | {validation_loss:.3f} |".format(**log[i]) for i in chosen]
        )
    lines = ["| step | held-out loss | second copy | best previous | best induction |", "|---|---|---|---|---|"]
    for row in (log[i] for i in chosen):
        best = " | ".join(f"{max(map(max, row[kind])):.2f}" for kind in ("previous", "induction"))
        lines.append(f"| {row['step']:,} | {row['held_out']:.3f} | {row['copy_accuracy']:.2f} | {best} |")
    return "\n".join(lines) + "\n\nHeld-out loss here is that of 64 windows, in the precision of the run."


def _limits(config: dict) -> str:
    limits = [
        f"{config['data']['tokens_never_seen']} of the {config['d_vocab']:,} tokens (newline, tab and rare bytes among "
        "them) never occur in the training text: what the model does with them is left over from its random start.",
        "It knows the English of novels of 1839-1930, with their words, names and spelling, and with their prejudices "
        "about peoples, classes and women. It has no facts, follows no instructions and is good for study alone.",
    ]
    if config["n_layers"] == 0:
        limits.append("It sees one token: where it stands and what came before make no difference.")
    if config["n_layers"] == 1:
        limits.append(
            "One layer of attention cannot do induction: no head can look for the token *after* an earlier copy, since "
            "a key carries no trace of the token before it. The accuracy on the second copy above is what remains."
        )
    if config["n_layers"]:
        limits += [
            f"It has no positions beyond {config['n_ctx'] - 1}.",
            "It was trained on repeated random tokens beside the text, so that induction could form in a short run: "
            "how early and how strongly it forms here says little about models trained on text alone.",
        ]
    return "\n".join(f"- {limit}" for limit in limits)


def corpus_card(facts: dict[str, int], references: dict[str, float], dropped: dict[str, int]) -> str:
    """Return the note on ``assets/corpus``: what was counted, and what was sampled and dropped."""
    return (
        "# Statistics of the training text\n\n"
        f"`bigrams.npz`: which token follows which, and how often, in {facts['training_tokens']:,} tokens of "
        f"{facts['files']} text files; counts alone, no text. Row 0, BOS, is the unigram counts. Read it with "
        "`circuits.counts.BigramCounts.load`. On the held-out part, "
        f"{facts['held_out_tokens']:,} tokens, unigrams reach {references['unigram']:.3f} nats a token and bigrams "
        f"with absolute discounting {references['bigram']:.3f}.\n\n"
        "`sampled.npz` (`tokens: [window, n_ctx]`): passages written by `one-layer-mlp` (first half) and `two-layer`, "
        "for pages that look through much text. Temperature 0.8, begun by BOS alone; no four tokens in a row come "
        f"twice in a window. Of {dropped['sampled']} windows, {dropped['recited']} were dropped because twelve tokens "
        f"in a row stand in the training or held-out text, {dropped['unfit']} for a rude word; {dropped['kept']} were "
        "kept, unedited. They mean nothing."
        "\n\n"
        "`neuron_contexts.npz`: where each neuron of `one-layer-mlp` is most active in those passages and in the "
        "sample text (`circuits.contexts`).\n"
    )
