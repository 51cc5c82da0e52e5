"""A site's identity: the certificate of its kit, whose private key signs and never leaves it.

The certificate travels with each signature. The receiver checks it against the root certificate of
its own kit, so nobody needs to know the others' certificates beforehand, and whoever has none of
that root, such as the server, can speak for no site. There is no list of revoked certificates:
provision anew, with a new CA, to exclude a site.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from autofgl.errors import UserError
from autofgl.identity import (
    CombinedIdentity,
    GroupSecret,
    Identity,
    join_parts,
    read_secret,
    split_parts,
)

#: A secret of the sites in a kit's ``local``, which is used if it is there.
SECRET_FILE = "secret"
_PSS = PSS(MGF1(SHA256()), PSS.DIGEST_LENGTH)
_PURPOSE = b"autofgl identity"


def site_identity(kit: Path, name: str, secret: str = "") -> Identity:
    """Who the site of a kit is: its certificate and, if there is one, the sites' own secret.

    The secret is in the file of that path, or in the kit's own. ``UserError`` if the certificate
    does not hold, or the secret's file is not closed to other users.
    """
    certificate = Certificate(kit, name)
    file = Path(secret) if secret else kit / "local" / SECRET_FILE
    if not secret and not file.exists():
        return certificate
    return CombinedIdentity((certificate, GroupSecret(name, read_secret(file))))


class Certificate:
    """Signs with the key of a kit, and believes certificates that the kit's root issued.

    The names that a root issues certificates to are those of sites, of the coordinator, whose
    certificate has a role, and of the server; neither of the latter is ever taken for a site.
    """

    def __init__(self, kit: Path, name: str) -> None:
        startup = kit / "startup"
        try:
            self._own = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes())
            self._root = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
            key = load_pem_private_key((startup / "client.key").read_bytes(), None)
            config = json.loads((startup / "fed_client.json").read_text())
            self._servers = {str(server["identity"]) for server in config["servers"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            what = f"{type(error).__name__}: {error}"
            raise UserError(f"the kit {kit} has no valid certificate and key: {what}") from error
        if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
            raise UserError(f"the kit {kit} has a key of an unknown kind: provision it again")
        if key.public_key() != self._own.public_key():
            raise UserError(f"the kit {kit} has a key that is not its certificate's")
        if problem := self._problem(name, self._own):
            raise UserError(f"the certificate of {name} {problem}: provision the kit again")
        self._key = key
        self._name = name

    def __repr__(self) -> str:
        return f"Certificate({self._name})"

    def sign(self, data: bytes) -> bytes:
        """See :class:`autofgl.identity.Identity`."""
        text = join_parts(_PURPOSE, data)
        if isinstance(self._key, RSAPrivateKey):
            signature = self._key.sign(text, _PSS, SHA256())
        else:
            signature = self._key.sign(text, ECDSA(SHA256()))
        return join_parts(self._own.public_bytes(Encoding.DER), signature)

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        """See :class:`autofgl.identity.Identity`."""
        try:
            der, own = split_parts(signature, 2)
            certificate = x509.load_der_x509_certificate(der)
            if self._problem(name, certificate):
                return False
            key, text = certificate.public_key(), join_parts(_PURPOSE, data)
            if isinstance(key, RSAPublicKey):
                key.verify(own, text, _PSS, SHA256())
            elif isinstance(key, EllipticCurvePublicKey):
                key.verify(own, text, ECDSA(SHA256()))
            else:
                return False
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _problem(self, name: str, certificate: x509.Certificate) -> str:
        """Why a certificate is not that of the site of that name; empty if it is."""
        try:
            certificate.verify_directly_issued_by(self._root)
            subject = certificate.subject
        except (ValueError, TypeError, InvalidSignature):
            return "was not issued by the root of this kit"
        now = datetime.now(UTC)
        for each in (certificate, self._root):
            if not each.not_valid_before_utc <= now <= each.not_valid_after_utc:
                return f"is valid until {each.not_valid_after_utc:%Y-%m-%d} only, or not yet"
        names = [entry.value for entry in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names != [name]:
            return f"is that of {', '.join(map(str, names)) or 'nobody'}"
        roles = subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
        if roles or name in self._servers:
            return "is not that of a site"
        return ""
