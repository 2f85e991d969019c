# The same as `make run`, in a container: what is locked, nothing else, and not as root.
FROM python:3.11-slim-trixie

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv/threadloom

# `manage.py backup` and the snapshots before migrations need PostgreSQL's client programs, as new as the server (17).
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client-17 && rm -rf /var/lib/apt/lists/*

COPY requirements.lock .
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock

COPY manage.py ./
COPY agent agent
COPY chatsite chatsite
COPY templates templates
COPY static static
COPY locale locale
# Readable whatever the umask of whoever cloned it; compiled, since at run time nothing can be written here.
RUN chmod -R a+rX . && python -m compileall -q agent chatsite

RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin threadloom && install -d -o threadloom -g threadloom -m 700 /data
USER threadloom
VOLUME /data

# HTTPS is the proxy's: set HTTPS=true behind one (deploy/compose.yaml does).
ENV DATA_DIR=/data HOST=0.0.0.0 PORT=8000 SERVER=uvicorn
EXPOSE 8000
# The start may have to migrate much: it is given ten minutes.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# SIGTERM lets running answers come to their end (DRAIN_SECONDS, 20); give it a little more than that.
STOPSIGNAL SIGTERM
CMD ["python", "manage.py", "serve"]
