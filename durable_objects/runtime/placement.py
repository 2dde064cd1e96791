"""Whose is this object? The seam between a stub and the instance that answers it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .ids import DurableObjectId
    from .instance import Instance
    from .namespace import DurableObjectNamespace


class Placement(Protocol):
    """Finds the instance that owns an id. Another process's objects would be reached through a stand-in here."""

    def reach(self, namespace: "DurableObjectNamespace", object_id: "DurableObjectId") -> "Instance":
        """Returns the live instance, starting one if there is none."""


class LocalPlacement:
    """Every object is this process's."""

    def reach(self, namespace: "DurableObjectNamespace", object_id: "DurableObjectId") -> "Instance":
        """Returns the namespace's own instance."""
        return namespace.instance(object_id)
