"""A disk that fills up while an attempt is recorded costs the record, never the result."""

import errno
from pathlib import Path

import pytest

from agent.protocol import EndReason


@pytest.mark.parametrize("name", ["measurement.json", "manifest.json"])
async def test_a_record_that_a_full_disk_cut_short_is_not_stored(
    device, server, storage, monkeypatch, name
):
    write = Path.write_text

    def full(path, text, **how):
        if path.name == name:
            write(path, text[: len(text) // 2 if name == "manifest.json" else 0], **how)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert {file.name for file in end.files} == set(storage.stored)
    assert "profile.json" in storage.stored
    assert name not in storage.stored
    await device.forgets_all()
