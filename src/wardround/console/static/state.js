// The state of a run, computed from its events in order; the same events give the same state after any restart.

const FAR = new Set(["unreachable", "transport"]); // codes of a site without a connection

export class RunState {
  constructor(sites) {
    this.names = sites;
    this.reset();
  }

  reset() {
    this.rounds = new Map(); // by number; after a crash a repeated round replaces the earlier one
    this.scored = new Map();
    this.otherCosts = []; // [round, bytes of each site] of requests outside of rounds and in failed rounds
    this.sites = new Map(this.names.map((name) => [name, { state: "unknown", code: "", absences: 0 }]));
    this.status = "waiting";
    this.last = 0; // time of the last event
    this.current = 0;
    this.started = null; // [round, seconds] at the start of this process of the run
    this.epochs = false;
    this.final = null; // the last event of a finished run
    this.lost = 0; // lines that could not be shown
    this.log = [];
    this.failures = [];
  }

  apply(event) {
    this.last = event.time || this.last;
    (this[`on_${event.event}`] || (() => {})).call(this, event);
    const line = event.event in LINES ? LINES[event.event](event) : event.event;
    if (line) this.log.push([event.time, line]);
    if (this.log.length > 200) this.log.splice(0, 100);
  }

  on_waiting() { this.status = "waiting"; }

  on_gathered(event) {
    for (const name of this.sites.keys()) this.mark(name, event.present.includes(name) ? "online" : "absent", "");
  }

  on_started(event) { this.start(event.round || 0, event.time); }

  on_resumed(event) { this.start(event.round || 0, event.time); }

  on_round(event) {
    this.status = "running";
    this.rounds.set(event.round, event);
    this.current = event.round;
    const absent = new Map(event.absent.map(([site, absence, code]) => [site, [absence, code]]));
    // The state of sites that were not asked in this round is unknown.
    const all = event.answered + absent.size >= this.sites.size;
    const known = Object.keys(event.exchanges);
    const asked = known.length ? known : all ? [...this.sites.keys()] : [];
    for (const name of asked) if (!absent.has(name)) this.mark(name, "online", "");
    for (const [site, [absence, code]] of absent) this.miss(site, absence, code);
  }

  on_scored(event) {
    this.scored.set(event.round, event);
    for (const name of Object.keys(event.f1)) this.mark(name, "online", "");
  }

  on_asked(event) { this.otherCosts.push([event.round || 0, event.exchanges]); }

  on_absent(event) { if (event.site) this.miss(event.site, event.absence, event.code); }

  on_round_failed(event) {
    this.current = event.round - 1;
    this.failures.push(event);
    this.otherCosts.push([event.round - 1, event.exchanges]);
  }

  on_epoch(event) {
    this.epochs = true;
    this.status = "running";
    this.current = event.epoch;
    this.rounds.set(event.epoch, { ...event, round: event.epoch });
    this.scored.set(event.epoch, { round: event.epoch, f1: {}, mean_f1: event.dev_f1 });
  }

  on_finished(event) {
    this.status = "finished";
    this.final = event;
  }

  start(number, time) {
    this.status = "running";
    this.current = number;
    this.started = [number, time];
    this.final = null;
    for (const known of [this.rounds, this.scored]) {
      for (const round of [...known.keys()]) if (round > number) known.delete(round); // they are repeated
    }
    this.otherCosts = this.otherCosts.filter(([round]) => round <= number);
  }

  mark(name, state, code) {
    const site = this.sites.get(name) || { absences: 0 };
    this.sites.set(name, { ...site, state, code });
  }

  miss(name, absence, code) {
    this.mark(name, FAR.has(code) ? "absent" : absence, code);
    this.sites.get(name).absences += 1;
  }

  // Bytes of the rounds that count and of all other requests, as in the report.
  total(way) {
    const ofRounds = [...this.rounds.values()].reduce((sum, round) => sum + (round[way] || 0), 0);
    const place = way === "down" ? 0 : 1;
    const ofSites = this.otherCosts.flatMap(([, exchanges]) => Object.values(exchanges));
    return ofSites.reduce((sum, bytes) => sum + bytes[place], ofRounds);
  }

  // The same for each site, [down, up]; empty if the record does not say.
  totalBySite() {
    const totals = new Map();
    const ofRounds = [...this.rounds.values()].map((round) => round.exchanges || {});
    for (const exchanges of [...ofRounds, ...this.otherCosts.map(([, each]) => each)]) {
      for (const [name, [down, up]] of Object.entries(exchanges)) {
        const known = totals.get(name) || [0, 0];
        totals.set(name, [known[0] + down, known[1] + up]);
      }
    }
    return totals;
  }

  best() {
    const scored = [...this.scored.values()].filter((event) => event.mean_f1 !== null);
    return scored.reduce((a, b) => (a && a.mean_f1 >= b.mean_f1 ? a : b), null);
  }

  // The final mean over the sites; for training at one site, the first matching mode of its task.
  finalF1() {
    const scores = Object.values(this.final?.f1 || {});
    if (scores.length) return scores.reduce((a, b) => a + b) / scores.length;
    return Object.values(this.final?.scores || {})[0] ?? null;
  }

  // Seconds per round in this process of the run.
  pace() {
    const done = this.started ? this.current - this.started[0] : 0;
    return done > 0 ? (this.last - this.started[1]) / done : null;
  }
}

const LINES = {
  waiting: (e) => `waiting for ${e.least} of ${e.sites} sites`,
  gathered: (e) => `online: ${e.present.join(", ")}`,
  started: (e) => (e.sites ? `started with ${e.sites} sites` : "started"),
  resumed: (e) => `resumes after round ${e.round}`,
  round: (e) => `round ${e.round}: loss ${number(e.loss)}, ${e.answered ?? "–"} answered` +
    (e.absent.length ? `, absent ${e.absent.map(([site, absence, code]) => `${site} (${code || absence})`).join(", ")}` : "") +
    (e.notice ? `; ${e.notice}` : ""),
  scored: (e) => `scored after round ${e.round}: mean F1 ${number(e.mean_f1)}`,
  asked: () => "",
  absent: (e) => `${e.site} ${e.absence} at ${e.step} (${e.code})`,
  round_failed: (e) => `round ${e.round} failed: ${e.reason}`,
  diverged: (e) => `copies of the shared layers differ at ${e.sites.join(", ")}`,
  caught_up: (e) => `caught up: ${e.sites.join(", ")}`,
  epoch: (e) => `epoch ${e.epoch}: loss ${number(e.loss)}, F1 ${number(e.dev_f1)}${e.best ? ", best so far" : ""}`,
  finished: (e) => (e.rounds ? `finished after ${e.rounds} rounds${e.best_round ? `, best round ${e.best_round}` : ""}` : "finished"),
};

function number(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}
