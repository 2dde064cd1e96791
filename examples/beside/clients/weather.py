"""A client that needs no network."""


def describe(degrees):
    return f"{degrees} °C, {'mild' if degrees > 15 else 'cold'}"
