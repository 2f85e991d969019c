"""The site's settings for tests: a data folder of their own, files as they lie, passwords that hash fast."""

import atexit
import os
import shutil
import tempfile

if not os.environ.get("DATA_DIR"):
    os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="threadloom-test-")
    atexit.register(shutil.rmtree, os.environ["DATA_DIR"], ignore_errors=True)

from chatsite.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}  # noqa: F405
