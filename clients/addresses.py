"""The address of the state plane, as it is given and as it is used."""

import logging
from urllib.parse import urlsplit

from .errors import ConfigurationError

log = logging.getLogger("moorage.clients")

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def check_url(url: str) -> str:
    """The base URL without a trailing slash. Raises ConfigurationError; warns for plain HTTP beyond this machine.

    No message shows the address: what does not parse may be an address with credentials.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        raise ConfigurationError("the URL of the state plane is malformed") from None
    try:
        port = parts.port
    except ValueError:
        raise ConfigurationError("the port in the URL of the state plane is no number up to 65535") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError("the URL of the state plane must be http(s)://host[:port]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError("the URL of the state plane holds neither credentials nor a query nor a fragment")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        log.warning("plain HTTP to %s: everybody on the way can read what is sent", parts.hostname)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
