"""Should I join? What the federation gains each client over training alone, on its own nodes.

Where sums are secure only a client has its own figures: :func:`join_page` is written there.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from autofgl.report.charts.figures import Cells, table_figure
from autofgl.report.numbers import NOTHING, count, is_number, percent
from autofgl.report.page import Content, Section, element, page
from autofgl.report.record import RunRecord

#: Keys of a client's line that this section shows.
SHOWN = frozenset(
    f"{name}{part}"
    for name, parts in {
        "alone": ("_val_accuracy", "_test_accuracy"),
        "common": ("_val_accuracy", "_test_accuracy"),
        "gain": ("", "_val", "_low", "_high"),
        "over_common": ("", "_val", "_low", "_high"),
    }.items()
    for part in parts
)
_COMPARED = ("gain", "gain_low", "gain_high", "test_accuracy", "alone_test_accuracy")


class JoinAnswer(NamedTuple):
    """An answer, and what it rests on."""

    answer: Literal["yes", "no", "open"]
    sentence: str


def answer_for(line: Mapping[str, Any]) -> JoinAnswer | None:
    """What a client's own test nodes say; none where it was not compared with itself alone."""
    if not all(is_number(line.get(key)) for key in _COMPARED):
        return None
    if not line.get("test"):
        return JoinAnswer("open", "It has no test nodes, so that nothing can be said.")
    low, high = line["gain_low"], line["gain_high"]
    answer: Literal["yes", "no", "open"] = "yes" if low > 0 else "no" if high < 0 else "open"
    words = {
        "yes": "Yes: the federation gains it something.",
        "no": "No: it is better off alone.",
        "open": "Open: its test nodes show no clear difference.",
    }[answer]
    return JoinAnswer(
        answer,
        f"{words} Of {count(line['test'])} test nodes the model that the federation leaves it has "
        f"{percent(line['test_accuracy'])} right, the one that it trains alone "
        f"{percent(line['alone_test_accuracy'])}: {_points(line['gain'])} points (95 % interval "
        f"{_points(low)} to {_points(high)}).",
    )


def joining_section(run: RunRecord) -> Content:
    """The answers of all clients, or how many they are where sums are secure."""
    lines = list(run.clients.values())
    judged = [(line, one) for line in lines if (one := answer_for(line)) is not None]
    if not judged:
        return _sums_only(run)
    answers = [one.answer for _, one in judged]
    said = (
        f"{answers.count('yes')} of {len(judged)} clients gain clearly over training alone, "
        f"{answers.count('no')} lose clearly, and for {answers.count('open')} their test nodes "
        "show no clear difference (95 % intervals, paired by nodes)."
    )
    return [element("p", said), _table([(line, one.answer) for line, one in judged])]


def _sums_only(run: RunRecord) -> Content:
    kinds = [run.result.get(f"clients_{kind}") for kind in ("better", "same", "worse")]
    if not all(map(is_number, kinds)):
        return None
    return element(
        "p",
        f"On their validation nodes {kinds[0]} clients are better than alone, {kinds[1]} the same, "
        f"{kinds[2]} worse. More is known to each client only: a site finds its own page, "
        "SITE.join.html, in its folder.",
    )


def _table(judged: list[tuple[Mapping[str, Any], str]]) -> Content:
    common = any(is_number(line.get("over_common")) for line, _ in judged)
    headings = ["client", "join?", "its model", "alone", "gain, points", "95 % interval"]
    headings += ["common model", "over it, points"] * common
    rows = []
    for line, answer in judged:
        row: list[Content] = [str(line["name"]), answer]
        row += [_share(line, "test_accuracy"), _share(line, "alone_test_accuracy")]
        row += [_points(line["gain"]), _interval(line, "gain")]
        if common:
            over = line.get("over_common")
            known = _points(over) if is_number(over) else NOTHING
            row += [_share(line, "common_test_accuracy"), known]
        rows.append(row)
    cells = Cells(tuple(headings), rows, frozenset(range(2, len(headings))))
    return table_figure("Each client on its own test nodes", cells)


def join_page(line: Mapping[str, Any], title: str) -> str | None:
    """A client's own page; none where it was not compared with itself alone."""
    said = answer_for(line)
    if said is None:
        return None
    rows: list[list[Content]] = []
    rivals = (("alone", "trained alone", "gain"), ("common", "common model", "over_common"))
    for who, words, gain in rivals:
        if not is_number(line.get(gain)):
            continue
        shares = [_share(line, f"{who}_val_accuracy"), _share(line, f"{who}_test_accuracy")]
        gains = [_points(line[f"{gain}_val"]), _points(line[gain]), _interval(line, gain)]
        rows.append([words, *shares, *gains])
    own: list[Content] = [_share(line, "val_accuracy"), _share(line, "test_accuracy")]
    headings = (
        "model", "validation accuracy", "test accuracy", "gain on validation, points",
        "gain on test, points", "95 % interval",
    )  # fmt: skip
    cells = Cells(
        headings, [["its own in the end", *own, "", "", ""], *rows], frozenset(range(1, 6))
    )
    sizes = ", ".join(f"{count(line[key])} {key}" for key in ("train", "val", "test"))
    header = element(
        "header",
        element("p", "AutoFGL", class_="kicker"),
        element("h1", f"{line['name']}: should I join?"),
        element("p", f"{title}. Labeled nodes: {sizes}."),
        class_="top",
    )
    notes = (
        "This page was written where the data are, and nothing of it was sent to anybody.",
        "Validation nodes chose the models, so that gains on them flatter; test nodes did not.",
    )
    body = [table_figure("On its own nodes", cells), *(element("p", one) for one in notes)]
    return page(str(line["name"]), header, [Section("Answer", element("p", said.sentence)),
                                            Section("Figures", body)])  # fmt: skip


def _share(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    return percent(value) if is_number(value) else NOTHING


def _interval(line: Mapping[str, Any], gain: str) -> str:
    return f"{_points(line[f'{gain}_low'])} to {_points(line[f'{gain}_high'])}"


def _points(value: float) -> str:
    """A difference of accuracies in points, with its sign."""
    return f"{100 * value:+.1f}"
