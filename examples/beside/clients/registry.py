"""Which clients there are."""


def names():
    return ["weather"]
