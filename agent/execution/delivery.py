"""Deliver the result of an attempt: upload its files, and report its end until acknowledged."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.execution.spool import Folder
from agent.link.downloads import TransferError
from agent.link.outbox import Outbox, Unanswered, fit_end
from agent.link.retries import Policies
from agent.link.transfers import Transfer, offer_file
from agent.protocol import (
    MAX_FILES,
    MAX_PHASES,
    AttemptFinished,
    AttemptUploads,
    EndReason,
    FileOffer,
    Phase,
    Uploads,
    UploadTarget,
)

log = logging.getLogger(__name__)


class UploadFailed(RuntimeError):
    """A result file could not be uploaded; the text names the file and the cause."""


class Delivery:
    """Delivers the result of one attempt; continues where an earlier agent process stopped."""

    def __init__(self, folder: Folder, outbox: Outbox, transfer: Transfer) -> None:
        self._folder, self._outbox, self._transfer = folder, outbox, transfer
        #: file name -> reason why the server refuses it
        self._refused: dict[str, str] = {}

    async def run(self, end: AttemptFinished, policies: Policies, halt: asyncio.Event) -> None:
        """Upload the files and deliver `end`. Once `halt` is set, no more files are uploaded."""
        folder = self._folder
        if not folder.record.uploaded:
            await self._note(ended=end)
            started_at = time.time()
            end = await self._upload_files(end, policies, halt)
            upload = Phase(name="upload", started_at=started_at, ended_at=time.time())
            end = end.model_copy(update={"phases": (*end.phases[: MAX_PHASES - 1], upload)})
            await self._note(ended=end, uploaded=True)
        # fit it at the end: failed uploads add to its detail, and an earlier agent may not have
        # shortened it
        await self._outbox.deliver(fit_end(end))
        self._outbox.forget_attempt(end.attempt)
        await asyncio.to_thread(folder.remove)
        log.info("attempt_delivered attempt=%s", end.attempt)

    async def _note(self, **changes: object) -> None:
        """Store the progress on disk; a full disk is logged, as it must not lose the result."""
        try:
            await asyncio.to_thread(lambda: self._folder.write(durable=True, **changes))
        except OSError as exc:
            attempt = self._folder.record.attempt
            log.warning("record_not_written attempt=%s cause=%r", attempt, exc.strerror)

    async def _upload_files(
        self, end: AttemptFinished, policies: Policies, halt: asyncio.Event
    ) -> AttemptFinished:
        """Return `end` with the uploaded files; a failed upload turns a success into a failure."""
        paths = sorted(self._folder.result.iterdir())
        offers = await asyncio.to_thread(lambda: [offer_file(path) for path in paths])
        stored: list[FileOffer] = []
        working = asyncio.create_task(self._upload_patiently(offers, stored, policies))
        halting = asyncio.create_task(halt.wait())
        try:
            await asyncio.wait({working, halting}, return_when=asyncio.FIRST_COMPLETED)
            changes: dict[str, object] = {}
            if not working.done():
                changes = {"reason": EndReason.CANCELLED}
            elif isinstance(error := working.exception(), UploadFailed):
                changes = _after_failure(end, error)
            elif error is not None:
                raise error
        finally:
            halting.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        files = tuple(offer for offer in offers if offer in stored)
        end = end.model_copy(update={**changes, "files": files})
        return end.model_copy(update=_after_refusals(end, self._refused))

    async def _upload_patiently(
        self, offers: list[FileOffer], stored: list[FileOffer], policies: Policies
    ) -> None:
        """Upload all offers with retries, adding them to `stored`; each try requests new URLs.

        Raises UploadFailed.
        """
        remaining, problem = list(offers), ""
        for delay in (*policies.upload.delays(), None):
            if not remaining:
                return
            problem = await self._upload_once(remaining, stored, policies.unanswered)
            if remaining and delay is not None:
                attempt = self._folder.record.attempt
                log.warning("upload_repeated attempt=%s cause=%r", attempt, problem)
                await asyncio.sleep(delay)
        if remaining:
            raise UploadFailed(problem)

    async def _upload_once(
        self, remaining: list[FileOffer], stored: list[FileOffer], most_repeats: int
    ) -> str:
        """Try to upload each file once, in batches whose URLs fit into one frame."""
        problem, offers = "", list(remaining)
        for begin in range(0, len(offers), MAX_FILES):
            batch = offers[begin : begin + MAX_FILES]
            answer = await self._ask(batch, most_repeats)
            targets = {target.name: target for target in answer.targets}
            problem = await self._store(batch, targets, remaining, stored) or problem
        return problem

    async def _ask(self, offers: Iterable[FileOffer], most_repeats: int) -> Uploads:
        question = AttemptUploads(attempt=self._folder.record.attempt, files=tuple(offers))
        try:
            answer = await self._outbox.deliver(question, most_repeats=most_repeats)
        except Unanswered as exc:
            raise UploadFailed("the server named no place for the files") from exc
        if answer is None:
            raise UploadFailed("the server's answer named no place for the files")
        return answer

    async def _store(
        self,
        batch: list[FileOffer],
        targets: Mapping[str, UploadTarget],
        remaining: list[FileOffer],
        stored: list[FileOffer],
    ) -> str:
        """Try to upload each file once, concurrently; stored and refused ones leave `remaining`.

        Returns the last temporary problem. Raises UploadFailed for a permanent one, after all tries
        have ended.
        """

        async def try_to_store(offer: FileOffer) -> str:
            target = targets.get(offer.name)
            if target is not None and target.refused:
                self._refused[offer.name] = target.refused
                remaining.remove(offer)
                return ""
            problem = await self._store_one(offer, target)
            if not problem:
                remaining.remove(offer)
                stored.append(offer)
            return problem

        tries = await asyncio.gather(*map(try_to_store, batch), return_exceptions=True)
        problems = []
        for outcome in tries:
            if isinstance(outcome, BaseException):
                raise outcome
            problems.append(outcome)
        return next(filter(None, reversed(problems)), "")

    async def _store_one(self, offer: FileOffer, target: UploadTarget | None) -> str:
        """Try to upload one file; return the temporary problem, empty on success.

        Raises UploadFailed for a permanent problem.
        """
        if target is None:
            # a late answer to an earlier request may have been taken for the answer to this one
            return f"{offer.name}: the server named no place for it"
        try:
            if target.url:
                await self._transfer.store(self._path(offer), offer, target)
        except TransferError as exc:
            if not exc.passing:
                raise UploadFailed(str(exc)) from exc
            return str(exc)
        return ""

    def _path(self, offer: FileOffer) -> Path:
        return self._folder.result / offer.name


def _after_failure(end: AttemptFinished, error: UploadFailed) -> dict[str, object]:
    """Return the changes of `end` after a failed upload: only a success changes its reason."""
    if end.reason is EndReason.EXITED and end.exit_code == 0:
        return {"reason": EndReason.UPLOAD_FAILED, "detail": str(error)[:1000]}
    return {"detail": f"{end.detail} ({error})".strip()[:1000]}


def _after_refusals(end: AttemptFinished, refused: Mapping[str, str]) -> dict[str, object]:
    """Return the changes of `end` after refused files, which turn a success into a failure."""
    if not refused:
        return {}
    reasons = "; ".join(f"{name}: refused: {why}" for name, why in sorted(refused.items()))
    detail = "; ".join(filter(None, [end.detail, reasons]))[:1000]
    if end.reason is EndReason.EXITED and end.exit_code == 0:
        return {"reason": EndReason.OUTPUT_TOO_LARGE, "detail": detail}
    return {"detail": detail}
