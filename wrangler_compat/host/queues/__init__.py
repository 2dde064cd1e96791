"""Queues: `env.QUEUE.send(…)` and the consumer's `queue(batch, env, ctx)` (platform: Queues)."""

from .broker import Broker
from .producer import WorkerQueue
from .store import QueueStore

__all__ = ["Broker", "QueueStore", "WorkerQueue"]
