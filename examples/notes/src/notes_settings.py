"""Settings of the Django project."""

ALLOWED_HOSTS = ["*"]
DEBUG = False
INSTALLED_APPS: list[str] = []
LOGGING_CONFIG = None
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "notes_urls"
SECRET_KEY = "an example keeps no secrets"
USE_TZ = True
