"""A to-do list in a D1 database: a schema, statements with values, and a batch that is all or nothing."""

from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint

SCHEMA = """
CREATE TABLE IF NOT EXISTS todo (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, done INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS open_todo ON todo (done);
"""


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        db = self.env.DB
        await db.exec(SCHEMA)
        path = urlsplit(request.url).path
        if request.method == "POST" and path == "/":
            titles = await request.json()
            add = db.prepare("INSERT INTO todo (title) VALUES (?) RETURNING id")
            try:
                added = await db.batch([add.bind(title) for title in titles])
            except Exception as error:
                if "UNIQUE constraint failed" not in str(error):
                    raise
                return Response.json({"error": "one of these is on the list already"}, status=409)
            return Response.json([result["results"][0]["id"] for result in added], status=201)
        if request.method == "PUT":
            done = await db.prepare("UPDATE todo SET done = 1 WHERE id = ?").bind(int(path.strip("/"))).run()
            return Response(None, status=204 if done["meta"]["changes"] else 404)
        left = await db.prepare("SELECT count(*) AS n FROM todo WHERE done = ?").bind(False).first("n")
        rows = await db.prepare("SELECT id, title, done FROM todo ORDER BY id").all()
        items = [{"id": row.id, "title": row.title, "done": bool(row.done)} for row in rows.results]
        return Response.json({"left": left, "items": items})
