// What the graph is drawn from: documents of our server, and a model that lies in storage.

import { NotDrawn } from "./graph_frame.js";

/**
 * GET `url` and return what `read` makes of the answer. Throws NotDrawn with the server's words if
 * it has any. Where the session has ended, the page is loaded anew, which leads to the login.
 */
export async function fetched(url, read) {
  const address = new URL(url, location.href);
  let response = null;
  try {
    response = await fetch(address, { headers: { Accept: "application/json" } });
    if (response.ok && !response.redirected) return await read(response);
  } catch {
    throw new NotDrawn("");
  }
  const isOver = response.redirected || response.status === 401;
  if (isOver && address.origin === location.origin) location.reload();
  throw new NotDrawn(await words(response));
}

async function words(response) {
  try {
    return (await response.json()).detail ?? "";
  } catch {
    return "";
  }
}
