"""Ids, namespaces, stubs, gates, storage and alarms: knows no business rule."""
