import assert from "node:assert/strict";
import { test } from "node:test";

import { localTime, storeTimeZone } from "../format.js";

test("a time is formatted in the user's time zone, across midnight and in summer", () => {
  assert.equal(localTime("2026-11-20T22:30:05Z", true, "Asia/Shanghai"), "2026-11-21 06:30:05");
  assert.equal(localTime("2026-11-20T16:00:00Z", false, "Asia/Shanghai"), "2026-11-21 00:00");
  assert.equal(localTime("2026-07-01T12:00:00+02:00", false, "America/New_York"), "2026-07-01 06:00");
});

test("the cookie of the time zone is set once, and again after a change", () => {
  const written = [];
  const doc = {
    get cookie() {
      return ["sessionid=x", ...written.map((line) => line.split(";")[0])].join("; ");
    },
    set cookie(line) {
      written.push(line);
    },
  };
  storeTimeZone(doc, "Asia/Shanghai");
  storeTimeZone(doc, "Asia/Shanghai");
  assert.deepEqual(written, ["tz=Asia%2FShanghai; Path=/; Max-Age=31536000; SameSite=Lax"]);
  storeTimeZone(doc, "Europe/Berlin");
  assert.equal(written.length, 2);
  storeTimeZone(doc, "");
  assert.equal(written.length, 2);
});
