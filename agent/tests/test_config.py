"""The configuration file: its keys, and error messages that name the mistake."""

from pathlib import Path

import pytest

from agent.config import ConfigError, GateLimits, RunLimits, load_config

GOOD = 'server = "https://profile.example.org/"\ntoken = "mgw_secret"\nspool = "spool"\n'


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "agent.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_with_all_keys_is_read(tmp_path):
    (tmp_path / "agent.token").write_text("mgw_other\n")
    (tmp_path / "agent.token").chmod(0o600)
    text = """
        server = "http://127.0.0.1:8000"
        token_file = "agent.token"
        spool = "/var/spool/agent"
        grace_s = 2.5
        log_limit_bytes = 2048
        memory_limit_bytes = 0
        nice = 5
        require_sandbox = true
        show = ["cuda"]
        [[runtime]]
        version = "1.13.0"
        kind = "wheel"
        path = "/opt/mge/bin/python"
        [[runtime]]
        version = "1.12.0"
        kind = "wheel"
        problem = "No Python 3.6 to 3.10 found"
        [gate]
        max_load = 0.2
        wait_s = 5
        [measure]
        cores = [0, 2]
        canary = false
        [cache]
        size_bytes = 0
        [scripts]
        allow = true
        [limits]
        silence_s = 10
        [[c_opr_lib]]
        name = "my-op_1"
        path = "libop.so"
        [[c_opr_lib]]
        name = "gone"
        path = "/nowhere/lib.so"
    """
    (tmp_path / "libop.so").write_text("")
    config = load_config(write(tmp_path, text))
    assert config.token == "mgw_other"
    assert config.spool == Path("/var/spool/agent")
    assert config.socket_url == "ws://127.0.0.1:8000/ws/agent/"
    assert (config.grace_s, config.log_limit_bytes, config.nice) == (2.5, 2048, 5)
    assert config.memory_limit_bytes == 0
    assert [entry.version for entry in config.runtimes] == ["1.13.0", "1.12.0"]
    assert config.secret_files == (tmp_path / "agent.token",)
    assert (config.require_sandbox, config.show) == (True, (tmp_path / "cuda",))
    assert config.gate == GateLimits(enabled=True, max_load=0.2, wait_s=5)
    assert (config.cores, config.canary, config.cache_bytes) == ((0, 2), False, 0)
    assert config.limits == RunLimits(silence_s=10)
    assert config.allow_scripts
    assert config.c_opr_libs == {"my-op_1": tmp_path / "libop.so"}
    (warning,) = config.warnings
    assert "'gone'" in warning
    assert "/nowhere/lib.so" in warning


def test_missing_keys_have_defaults(tmp_path):
    config = load_config(write(tmp_path, GOOD))
    assert not config.gate.enabled
    assert config.canary
    assert (config.cores, config.require_sandbox, config.c_opr_libs) == ("auto", False, {})
    assert config.cache_bytes == 10 << 30
    assert not config.allow_scripts
    limits = config.limits
    assert (limits.silence_s, limits.disk_bytes) == (60, 4 << 30)
    assert (limits.print_bytes, limits.processes) == (64 << 20, 256)


def test_paths_are_relative_to_the_file(tmp_path):
    config = load_config(write(tmp_path, GOOD))
    assert config.spool == tmp_path / "spool"
    assert config.socket_url == "wss://profile.example.org/ws/agent/"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "speed = 3", "unknown key 'speed'"),
        (GOOD + '[[runtime]]\nversion="1"\nkind="wheel"\npath="p"\ncolor=1', "runtime.0.color"),
        (GOOD + '[[runtime]]\nversion="1"\nkind="jar"\npath="p"', "'runtime.0.kind'"),
        (GOOD + '[[runtime]]\nversion="1"\nkind="wheel"', "neither path nor problem"),
        (GOOD + '[[runtime]]\nversion="1"\nkind="wheel"\npath="p"\n' * 2, "given twice"),
        (GOOD + 'token_file = "x"', "exactly one of"),
        (GOOD + 'grace_s = "long"', "'grace_s'"),
        (GOOD.replace("spool", "# spool"), "key 'spool' is missing"),
        (GOOD.replace("https://", ""), "server must look like"),
        (GOOD.replace("https://", "https://:80"), "server must look like"),
        (GOOD.replace("https://", "https://host:80a/"), "server must look like"),
        (GOOD.replace("https://", "https://[::1/"), "server must look like"),
        (GOOD.replace("mgw_secret", "mgw_secret\\n"), "contains no token"),
        ("server = ", "not valid TOML"),
        (GOOD + "[gate]\nspeed = 1", "unknown key 'gate.speed'"),
        (GOOD + '[gate]\nmax_load = "low"', "'gate.max_load'"),
        (GOOD + '[measure]\ncores = "all"', "'measure.cores"),
        (GOOD + "[cache]\nsize_bytes = -1", "'cache.size_bytes'"),
        (GOOD + "[limits]\nspeed = 1", "unknown key 'limits.speed'"),
        (GOOD + '[scripts]\nallow = "yes"', "'scripts.allow'"),
        (GOOD + "[scripts]\nsandbox = false", "unknown key 'scripts.sandbox'"),
        (GOOD + '[[c_opr_lib]]\nname = "a b"\npath = "x"', "'c_opr_lib.0.name'"),
        (GOOD + '[[c_opr_lib]]\nname = "a"\npath = "x"\n' * 2, "c_opr_lib 'a' is given twice"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_key(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words) as caught:
        load_config(write(tmp_path, text))
    assert "mgw_secret" not in str(caught.value)


def test_a_missing_file_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(ConfigError, match="python -m agent enrol"):
        load_config(tmp_path / "agent.toml")


def test_a_missing_token_file_is_named(tmp_path):
    text = GOOD.replace("token =", "token_file =")
    with pytest.raises(ConfigError, match="mgw_secret cannot be read"):
        load_config(write(tmp_path, text))


def test_a_token_that_others_can_read_causes_a_warning(tmp_path):
    (warning,) = load_config(write(tmp_path, GOOD, 0o644)).warnings
    assert "chmod 600" in warning


def test_repr_does_not_contain_the_token(tmp_path):
    assert "mgw_secret" not in repr(load_config(write(tmp_path, GOOD)))


def test_labels_and_the_permission_to_update_are_read(tmp_path):
    path = write(
        tmp_path, GOOD + 'update = true\n[labels]\nchip = "Kirin 990"\n"os.kind" = "a b"\n'
    )
    config = load_config(path)
    assert config.labels == {"chip": "Kirin 990", "os.kind": "a b"}
    assert config.update
    assert not load_config(write(tmp_path, GOOD)).update


@pytest.mark.parametrize(
    "line",
    [
        'chip = ""',
        "chip = 7",
        '"a b" = "x"',
        f'chip = "{"x" * 101}"',
        f'{"x" * 41} = "x"',
        "\n".join(f'l{number} = "x"' for number in range(33)),
    ],
)
def test_an_invalid_label_is_rejected(tmp_path, line):
    with pytest.raises(ConfigError, match="labels"):
        load_config(write(tmp_path, f"{GOOD}[labels]\n{line}\n"))
