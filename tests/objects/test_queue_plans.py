"""No operation of the queue scans it: every statement goes by an index, and its cost hardly grows with the queue."""

from collections.abc import Callable, Iterator

import pytest

from moorage.durable_objects.objects.queue.items import QUERIES, QueueItems
from moorage.durable_objects.objects.queue.memory import Deliveries, Metrics
from moorage.protocols.queue.admission import new_review
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.dispatch import lease
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.queue.leases import Claim, claim
from moorage.protocols.queue.settings import QueueSettings
from tests.objects.sqlite_storage import Storage

NOW = 1_800_000_000_000
SETTINGS = QueueSettings(debounce_ms=0, debounce_max_ms=0)


def decision(number: int, repositories: int = 50) -> Decision:
    return Decision(f"acme/r{number % repositories}", "main", number, "issue", "issues", "opened", False)


def fill(items: QueueItems, count: int) -> list[QueueItem]:
    made = [new_review(decision(number), 1, NOW + number, SETTINGS) for number in range(1, count + 1)]
    for item in made:
        items.put(item, None)
    return made


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.close()


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_every_query_goes_by_an_index(name: str, analysed: bool, storage: Storage) -> None:
    fill(QueueItems(storage, 1, 1), 300)
    if analysed:
        # an object's own file never is; one that was restored elsewhere may be
        storage.sql.connection.execute("ANALYZE")
    parameters = ["review" if "lane" in name else 1] * QUERIES[name].count("?")
    plan = [row[3] for row in storage.sql.connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", parameters)]
    searched = [line for line in plan if "exact_review_queue" in line]
    assert searched
    assert all(line.startswith("SEARCH") for line in searched), plan
    # an order that the index does not give would be a sort of everything that is found
    assert not any("TEMP B-TREE" in line for line in plan), plan


def steps_of(storage: Storage, work: Callable[[], object]) -> int:
    """How many instructions of SQLite's virtual machine `work` takes, in tens."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    storage.sql.connection.set_progress_handler(count, 10)
    work()
    storage.sql.connection.set_progress_handler(None, 0)
    return steps


def costs(storage: Storage, items: QueueItems, deliveries: Deliveries, size: int) -> dict[str, int]:
    """What each operation costs now; the queue is as before afterwards."""
    fresh = new_review(decision(size + 100_000), 1, NOW, SETTINGS)
    waiting = items.get("acme/r7#57")
    assert waiting is not None
    name = f"lease-{size}"
    handed_out = lease(waiting, name, NOW, SETTINGS)
    held = claim(handed_out, Claim(name, waiting.key, 1, "1", 1), NOW, SETTINGS)
    found = {
        "enqueue": steps_of(storage, lambda: items.put(fresh, None)),
        "look up": steps_of(storage, lambda: items.get(fresh.key)),
        "next ready": steps_of(storage, lambda: items.next_ready("review", NOW + 10_000_000, 8)),
        "hand out": steps_of(storage, lambda: items.put(handed_out, waiting)),
        "by lease": steps_of(storage, lambda: items.by_lease(name)),
        "claim": steps_of(storage, lambda: items.put(held, handed_out)),
        "expired": steps_of(storage, lambda: items.due("review", "leased", NOW, 500)),
        "status": steps_of(storage, lambda: items.of_target("acme/r7#57")),
        "counts": steps_of(storage, items.counts),
        "remove": steps_of(storage, lambda: items.remove(held)),
        "delivery": steps_of(storage, lambda: deliveries.seen("d-5", NOW)),
    }
    items.put(waiting, None)
    items.remove(fresh)
    return found


def test_the_cost_of_every_operation_hardly_grows_with_the_queue(storage: Storage) -> None:
    items = QueueItems(storage, 1, 1)
    deliveries = Deliveries(storage, Metrics(storage))
    measured: dict[int, dict[str, int]] = {}
    done = 0
    for size in (200, 6400):
        for number in range(done + 1, size + 1):
            items.put(new_review(decision(number), 1, NOW + number, SETTINGS), None)
            deliveries.add(f"d-{number}", None, NOW)
        done = size
        measured[size] = costs(storage, items, deliveries, size)
    small, large = measured[200], measured[6400]
    # 32 times as many items: a scan would cost 32 times as much
    assert {name: cost for name, cost in large.items() if cost > 2 * small[name] + 3} == {}, (small, large)


def test_counts_are_those_of_the_table(storage: Storage) -> None:
    items = QueueItems(storage, 1, 1)
    made = fill(items, 120)
    for place, item in enumerate(made):
        if place % 3 == 0:
            items.put(lease(item, f"l-{place}", NOW, SETTINGS), item)
        elif place % 3 == 1:
            items.remove(item)
    counted = {
        (row["lane"], row["state"]): row["n"]
        for row in storage.sql.exec(
            "SELECT lane, state, count(*) AS n FROM exact_review_queue_items GROUP BY lane, state"
        )
    }
    assert {key: count for key, count in items.counts().items() if count} == counted
    by_target = storage.sql.exec(
        "SELECT sum(pending) AS p, sum(dispatching) AS d FROM exact_review_queue_targets"
    ).one()
    assert (by_target["p"], by_target["d"]) == (counted["review", "pending"], counted["review", "dispatching"])


def test_a_full_repository_does_not_hide_the_others(storage: Storage) -> None:
    items = QueueItems(storage, 1, 1)
    for number in range(1, 6):
        item = new_review(decision(number, repositories=1), 1, NOW + number, SETTINGS)
        items.put(item, None)
    first = items.next_ready("review", NOW + 100, 1)
    assert first is not None
    items.put(lease(first, "l-1", NOW + 100, SETTINGS), first)
    assert items.next_ready("review", NOW + 100, 1) is None
    other = Decision("acme/other", "main", 9, "issue", "issues", "opened", False)
    items.put(new_review(other, 1, NOW + 50, SETTINGS), None)
    found = items.next_ready("review", NOW + 100, 1)
    assert found is not None
    assert found.key == "acme/other#9"
