"""What a federation is like, from sums, against what the pooled graphs say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.look import Look, look_at
from autofgl.methods.auto.portfolio import FEDAVG, LONER, WAYS, portfolio
from autofgl.runtime.recipe import Recipe
from federations import without


def look_of(clients: list[ClientGraph]) -> Look:
    parts = [look_at(one) for one in clients]
    total: dict[str, Any] = {key: np.sum([p[key] for p in parts], axis=0) for key in parts[0]}
    return Look.of(total)


def test_against_the_pooled_graphs(small_clients: list[ClientGraph]) -> None:
    look = look_of(small_clients)
    assert look.clients == 3
    assert look.nodes == sum(one.num_nodes for one in small_clients)
    links = sum(one.num_links for one in small_clients)
    cut = sum(len(one.boundary) for one in small_clients) / 2
    assert look.edges == links + cut
    assert look.cross == pytest.approx(cut / (links + cut), abs=1e-3)
    assert look.train == sum(one.train_mask.sum() for one in small_clients)
    same, paired = 0, 0
    for one in small_clients:
        known = one.train_mask | one.val_mask
        pairs = known[one.edge_index].all(0)
        ends = one.y[one.edge_index][:, pairs]
        same, paired = same + (ends[0] == ends[1]).sum(), paired + pairs.sum()
    assert look.homophily == pytest.approx(same / paired, abs=1e-3)
    shares = [
        np.bincount(one.y[one.train_mask], minlength=one.classes) / one.train_mask.sum()
        for one in small_clients
    ]
    assert look.skew == pytest.approx(np.var(shares, axis=0).sum(), abs=1e-3)
    assert look.binary
    single = sum(len(np.unique(one.y[one.train_mask])) == 1 for one in small_clients)
    assert (look.unlabeled, look.single_class) == (0, single)


def test_test_labels_play_no_part(small_clients: list[ClientGraph]) -> None:
    hidden = [replace(one, y=np.where(one.test_mask, 0, one.y)) for one in small_clients]
    assert look_of(hidden) == look_of(small_clients)


def test_odd_clients_are_counted(small_clients: list[ClientGraph]) -> None:
    one = small_clients[1]
    label = one.y[one.train_mask][0]
    single = one.with_masks(one.train_mask & (one.y == label), one.val_mask, one.test_mask)
    before = look_of([*small_clients[:2], single])
    after = look_of([*small_clients[:1], without(one, "train_mask"), single])
    assert (before.unlabeled, after.unlabeled) == (0, 1)
    assert look_of([single]).single_class == 1
    nobody = look_of([without(one, "train_mask", "val_mask") for one in small_clients])
    assert (nobody.train, nobody.unlabeled, nobody.homophily) == (0, 3, 0)


def test_the_portfolio_follows_the_look(small_clients: list[ClientGraph]) -> None:
    look = look_of(small_clients)
    alike = [row.recipe for row in portfolio(replace(look, adjusted_homophily=0.8), 9)]
    unlike = [row.recipe for row in portfolio(replace(look, adjusted_homophily=0.0), 9)]
    assert alike[:2] == unlike[:2] == [FEDAVG, LONER]
    assert any("appnp" in one for one in alike)
    assert not any("appnp" in one for one in unlike)
    for text in {*alike, *unlike}:
        assert Recipe.parse(text).sharing in WAYS
        assert str(Recipe.parse(text)) == text
