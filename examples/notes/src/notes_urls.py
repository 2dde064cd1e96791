"""Routes and views: plain synchronous Django."""

from django.http import HttpResponseNotAllowed, JsonResponse
from django.urls import path
from pyodide.ffi import run_sync


def notes(request):
    book = request.environ["workers.env"].NOTES.getByName("book")
    if request.method == "POST":
        number = run_sync(book.add(request.POST["text"]))
        return JsonResponse({"id": number}, status=201)
    if request.method == "GET":
        return JsonResponse({"notes": run_sync(book.all())})
    return HttpResponseNotAllowed(["GET", "POST"])


urlpatterns = [path("notes/", notes)]
