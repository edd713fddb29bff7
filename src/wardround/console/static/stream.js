// Follow a growing record: each line exactly once, even if the connection breaks or either side restarts.

const RETRY = 2000; // milliseconds before a closed stream is opened again

// Call `onChunk({now, restarted, events})` for each message, and `onConnection(boolean)` when the connection changes.
export function follow(address, onChunk, onConnection) {
  let position = "";
  const open = () => {
    const source = new EventSource(`/events/${address}?after=${encodeURIComponent(position)}`);
    source.onmessage = (message) => {
      position = message.lastEventId;
      onConnection(true);
      onChunk(JSON.parse(message.data));
    };
    source.onerror = () => {
      onConnection(false);
      // A browser reconnects by itself after a break, but not after a refusal, e.g. by a server with a new token.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => checkLogin(address).then(open), RETRY);
    };
  };
  open();
}

// Apply each event, skip those that fail, and return how many did.
export function applyEach(events, apply) {
  let lost = 0;
  for (const event of events) {
    try {
      apply(event);
    } catch {
      lost += 1;
    }
  }
  return lost;
}

export function lostText(lost) {
  return `${lost} ${lost === 1 ? "line" : "lines"} of the record could not be shown`;
}

// Go to the login page if a login is required.
async function checkLogin(address) {
  const answer = await fetch(`/facts/${address}`).catch(() => null);
  if (answer?.status === 401) location.assign("/login");
}

export function showConnection(live) {
  const place = document.getElementById("line");
  place.textContent = live ? "live" : "connection lost, reconnecting";
  place.className = live ? "line live" : "line lost";
}
