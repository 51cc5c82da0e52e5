"""A site's certificate as its identity: what kits must hold, and how they fail."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

pytest.importorskip("nvflare")

from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.certificate import (
    SECRET_FILE,
    Certificate,
    site_identity,
)
from autofgl.federation.engines.nvflare.kits import Kits, make_kits

SECRET = b"a secret of the sites"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Kits:
    return make_kits(tmp_path_factory.mktemp("kits"), "localhost", 8002, ["a", "b"])


@pytest.fixture
def kits(made: Kits, tmp_path: Path) -> dict[str, Path]:
    """Copies that a test may spoil."""
    return {name: Path(shutil.copytree(made.sites[name], tmp_path / name)) for name in ("a", "b")}


def test_sites_of_one_root_know_each_other(kits: dict[str, Path]) -> None:
    a, b = (Certificate(kits[name], name) for name in ("a", "b"))
    assert a.verify("b", b"data", b.sign(b"data"))
    assert b.verify("a", b"data", a.sign(b"data"))
    assert a.sign(b"data") != a.sign(b"data"), "the signature is randomized"
    assert "PRIVATE" not in repr(a)


@pytest.mark.parametrize("file", ["client.crt", "client.key", "rootCA.pem", "fed_client.json"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_kit_without_a_certificate_is_refused(
    kits: dict[str, Path], file: str, content: bytes | None
) -> None:
    path = kits["a"] / "startup" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match="has no valid certificate and key"):
        Certificate(kits["a"], "a")


def test_a_kit_with_the_files_of_another_is_refused(kits: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="the certificate of b is that of a: provision"):
        Certificate(kits["a"], "b")
    shutil.copy(kits["b"] / "startup" / "client.key", kits["a"] / "startup")
    with pytest.raises(UserError, match="a key that is not its certificate's"):
        Certificate(kits["a"], "a")


def test_the_sites_own_secret_is_asked_for_besides(kits: dict[str, Path], tmp_path: Path) -> None:
    """A server that holds the CA can issue certificates; the secret it does not have."""
    file = tmp_path / "file"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    (kits["b"] / "local").mkdir(exist_ok=True)
    shutil.copy(file, kits["b"] / "local" / SECRET_FILE)
    a, b = site_identity(kits["a"], "a", str(file)), site_identity(kits["b"], "b")
    assert a.verify("b", b"data", b.sign(b"data"))
    without = Certificate(kits["b"], "b")
    assert not a.verify("b", b"data", without.sign(b"data"))
    (kits["b"] / "local" / SECRET_FILE).chmod(0o644)
    with pytest.raises(UserError, match="other users may read this secret"):
        site_identity(kits["b"], "b")
    with pytest.raises(UserError, match="cannot be read"):
        site_identity(kits["a"], "a", str(tmp_path / "absent"))


def issue(
    kit: Path, name: str, key: CertificateIssuerPrivateKeyTypes, root: tuple[x509.Name, object]
) -> None:
    """Put a certificate for this key into a kit, issued by a root of its own."""
    issuer, root_key = root
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(root_key, SHA256())  # type: ignore[arg-type]
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (kit / "startup" / "client.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (kit / "startup" / "client.key").write_bytes(pem)


def test_kits_with_keys_on_elliptic_curves(kits: dict[str, Path]) -> None:
    root = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]),
        ec.generate_private_key(ec.SECP256R1()),
    )
    issue(kits["a"], "root", root[1], root)
    own = (kits["a"] / "startup" / "client.crt").read_bytes()
    for name, kit in kits.items():
        (kit / "startup" / "rootCA.pem").write_bytes(own)
        issue(kit, name, ec.generate_private_key(ec.SECP256R1()), root)
    a, b = (Certificate(kits[name], name) for name in ("a", "b"))
    assert a.verify("b", b"data", b.sign(b"data"))
    assert not a.verify("b", b"other", b.sign(b"data"))
    issue(kits["b"], "b", ed25519.Ed25519PrivateKey.generate(), root)
    with pytest.raises(UserError, match="a key of an unknown kind"):
        Certificate(kits["b"], "b")
