"""ECMAScript's white space, which the ledger's texts are trimmed of (spec action-ledger 6.1)."""

# Neither U+0085 nor U+001C..001F nor U+200B, but U+FEFF: not Python's set.
SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000\ufeff"
)


def trim(value: str) -> str:
    """`value` without ECMAScript white space at its ends."""
    return value.strip(SPACE)
