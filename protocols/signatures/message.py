"""A request as RFC 9421 sees it: components by name, and the signature base over them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .refusals import Reason, Refused
from .structured import InnerList, Item, serialize_bare, serialize_inner_list


@dataclass(frozen=True, slots=True)
class Request:
    """What is signed. `path` and `query` as on the wire (percent-encoded, `query` without `?`); header names
    lowercase.
    """

    method: str
    path: bytes
    query: bytes
    headers: Iterable[tuple[bytes, bytes]]
    scheme: str = "http"
    _fields: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = self._fields
        for header, line in self.headers:
            name, value = header.decode("latin-1"), line.strip(b" \t").decode("latin-1")
            fields[name] = f"{fields[name]}, {value}" if name in fields else value

    def field(self, name: str) -> str | None:
        """The combined value of a header field: lines trimmed, joined by `, `; None when absent.

        RFC 9421 section 2.1.
        """
        return self._fields.get(name)

    def component(self, name: str) -> str:
        """The value of a covered component (RFC 9421 section 2). Raises Refused for one that is unknown or absent."""
        if not name.startswith("@"):
            value = self.field(name)
            if value is None:
                raise Refused(Reason.MISSING_COMPONENT, component=name)
            return value
        if name == "@method":
            return self.method
        if name == "@path":
            return self.path.decode("latin-1") or "/"
        if name == "@query":
            return "?" + self.query.decode("latin-1")
        if name == "@scheme":
            return self.scheme.lower()
        target = (self.path or b"/").decode("latin-1") + ("?" + self.query.decode("latin-1") if self.query else "")
        if name == "@request-target":
            return target
        if name in {"@authority", "@target-uri"}:
            authority = self._authority()
            return authority if name == "@authority" else f"{self.scheme.lower()}://{authority}{target}"
        raise Refused(Reason.UNKNOWN_COMPONENT, component=name)

    def _authority(self) -> str:
        host = self.field("host")
        if host is None:
            raise Refused(Reason.MISSING_COMPONENT, component="host")
        host = host.lower()
        default = ":443" if self.scheme.lower() == "https" else ":80"
        return host.removesuffix(default)


def component_name(item: Item) -> str:
    """The name of a covered component. Raises Refused for component parameters, which are not supported."""
    if not isinstance(item.value, str) or item.value != item.value.lower():
        raise Refused(Reason.MALFORMED_INPUT, component=str(item.value))
    if item.parameters:
        raise Refused(Reason.UNKNOWN_COMPONENT, component=item.value + ";" + ";".join(item.parameters))
    return item.value


def signature_base(request: Request, covered: InnerList) -> bytes:
    """The text that is signed (RFC 9421 section 2.5), in the order of `covered`, without a final line end.

    Raises Refused when a component cannot be had, or occurs twice.
    """
    lines = []
    seen = set()
    for item in covered.items:
        name = component_name(item)
        if name in seen:
            raise Refused(Reason.MALFORMED_INPUT, component=name)
        seen.add(name)
        value = request.component(name)
        if "\n" in value or "\r" in value:
            raise Refused(Reason.MALFORMED_INPUT, component=name)
        lines.append(f"{serialize_bare(name)}: {value}")
    lines.append(f'"@signature-params": {serialize_inner_list(covered)}')
    return "\n".join(lines).encode("latin-1")
