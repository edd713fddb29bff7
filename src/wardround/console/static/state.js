// What is known of a run, from its events in their order; the same events give the same state, whoever restarted.

const FAR = new Set(["unreachable", "transport"]); // codes of a site to which no connection stands

export class RunState {
  constructor(sites) {
    this.names = sites;
    this.reset();
  }

  reset() {
    this.rounds = new Map(); // by number; of one that was done again after a crash, the last
    this.scored = new Map();
    this.beside = []; // [round, bytes of each site] of what was asked beside the rounds, and of rounds that failed
    this.sites = new Map(this.names.map((name) => [name, { state: "unknown", code: "", absences: 0 }]));
    this.status = "waiting";
    this.last = 0; // when the last event was
    this.current = 0;
    this.begun = null; // [round, seconds] when this process of the run began
    this.epochs = false;
    this.final = null; // the last event of a run that is finished
    this.lost = 0; // lines that could not be taken
    this.log = [];
    this.failures = [];
  }

  take(event) {
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

  on_started(event) { this.begin(event.round || 0, event.time); }

  on_resumed(event) { this.begin(event.round || 0, event.time); }

  on_round(event) {
    this.status = "running";
    this.rounds.set(event.round, event);
    this.current = event.round;
    const gone = new Map(event.absent.map(([site, absence, code]) => [site, [absence, code]]));
    // Of those who were not asked in this round nobody knows.
    const everybody = event.answered + gone.size >= this.sites.size;
    const told = Object.keys(event.exchanges);
    const asked = told.length ? told : everybody ? [...this.sites.keys()] : [];
    for (const name of asked) if (!gone.has(name)) this.mark(name, "online", "");
    for (const [site, [absence, code]] of gone) this.miss(site, absence, code);
  }

  on_scored(event) {
    this.scored.set(event.round, event);
    for (const name of Object.keys(event.f1)) this.mark(name, "online", "");
  }

  on_asked(event) { this.beside.push([event.round || 0, event.exchanges]); }

  on_absent(event) { if (event.site) this.miss(event.site, event.absence, event.code); }

  on_round_failed(event) {
    this.current = event.round - 1;
    this.failures.push(event);
    this.beside.push([event.round - 1, event.exchanges]);
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

  begin(number, time) {
    this.status = "running";
    this.current = number;
    this.begun = [number, time];
    this.final = null;
    for (const known of [this.rounds, this.scored]) {
      for (const round of [...known.keys()]) if (round > number) known.delete(round); // they are done again
    }
    this.beside = this.beside.filter(([round]) => round <= number);
  }

  mark(name, state, code) {
    const site = this.sites.get(name) || { absences: 0 };
    this.sites.set(name, { ...site, state, code });
  }

  miss(name, absence, code) {
    this.mark(name, FAR.has(code) ? "absent" : absence, code);
    this.sites.get(name).absences += 1;
  }

  // Bytes of the rounds that count and of all that was asked beside them, as the report adds them.
  total(way) {
    const ofRounds = [...this.rounds.values()].reduce((sum, round) => sum + (round[way] || 0), 0);
    const place = way === "down" ? 0 : 1;
    const ofSites = this.beside.flatMap(([, exchanges]) => Object.values(exchanges));
    return ofSites.reduce((sum, bytes) => sum + bytes[place], ofRounds);
  }

  // The same of each site, [down, up]; empty where the record does not say.
  totalBySite() {
    const totals = new Map();
    const ofRounds = [...this.rounds.values()].map((round) => round.exchanges || {});
    for (const exchanges of [...ofRounds, ...this.beside.map(([, each]) => each)]) {
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

  // The mean over the sites at the end; of a training at one site, by the first reading of its task.
  finalF1() {
    const scores = Object.values(this.final?.f1 || {});
    if (scores.length) return scores.reduce((a, b) => a + b) / scores.length;
    return Object.values(this.final?.scores || {})[0] ?? null;
  }

  // Seconds a round took in this process of the run.
  pace() {
    const done = this.begun ? this.current - this.begun[0] : 0;
    return done > 0 ? (this.last - this.begun[1]) / done : null;
  }
}

const LINES = {
  waiting: (e) => `waiting for ${e.least} of ${e.sites} sites`,
  gathered: (e) => `here: ${e.present.join(", ")}`,
  started: (e) => (e.sites ? `started with ${e.sites} sites` : "started"),
  resumed: (e) => `goes on after round ${e.round}`,
  round: (e) => `round ${e.round}: loss ${number(e.loss)}, ${e.answered ?? "–"} answered` +
    (e.absent.length ? `, absent ${e.absent.map((gone) => `${gone[0]} (${gone[2] || gone[1]})`).join(", ")}` : ""),
  scored: (e) => `scored after round ${e.round}: mean F1 ${number(e.mean_f1)}`,
  asked: () => "",
  absent: (e) => `${e.site} ${e.absence} at ${e.step} (${e.code})`,
  round_failed: (e) => `round ${e.round} failed: ${e.reason}`,
  diverged: (e) => `copies of the shared half differ at ${e.sites.join(", ")}`,
  caught_up: (e) => `caught up: ${e.sites.join(", ")}`,
  epoch: (e) => `epoch ${e.epoch}: loss ${number(e.loss)}, F1 ${number(e.dev_f1)}${e.best ? ", the best" : ""}`,
  finished: (e) => (e.rounds ? `finished after ${e.rounds} rounds${e.best_round ? `, the best is ${e.best_round}` : ""}` : "finished"),
};

function number(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}
