"""Numbers as people read them."""


def shown_seconds(seconds: float) -> str:
    """Two digits and a unit: 0.46 ms, 12 ms, 3.4 s, 25 min, 4.1 h."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size * (1 if unit == "s" else 2):
            return f"{two_digits(seconds / size)} {unit}"
    return f"{two_digits(seconds * 1e3)} ms"


def two_digits(number: float) -> str:
    """Rounded to two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.15g}"


def shown_bytes(size: float) -> str:
    """Two digits and a unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{two_digits(size / unit)} {name}"
    return f"{size:.0f} bytes"
