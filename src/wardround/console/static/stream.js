// One record as it grows: each line exactly once, through cuts and restarts of either side.

const AGAIN = 2000; // milliseconds before a stream that the browser gave up is opened anew

// Calls `onPiece({now, anew, events})` for each message, and `onLine(true or false)` as the connection comes and goes.
export function follow(address, onPiece, onLine) {
  let mark = "";
  const open = () => {
    const source = new EventSource(`/events/${address}?after=${encodeURIComponent(mark)}`);
    source.onmessage = (message) => {
      mark = message.lastEventId;
      onLine(true);
      onPiece(JSON.parse(message.data));
    };
    source.onerror = () => {
      onLine(false);
      // After a plain cut the browser comes again by itself; after a refusal, as by a server with a new token, it does not.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => loggedIn(address).then(open), AGAIN);
    };
  };
  open();
}

// One line that cannot be taken costs itself alone; how many there were.
export function takeEach(events, take) {
  let lost = 0;
  for (const event of events) {
    try {
      take(event);
    } catch {
      lost += 1;
    }
  }
  return lost;
}

export function lostText(lost) {
  return `${lost} ${lost === 1 ? "line" : "lines"} of the record could not be shown`;
}

// Goes to the login where one is asked for.
async function loggedIn(address) {
  const answer = await fetch(`/facts/${address}`).catch(() => null);
  if (answer?.status === 401) location.assign("/login");
}

export function showLine(live) {
  const place = document.getElementById("line");
  place.textContent = live ? "live" : "connection lost, trying again";
  place.className = live ? "line live" : "line lost";
}
