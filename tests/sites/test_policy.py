"""What a site allows."""

from pathlib import Path

import pytest
from autofgl.runtime.settings import FederatedSettings

from autofgl.errors import UserError
from autofgl.federation.party import Refused
from autofgl.sites.policy import TEMPLATE, Policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("methods: [fedavgg]", "'fedavgg' is unknown"),
        ("secure: [rot13]", "'rot13' is unknown"),
        ("min_partys: 3", "min_partys"),
        ("min_parties: 0", "min_parties"),
        ("[", "not YAML"),
    ],
)
def test_policies_with_mistakes_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        Policy.read(tmp_path / "policy.yaml")


def test_the_template_allows_all_and_its_lines_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEMPLATE)
    assert Policy.read(path) == Policy()
    rules = [line[2:] for line in TEMPLATE.splitlines() if line.startswith("# ") and ": " in line]
    path.write_text("\n".join(line for line in rules if line.split(":")[0].isidentifier()))
    policy = Policy.read(path)
    assert policy.min_parties == 3
    assert policy.secure == ("ckks", "shares")
    with pytest.raises(Refused):
        policy.check("fedavg", "none", FederatedSettings(), 3)
