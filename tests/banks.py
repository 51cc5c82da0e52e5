"""A small federation of banks as tables: string ids, categories, missing values, few frauds."""

import csv
import random
from pathlib import Path

BANKS = ("north", "south", "west")
_KINDS = ("private", "business", "savings")


def write_banks(
    folder: Path, accounts: int = 60, seed: int = 0, fraud: float = 0.2, abroad: float = 0.0
) -> None:
    """``NAME_nodes.csv`` and ``NAME_edges.csv`` for each bank; a share of payments goes abroad."""
    for number, bank in enumerate(BANKS):
        chance = random.Random(seed * 10 + number)
        rows = [_account(bank, index, chance, fraud) for index in range(accounts)]
        head = ["account", "income", "kind", "opened", "note", "fraud"]
        _write(folder / f"{bank}_nodes.csv", head, rows)
        bad = [row[0] for row in rows if row[-1] == "yes"]
        links = []
        for row in rows:
            for _ in range(3):
                among = bad if row[-1] == "yes" and chance.random() < 0.8 else [r[0] for r in rows]
                to = chance.choice(among)
                if abroad and chance.random() < abroad:
                    other = chance.choice([name for name in BANKS if name != bank])
                    to = f"{other}-{chance.randrange(accounts):04d}"
                links.append([row[0], to, f"{chance.uniform(1, 500):.2f}"])
        _write(folder / f"{bank}_edges.csv", ["from", "to", "amount"], links)


def _account(bank: str, index: int, chance: random.Random, fraud: float) -> list[str]:
    guilty = chance.random() < fraud or index < 3
    income = "" if chance.random() < 0.1 else f"{chance.gauss(800 if guilty else 2500, 400):.2f}"
    kind = chance.choice(_KINDS if not guilty else _KINDS[1:])
    opened = f"20{chance.randint(20, 24)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    note = "" if chance.random() < 0.3 else "called in " + ("distress" if guilty else "time")
    return [f"{bank}-{index:04d}", income, kind, opened, note, "yes" if guilty else "no"]


def _write(path: Path, head: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(head)
        table.writerows(rows)
