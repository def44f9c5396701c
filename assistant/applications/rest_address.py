"""Address of a program that speaks HTTP, and the rules that keep requests to it safe.

The address is set by the operator and stored in the event log, and requests to it carry a token.
Therefore it must hold no secret, must be encrypted if it leaves this machine, and no answer of
the program may lead to another origin.
"""

import os
import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit

from assistant.core.errors import ApplicationError, RunError

TOKEN = "COPPERLINE_ADAPTER_TOKEN"  # noqa: S105 - the name of a variable
MOST_CHARACTERS = 2_000
_PORTS = {"http": 80, "https": 443}
_ALLOWED = re.compile(r"[A-Za-z0-9._~:/\[\]@!$&'()*+,;=%?#-]+")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\.?|[0-9a-fA-F:.]+")
_SECRET = re.compile(r"[\x21-\x7e]{1,4096}")


def check_url(url: str) -> str:
    """Return the URL of a program unchanged if it is valid and safe.

    Raises:
        ApplicationError: the address is invalid, holds a user name, query or fragment, or leaves
            this machine unencrypted.
    """
    where = f"the url '{_shown(url)}' of the program"
    parts = _parts(url)
    if parts is None or parts.scheme not in _PORTS:
        raise ApplicationError(
            f"{where} is not an address; write one such as 'http://127.0.0.1:9000/runs', in ASCII"
        )
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ApplicationError(
            f"the url of the program at '{parts.hostname}' contains a user name, a query or a "
            f"fragment; remove it, because the event log stores the url; set a token in ${TOKEN}"
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ApplicationError(
            f"{where} is not encrypted; write https://, or http:// for a program on this "
            "machine (127.0.0.1, ::1 or localhost)"
        )
    return url


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL in normalised form.

    >>> origin_of("HTTPS://Tuner.example/runs")
    'https://tuner.example:443'

    Raises:
        ApplicationError: the address is not allowed; see `check_url`.
    """
    parts = _parts(check_url(url))
    if parts is None:
        raise AssertionError("a checked address has parts")
    return _origin(parts)


def address_within(url: str, location: str) -> str:
    """Return the absolute URL of a Location header. Raises RunError for another origin."""
    is_plain = _ALLOWED.fullmatch(location) is not None and "#" not in location
    target = urljoin(url, location) if is_plain else ""
    parts = _parts(target)
    if parts is None or "@" in parts.netloc or _origin(parts) != origin_of(url):
        raise RunError(
            f"the program returned the Location '{_shown(location)}', which is not within "
            f"{origin_of(url)}; it must be an address of the program itself, such as /runs/1"
        )
    return target


def token() -> str | None:
    """Return the secret token for HTTP requests, or None. Raises RunError if it is malformed."""
    secret = os.environ.get(TOKEN)
    if not secret:
        return None
    if _SECRET.fullmatch(secret) is None:
        raise RunError(f"${TOKEN} is not a token: use printable ASCII characters without spaces")
    return secret


def _parts(url: str) -> SplitResult | None:
    """Return the parts of an HTTP address; None if it is invalid."""
    if len(url) > MOST_CHARACTERS or _ALLOWED.fullmatch(url) is None:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.hostname is None or _HOST.fullmatch(parts.hostname) is None or port == 0:
        return None
    return parts


def _origin(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host_text = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host_text}:{parts.port or _PORTS.get(parts.scheme)}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str, longest: int = 120) -> str:
    """Return an address for a message, without a user name or password."""
    line = "".join(c if c.isprintable() else "?" for c in text[: longest + 1])
    line = re.sub(r"//[^/]*@", "//...@", line)
    return line if len(line) <= longest else f"{line[:longest]}..."
