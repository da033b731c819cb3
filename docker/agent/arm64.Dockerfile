# An agent for 64-bit ARM. MegEngine has no wheel for ARM, so the runtime is a load_and_run that was
# compiled for this device, mounted at /opt/mge together with its libraries.
# docker buildx build --platform linux/arm64 -f docker/agent/arm64.Dockerfile .

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /app
COPY requirements/agent.txt requirements/
RUN python -m venv /opt/agent \
    && /opt/agent/bin/pip install --require-hashes --only-binary :all: -r requirements/agent.txt

FROM python:3.11.14-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin agent \
    && install -d -o agent -g agent -m 0700 /var/lib/agent
COPY --from=build /opt/agent /opt/agent
COPY agent/ /app/agent/
COPY docker/agent/entrypoint.sh /app/docker/agent/entrypoint.sh
ENV PATH=/opt/agent/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    AGENT_HOME=/var/lib/agent RUNTIME_BINARY=/opt/mge/load_and_run LD_LIBRARY_PATH=/opt/mge
WORKDIR /app
USER 10001:10001
VOLUME ["/var/lib/agent"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/app/docker/agent/entrypoint.sh", "health"]
ENTRYPOINT ["/app/docker/agent/entrypoint.sh"]
CMD ["run"]
