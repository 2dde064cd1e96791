"""Version 2: signing a request, and checking one."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .digest import check_content_digest, content_digest
from .mac import mac
from .message import Request, component_name, signature_base
from .refusals import Reason, Refused
from .structured import InnerList, Item, Malformed, Parameters, parse_dictionary, serialize_bare, serialize_inner_list

COMPONENTS: Final = ("@method", "@path", "@query", "content-digest")
"""What a signature must cover; it may cover more."""
ALGORITHM: Final = "hmac-sha256"
MAX_SKEW_SECONDS: Final = 300
MAX_NONCE: Final = 128
MAX_FIELD: Final = 4096
LABEL: Final = "moorage"


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature that holds. `created` in seconds since 1970. Replay is not looked at yet: see `NonceMemory`."""

    key_id: str
    nonce: str
    created: int
    label: str


def sign_request(
    method: str, path: bytes, query: bytes, body: bytes, *, key: bytes, key_id: str, created: int, nonce: str
) -> dict[str, str]:
    """The headers `content-digest`, `signature-input` and `signature` for a request.

    `path` and `query` exactly as they will be sent (percent-encoded; `query` without `?`). `created`: seconds since
    1970. `nonce`: at least 16 random characters, never used again; at most 128.
    """
    digest = content_digest(body)
    covered = InnerList(
        tuple(Item(name, {}) for name in COMPONENTS),
        {"created": created, "nonce": nonce, "keyid": key_id, "alg": ALGORITHM},
    )
    request = Request(method, path, query, ((b"content-digest", digest.encode()),))
    signed = mac(key, signature_base(request, covered)).digest()
    return {
        "content-digest": digest,
        "signature-input": f"{LABEL}={serialize_inner_list(covered)}",
        "signature": f"{LABEL}={serialize_bare(signed)}",
    }


def _dictionary(request: Request, name: str, reason: Reason) -> dict[str, Item | InnerList]:
    text = request.field(name)
    if text is None:
        raise Refused(Reason.MISSING_SIGNATURE, field=name)
    if len(text) > MAX_FIELD:
        raise Refused(reason, detail=f"at most {MAX_FIELD} characters")
    try:
        return parse_dictionary(text)
    except Malformed as error:
        raise Refused(reason, detail=str(error)) from None


def _text(parameters: Parameters, name: str) -> str:
    value = parameters.get(name)
    if value is None:
        raise Refused(Reason.PARAMETER_MISSING, parameter=name)
    if not isinstance(value, str) or not value:
        raise Refused(Reason.PARAMETER_INVALID, parameter=name)
    return str(value)


def _seconds(parameters: Parameters, name: str) -> int:
    value = parameters.get(name)
    if value is None:
        raise Refused(Reason.PARAMETER_MISSING, parameter=name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(Reason.PARAMETER_INVALID, parameter=name)
    return value


def _choose(inputs: Mapping[str, Item | InnerList], keys: Mapping[str, Sequence[bytes]]) -> tuple[str, InnerList]:
    """The signature to check: the first whose key is one of ours, else the first."""
    lists = [(label, member) for label, member in inputs.items() if isinstance(member, InnerList)]
    if not lists or len(lists) != len(inputs):
        raise Refused(Reason.MALFORMED_INPUT, detail="every member must be a list of components")
    return next((pair for pair in lists if pair[1].parameters.get("keyid") in keys), lists[0])


def _check_time(parameters: Parameters, now: float) -> int:
    created = _seconds(parameters, "created")
    if created < now - MAX_SKEW_SECONDS:
        raise Refused(Reason.TOO_OLD, now=int(now))
    if created > now + MAX_SKEW_SECONDS:
        raise Refused(Reason.IN_FUTURE, now=int(now))
    if "expires" in parameters and _seconds(parameters, "expires") < now:
        raise Refused(Reason.EXPIRED, now=int(now))
    return created


def check_signature(request: Request, covered: InnerList, signature: bytes, keys: Sequence[bytes]) -> bool:
    """Whether `signature` is the HMAC-SHA256 of the base over `covered` under one of `keys` (RFC 9421 section
    3.3.3).
    """
    base = signature_base(request, covered)
    good = False
    for key in keys:
        good |= hmac.compare_digest(mac(key, base).digest(), signature)
    return good


def verify_request(request: Request, body: bytes, keys: Mapping[str, Sequence[bytes]], now: float) -> Verified:
    """Checks form, key, algorithm, coverage, time (`now`, seconds since 1970, within 300), digest and signature.

    `keys`: the secrets of each key id that may sign this request, the previous ones included. Raises Refused.
    """
    inputs = _dictionary(request, "signature-input", Reason.MALFORMED_INPUT)
    signatures = _dictionary(request, "signature", Reason.MALFORMED_SIGNATURE)
    label, covered = _choose(inputs, keys)
    signature = signatures.get(label)
    if signature is None:
        raise Refused(Reason.MISSING_SIGNATURE, label=label)
    if not isinstance(signature, Item) or not isinstance(signature.value, bytes):
        raise Refused(Reason.MALFORMED_SIGNATURE, label=label)
    parameters = covered.parameters
    names = {component_name(item) for item in covered.items}
    for name in COMPONENTS:
        if name not in names:
            raise Refused(Reason.COMPONENT_NOT_COVERED, component=name)
    if "alg" in parameters and parameters["alg"] != ALGORITHM:
        raise Refused(Reason.ALGORITHM, supported=ALGORITHM)
    key_id = _text(parameters, "keyid")
    nonce = _text(parameters, "nonce")
    if len(nonce) > MAX_NONCE:
        raise Refused(Reason.PARAMETER_INVALID, parameter="nonce")
    created = _check_time(parameters, now)
    if not keys.get(key_id):
        raise Refused(Reason.UNKNOWN_KEY)
    if not check_signature(request, covered, signature.value, keys[key_id]):
        raise Refused(Reason.WRONG)
    check_content_digest(request.component("content-digest"), body)
    return Verified(key_id, nonce, created, label)
