"""Time stamps (RFC 3161) over checkpoints, kept in a bundle and judged by the reader's own roots, without a network.

A stamp is kept without its certificates, which stand once in the part. Name constraints and revocation are not checked.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clvlab.errors import BundleError, EvidenceError, LogError, MissingExtraError
from clvlab.log.note import decode
from clvlab.proof.canonical import JsonObject, parsed

if TYPE_CHECKING:  # imported where it is used, as it is an extra
    from cryptography.x509 import Certificate

STAMPS_PART = "stamps.json"
SCHEMA = "clvlab-bundle-stamps/1"
_MOST = 32
_SHA256 = "2.16.840.1.101.3.4.2.1"
_SEQUENCE, _CERTIFICATES, _CRLS = 0x30, 0xA0, 0xA1


@dataclass(frozen=True, slots=True)
class Stamp:
    """A judged stamp: its time, the authority's and the root's name, and the digest of what it is over."""

    time: datetime
    authority: str
    root: str
    digest: bytes


def _library() -> Any:
    try:
        return import_module("rfc3161_client")
    except ImportError as error:
        raise MissingExtraError("stamps", error.name) from error


def query(text: str) -> tuple[bytes, int]:
    """Return a request to an authority for a stamp over a text, and its nonce."""
    library = _library()
    builder = library.TimestampRequestBuilder().data(text.encode()).hash_algorithm(library.HashAlgorithm.SHA256)
    request = builder.nonce(nonce=True).cert_request(cert_request=True).build()
    return request.as_bytes(), request.nonce


def stamp_of(answer: bytes, text: str, nonce: int) -> tuple[bytes, list[bytes]]:
    """Return a stamp of an authority's answer without certificates, and the certificates.

    Raises
    ------
    LogError
        The answer is no stamp, was refused, or is about something else.
    """
    stamp, certificates = _parted(answer)
    info = _read(stamp).tst_info
    if info.message_imprint.message != sha256(text.encode()).digest() or info.nonce != nonce:
        raise LogError("the authority stamped something else than the checkpoint")
    return stamp, certificates


def _read(answer: bytes) -> Any:
    library = _library()
    try:
        response = library.decode_timestamp_response(answer)
        if response.status != 0:
            raise LogError(f"the authority gives no stamp: {'; '.join(response.status_string) or response.status}")
        _ = response.tst_info, response.signed_data
    except ValueError as error:
        raise LogError(f"no stamp: {error}") from error
    return response


def _parted(answer: bytes) -> tuple[bytes, list[bytes]]:
    """Return a response without the certificates and revocations of its SignedData, which no signature covers, and the former.

    They are taken out before a library reads the response, because some authorities do not sort them as DER requires.
    """
    try:
        ((_, _, content),) = _elements(answer)
        if len(_elements(content)) == 1:
            return answer, []  # a refusal, which has a status alone
        (_, status, _), (_, _, token) = _elements(content)
        (_, kind, _), (_, _, wrapped) = _elements(token)
        ((_, _, signed),) = _elements(wrapped)
        parts = _elements(signed)
    except ValueError as error:
        raise LogError(f"no stamp: {error}") from error
    certificates = [whole for tag, _, inside in parts if tag == _CERTIFICATES for _, whole, _ in _elements(inside)]
    kept = b"".join(whole for tag, whole, _ in parts if tag not in (_CERTIFICATES, _CRLS))
    inner = _wrapped(_CERTIFICATES, _wrapped(_SEQUENCE, kept))  # the content of a ContentInfo has the same tag
    return _wrapped(_SEQUENCE, status + _wrapped(_SEQUENCE, kind + inner)), certificates


def _elements(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return tag, bytes and content of each element of DER (X.690, 8.1)."""
    found, at = [], 0
    while at < len(data):
        first = data[at + 1] if at + 1 < len(data) else 0x80
        size = first & 0x7F if first > 0x80 else 0
        start = at + 2 + size
        length = int.from_bytes(data[at + 2 : start], "big") if size else first
        if first == 0x80 or size > 4 or start + length > len(data):
            raise LogError("no stamp: its lengths do not fit")
        found.append((data[at], data[at : start + length], data[start : start + length]))
        at = start + length
    return found


def _wrapped(tag: int, content: bytes) -> bytes:
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 0x80 else bytes([0x80 | len(long)]) + long) + content


def part_of(stamps: Iterable[bytes], certificates: Iterable[bytes]) -> JsonObject:
    """Return a bundle's part of stamps, each once."""
    each, chain = dict.fromkeys(stamps), sorted(set(certificates))
    return {
        "schema": SCHEMA,
        "certificates": [b64encode(one).decode() for one in chain],
        "stamps": [b64encode(one).decode() for one in each],
    }


def read_part(content: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the stamps and certificates of a part; ``BundleError`` for anything else."""
    try:
        part = parsed(content)
        known = isinstance(part, dict) and part.keys() == {"schema", "certificates", "stamps"} and part["schema"] == SCHEMA
        lists = [part["stamps"], part["certificates"]] if known else []
        if not all(isinstance(one, list) and len(one) <= _MOST and all(isinstance(t, str) for t in one) for one in lists):
            raise BundleError(f"{STAMPS_PART} has no lists of at most {_MOST} texts")
        if not known:
            raise BundleError(f"{STAMPS_PART} is not of {SCHEMA}")
        return [decode(one) for one in lists[0]], [decode(one) for one in lists[1]]
    except (EvidenceError, LogError) as error:
        raise BundleError(f"{STAMPS_PART} can't be read: {error}") from error


def imprint(stamp: bytes) -> bytes:
    """Return the digest that a stamp is over, unjudged."""
    digest: bytes = _read(stamp).tst_info.message_imprint.message
    return digest


def time_of(stamp: bytes) -> datetime:
    """Return the time that a stamp states, unjudged."""
    time: datetime = _read(stamp).tst_info.gen_time
    return time


def judged(content: bytes, roots: bytes) -> list[Stamp]:
    """Judge all stamps of a part by roots in PEM: signature, signing certificate and chain, at the stamped time.

    Raises
    ------
    BundleError
        A stamp does not hold, or the roots or the part can't be read; the message names the stamp by its number.
    """
    from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificates

    stamps, ders = read_part(content)
    try:
        trusted, certificates = load_pem_x509_certificates(roots), [load_der_x509_certificate(one) for one in ders]
    except ValueError as error:
        raise BundleError(f"the roots, or the certificates of the stamps, can't be read: {error}") from error
    found = []
    for number, one in enumerate(stamps, 1):
        try:
            found.append(_judge(one, certificates, trusted))
        except (LogError, ValueError, StopIteration) as error:
            raise BundleError(f"stamp {number} of {len(stamps)} does not hold: {error or 'it has no signer'}") from error
    return found


def _judge(data: bytes, certificates: Sequence[Certificate], trusted: Sequence[Certificate]) -> Stamp:
    library = _library()
    response = _read(data)
    info = response.tst_info
    if info.message_imprint.hash_algorithm.dotted_string != _SHA256:
        raise LogError("it is over another hash than SHA-256")
    (signer,) = response.signed_data.signer_infos
    own = [one for one in certificates if (one.issuer, one.serial_number) == (signer.issuer, signer.serial_number)]
    if not own:
        raise LogError("the certificate of its signer is not in the bundle")
    chain = list(_chain(own[0], certificates, trusted, info.gen_time))
    verifier = library.VerifierBuilder(tsa_certificate=own[0], intermediates=chain[1:-1], roots=[chain[-1]]).build()
    try:
        verifier.verify(response, info.message_imprint.message)
    except library.VerificationError as error:
        raise LogError(f"its signature does not hold: {error}") from error
    return Stamp(info.gen_time, _name(own[0]), _name(chain[-1]), info.message_imprint.message)


def _chain(
    certificate: Certificate, others: Sequence[Certificate], trusted: Sequence[Certificate], at: datetime
) -> Iterator[Certificate]:
    """Return the chain from a certificate to a trusted root, each valid at the time and issued by the next, a CA."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, KeyUsage

    for depth in range(8):
        if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
            raise LogError(f"the certificate of {_name(certificate)} was not valid at {at:%Y-%m-%d %H:%M:%S} UTC")
        yield certificate
        if certificate in trusted:
            return
        for issuer in (one for one in (*trusted, *others) if one != certificate):
            try:
                certificate.verify_directly_issued_by(issuer)
                constraints = issuer.extensions.get_extension_for_class(BasicConstraints).value
                usage = issuer.extensions.get_extension_for_class(KeyUsage).value
            except (ValueError, TypeError, InvalidSignature, ExtensionNotFound):
                continue
            if constraints.ca and usage.key_cert_sign and (constraints.path_length is None or constraints.path_length >= depth):
                certificate = issuer
                break
        else:
            raise LogError(f"no root of yours issued the certificate of {_name(certificate)}")
    raise LogError("its chain of certificates does not end")


def _name(certificate: Certificate) -> str:
    return ascii(certificate.subject.rfc4514_string())


def dated(log_notes: Mapping[str, str], found: Sequence[Stamp]) -> list[tuple[str, Stamp]]:
    """Return the stamps with the name of the checkpoint that each is over; ``BundleError`` if one is over no such text."""
    over = {sha256(text.encode()).digest(): name for name, text in log_notes.items()}
    strays = [number for number, stamp in enumerate(found, 1) if stamp.digest not in over]
    if strays:
        raise BundleError(f"stamp {strays[0]} of {len(found)} is over no checkpoint of the bundle")
    return [(over[stamp.digest], stamp) for stamp in found]
