"""FastAPI with Jinja templates; bindings come out of the ASGI scope."""

from pathlib import Path

import asgi
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, Field
from workers import WorkerEntrypoint

app = FastAPI(title="Books")
templates = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True)
BOOKS = {1: "Middlemarch", 2: "The Left Hand of Darkness"}


class Book(BaseModel):
    title: str = Field(min_length=1, max_length=200)


def site(request: Request):
    return request.scope["env"].SITE


@app.get("/", response_class=HTMLResponse)
async def index(name: str = Depends(site)):
    return templates.get_template("index.html").render(site=name, books=BOOKS)


@app.get("/books/{number}")
async def book(number: int):
    if number not in BOOKS:
        raise HTTPException(404, f"there is no book {number}")
    return {"number": number, "title": BOOKS[number]}


@app.post("/books", status_code=201)
async def add(book: Book):
    number = max(BOOKS) + 1
    BOOKS[number] = book.title
    return {"number": number, "title": book.title}


@app.get("/env")
async def bindings(env=asgi.env):
    return {"site": env.SITE}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await asgi.fetch(app, request, self.env)
