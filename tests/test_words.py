"""Whatever a user reads is plain American English in the field's own words."""

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import autofgl
from autofgl.cli import app
from autofgl.graphs.catalog import DATASETS, PARTITIONERS, DataSettings, PartitionSettings
from autofgl.methods.catalog import METHODS, settings_of
from autofgl.methods.privacy import WHO_LEARNS_WHAT

ROOT = Path(__file__).parents[1]
SOURCE = Path(autofgl.__file__).parent
PAGES = [*ROOT.glob("*.md"), ROOT / "mkdocs.yml", ROOT / "Makefile", *ROOT.glob("docs/**/*.md")]
PAGES += [*ROOT.glob("examples/*.py"), *SOURCE.rglob("*.yaml"), *SOURCE.rglob("*.js")]

#: Words that we once gave a meaning of our own, wherever they stand.
COINED = r"learnt|news|told|absorb\w*|hoods?|balls?|stakes?|tolls?|heats?|contests?|standings?|held"
COINED += r"|sittings?|root of all chance|patience lost"
#: *Found* is no adjective ("the found network"), but "no client was found" is fine.
COINED += (
    r"|(?:the|a|an|its|each|every|best|last) found|found (?:architecture|network|code|model)s?"
)
#: Participles as names have a capital letter, as in a heading; "networks that are tried" is fine.
NAMES = r"Found|Held|Judged|Known|Moved|Told|Tried"
#: Other words of the list ("field") have too many uses of their own to be looked for.
STEMS = "categor|central|discret|emphas|equal|factor|final|general|initial|local|maxim|minim|normal"
STEMS += "|optim|organ|parallel|parameter|penal|quant|random|real|recogn|regular|serial|special"
STEMS += "|standard|summar|symmetr|synchron|token|util|vector|visual"
BRITISH = rf"\w*(?:{STEMS})is(?:e[ds]?|ers?|ing|able)|\w+isations?|analys(?:e[ds]?|ing)|artefacts?"
BRITISH += (
    r"|\w*(?:label|model|cancel|signal|travel)l(?:ed|ing)|(?:neighb|behavi|col|fav|hon)our\w*"
)
BRITISH += r"|catalogues?|centre[ds]?|defence|grey|judgement|licence|programmes?|whilst"
WRONG = re.compile(rf"(?<![\w-])(?:(?i:{COINED}|{BRITISH})|{NAMES})(?![\w-])")

#: Keys of policy files and of ``data.json``, and old names of settings: files have them.
KEPT = {"normaliser", "unlabelled"}
for settings in map(settings_of, METHODS):
    KEPT |= {*settings.renamed, *(old for by in settings.renamed_values.values() for old in by)}


def wrong_words(text: str) -> list[str]:
    """What of a text should be said in another way; names that are kept may stand in quotes."""
    return WRONG.findall(re.sub(rf"([`'\"])(?:{'|'.join(KEPT)})\1", "", text))


def helps(command: Any, name: str = "autofgl") -> Iterator[tuple[str, str]]:
    """The whole help of a command and of those below it."""
    yield f"{name} --help", command.get_help(command.context_class(command, info_name=name))
    for key, below in getattr(command, "commands", {}).items():
        yield from helps(below, f"{name} {key}")


def literals(path: Path) -> Iterator[tuple[str, str]]:
    """All text of a module but docstrings: errors, lines on the terminal, headings of pages.

    Not only what stands in a ``raise`` or a ``print``: sentences are put together before.
    """
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Constant)):
        if isinstance(node.value, str) and node.value not in KEPT and id(node) not in docstrings:
            yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.value


def catalogs() -> Iterator[tuple[str, str]]:
    """Settings, summaries, and who learns what; docstrings that the page of the API shows."""
    groups = {name: settings_of(name) for name in METHODS}
    for name, group in {**groups, "dataset": DataSettings, "partition": PartitionSettings}.items():
        for key, field in group.model_fields.items():
            yield f"{name} {key}", f"{key.replace('_', ' ')}: {field.description}"
    for name, entry in [*METHODS.items(), *DATASETS.items(), *PARTITIONERS.items()]:
        yield name, str(entry)
    for name, parties in WHO_LEARNS_WHAT.items():
        yield f"privacy of {name}", str(parties)
    for name in re.findall("^::: (.+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE):
        shown = pkgutil.resolve_name(name)
        for one in [shown, *(members(shown) if inspect.isclass(shown) else ())]:
            yield name, inspect.getdoc(one) or ""


def members(shown: type) -> list[Any]:
    """What a class has of its own, without what Python keeps in it."""
    return [one for name, one in vars(shown).items() if not name.startswith("_abc")]


def test_what_a_user_reads_has_plain_words() -> None:
    texts = [*helps(typer.main.get_command(app)), *catalogs()]
    texts += [text for path in SOURCE.rglob("*.py") for text in literals(path)]
    texts += [(str(path.relative_to(ROOT)), path.read_text()) for path in PAGES]
    assert len(texts) > 1500
    assert {where: words for where, text in texts if (words := wrong_words(text))} == {}


@pytest.mark.parametrize(
    "text", ["no node was found", "networks that are tried", "`optimiser` is now `optimizer`"]
)
def test_ordinary_verbs_and_kept_names_are_fine(text: str) -> None:
    assert wrong_words(text) == []


@pytest.mark.parametrize(
    "text", ["Root of all chance.", "the found network", "Judged", "who learnt what", "optimisers"]
)
def test_our_own_words_are_noticed(text: str) -> None:
    assert wrong_words(text)
