"""Deliver the result of an attempt: upload its files, and report its end until acknowledged."""

import asyncio
import logging
import time

from agent.execution.spool import Folder
from agent.halting import Halted, unless_halted
from agent.link.downloads import TransferError
from agent.link.outbox import Outbox, Unanswered, fit_end
from agent.link.retries import Policies
from agent.link.transfers import Transfer, offer_file
from agent.protocol.messages import (
    MAX_FILES,
    MAX_NOTES,
    MAX_PHASES,
    AttemptFinished,
    AttemptUploads,
    EndReason,
    FileOffer,
    Phase,
    UploadTarget,
)
from agent.protocol.notes import Note

log = logging.getLogger(__name__)


class UploadFailed(RuntimeError):
    """A result file could not be uploaded; the note contains the file and the cause."""

    def __init__(self, note: Note) -> None:
        self.note = note
        super().__init__(str(note))


class Delivery:
    """Delivers the result of one attempt; continues where an earlier agent process stopped."""

    def __init__(
        self, folder: Folder, outbox: Outbox, transfer: Transfer, policies: Policies
    ) -> None:
        self._folder, self._outbox = folder, outbox
        self._transfer, self._policies = transfer, policies
        self._stored: list[FileOffer] = []
        #: file name -> reason why the server refuses it
        self._refused: dict[str, Note] = {}

    async def run(self, end: AttemptFinished, halt: asyncio.Event) -> None:
        """Upload the files and deliver `end`. Once `halt` is set, no more files are uploaded."""
        folder = self._folder
        if not folder.record.uploaded:
            await self._note(ended=end)
            started_at = time.time()
            end = await self._upload_files(end, halt)
            upload = Phase(name="upload", started_at=started_at, ended_at=time.time())
            end = end.model_copy(update={"phases": (*end.phases[: MAX_PHASES - 1], upload)})
            await self._note(ended=end, uploaded=True)
        # fit it at the end: failed uploads add to its notes, and an earlier agent may not have
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

    async def _upload_files(self, end: AttemptFinished, halt: asyncio.Event) -> AttemptFinished:
        """Return `end` with the uploaded files; a failed upload turns a success into a failure."""
        paths = sorted(self._folder.result.iterdir())
        offers = await asyncio.to_thread(lambda: [offer_file(path) for path in paths])
        try:
            await unless_halted(halt, self._upload_patiently(offers))
        except Halted:
            end = end.model_copy(update={"reason": EndReason.CANCELLED})
        except UploadFailed as error:
            end = _after_problem(end, EndReason.UPLOAD_FAILED, error.note)
        if self._refused:
            reasons = (
                Note.of("file_refused", name=name, problem=why)
                for name, why in sorted(self._refused.items())
            )
            end = _after_problem(end, EndReason.OUTPUT_TOO_LARGE, *reasons)
        files = tuple(offer for offer in offers if offer in self._stored)
        return end.model_copy(update={"files": files})

    async def _upload_patiently(self, offers: list[FileOffer]) -> None:
        """Upload all files with retries. Raises UploadFailed."""
        for delay in (*self._policies.upload.delays(), None):
            problem = await self._upload_once(offers)
            if problem is None:
                return
            if delay is None:
                raise UploadFailed(problem)
            attempt = self._folder.record.attempt
            log.warning("upload_repeated attempt=%s cause=%r", attempt, str(problem))
            await asyncio.sleep(delay)

    async def _upload_once(self, offers: list[FileOffer]) -> Note | None:
        """Try to upload each remaining file once, in batches whose URLs fit into one frame.

        Returns the last temporary problem, None if no file remains. Raises UploadFailed for a
        permanent problem, after all tries of its batch have ended.
        """
        problem = None
        remaining = [
            offer
            for offer in offers
            if offer not in self._stored and offer.name not in self._refused
        ]
        for begin in range(0, len(remaining), MAX_FILES):
            batch = remaining[begin : begin + MAX_FILES]
            targets = await self._request_targets(batch)
            tries = [self._store(offer, targets.get(offer.name)) for offer in batch]
            for outcome in await asyncio.gather(*tries, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                problem = outcome or problem
        return problem

    async def _request_targets(self, offers: list[FileOffer]) -> dict[str, UploadTarget]:
        """Return the server's upload targets by file name. Raises UploadFailed."""
        request = AttemptUploads(attempt=self._folder.record.attempt, files=tuple(offers))
        try:
            answer = await self._outbox.deliver(request, most_repeats=self._policies.unanswered)
        except Unanswered as exc:
            raise UploadFailed(Note.of("no_upload_urls")) from exc
        if answer is None:
            raise UploadFailed(Note.of("no_upload_urls"))
        return {target.name: target for target in answer.targets}

    async def _store(self, offer: FileOffer, target: UploadTarget | None) -> Note | None:
        """Try to upload one file; return the temporary problem, None if it is stored or refused.

        Raises UploadFailed for a permanent problem.
        """
        if target is None:
            # a late answer to an earlier request may have been taken for the answer to this one
            return Note.of("no_upload_url", name=offer.name)
        if target.refused is not None:
            self._refused[offer.name] = target.refused
            return None
        try:
            if target.url:
                await self._transfer.store(self._folder.result / offer.name, offer, target)
        except TransferError as exc:
            if not exc.is_transient:
                raise UploadFailed(exc.note) from exc
            return exc.note
        self._stored.append(offer)
        return None


def _after_problem(end: AttemptFinished, reason: EndReason, *notes: Note) -> AttemptFinished:
    """Return `end` after files could not be stored, which turns only a success into a failure."""
    is_success = end.reason is EndReason.EXITED and end.exit_code == 0
    changes = {
        "reason": reason if is_success else end.reason,
        "notes": (*end.notes, *notes)[:MAX_NOTES],
    }
    return end.model_copy(update=changes)
