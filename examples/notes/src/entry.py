"""Django over WSGI; a view waits for a Durable Object in the middle of synchronous code."""

import os

import django
from workers import DurableObject, WorkerEntrypoint, wsgi

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "notes_settings")
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402 - settings come first

app = get_wsgi_application()


class Notes(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")

    async def add(self, text):
        return self.ctx.storage.sql.exec("INSERT INTO notes(text) VALUES(?) RETURNING id", text).one()["id"]

    async def all(self):
        return [row.text for row in self.ctx.storage.sql.exec("SELECT text FROM notes ORDER BY id")]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await wsgi.fetch(app, request, self.env)
