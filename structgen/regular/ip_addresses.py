"""The grammar of IP addresses in RFC 3986, as patterns."""

OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"{OCTET}(?:\.{OCTET}){{3}}"
GROUP = "[0-9A-Fa-f]{1,4}"
_LAST = f"(?:{GROUP}:{GROUP}|{IPV4})"
_FORMS = (
    f"(?:{GROUP}:){{6}}{_LAST}",
    f"::(?:{GROUP}:){{5}}{_LAST}",
    *(f"(?:{GROUP}(?::{GROUP}){{0,{n}}})?::(?:{GROUP}:){{{4 - n}}}{_LAST}" for n in range(5)),
    f"(?:{GROUP}(?::{GROUP}){{0,5}})?::{GROUP}",
    f"(?:{GROUP}(?::{GROUP}){{0,6}})?::",
)
IPV6 = f"(?:{'|'.join(_FORMS)})"
