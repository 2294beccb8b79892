"use strict";
// Judge the documents that methods found. The first half is arithmetic, which tests run without a browser.
const RIGHT = 2;
const DEPTH = 10;
const LEAST_CLUSTERS = 6;
const EQUAL = 1e-11;
const Z = 1.959964;
// Entries of the log that are no judgement: a skipped question, one that goes on after its right document, a file.
const [SKIP, ON, FILE] = [-1, -2, -3];

// nDCG@10. A ranking has groups of tied documents, [number, documents...], which count with their mean.
function score(groups, grades) {
  const ideal = [...grades.values()].sort((a, b) => b - a).slice(0, DEPTH);
  const discount = (place) => 1 / Math.log2(place + 2);
  let place = 0;
  let gain = 0;
  for (const [size, ...documents] of groups) {
    const expected = total(documents.map((key) => grades.get(key) || 0)) / size;
    for (let i = 0; i < size && place < DEPTH; i++) gain += expected * discount(place++);
  }
  return gain / total(ideal.map((grade, i) => grade * discount(i)));
}
// Groups of questions that share a label, and every other question alone.
function clustersOf(labels) {
  const members = new Map();
  labels.forEach((own, i) => new Set(own).forEach((label) => members.set(label, [...(members.get(label) || []), i])));
  const groups = [...members.values()].filter((group) => group.length > 1);
  const shared = new Map(groups.map((group) => [group.join(), group]));
  const together = new Set(groups.flat());
  return [...shared.values(), ...labels.map((_, i) => [i]).filter(([i]) => !together.has(i))];
}
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
// The 97.5 % quantile of Student's t (Cornish-Fisher; within .003 from 5 degrees of freedom on).
function student(n) {
  const [z, z3, z5, z7] = [1, 3, 5, 7].map((power) => Z ** power);
  const terms = [(z3 + z) / 4, (5 * z5 + 16 * z3 + 3 * z) / 96, (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384];
  return z + total(terms.map((term, i) => term / n ** (i + 1)));
}
function quantile(sorted, share) {
  const below = Math.floor(share * (sorted.length - 1));
  const [low, high] = sorted.slice(below, below + 2);
  return low + (share * (sorted.length - 1) - below) * (high - low);
}
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const mean = (values) => total(values) / values.length;

// The bootstrap over clusters of evaluation/resampling.py. scores: [candidates][questions], from 0 to 1.
function resample(scores, labels) {
  const clusters = clustersOf(labels);
  const n = clusters.length;
  const byCluster = (values) => clusters.map((group) => (n / labels.length) * total(group.map((i) => values[i])));
  const means = scores.map(mean);
  const residuals = scores.map((row, c) => byCluster(row.map((value) => value - means[c])));
  const inflation = n > 1 ? (student(n - 1) / Z) * Math.sqrt((n + 1) / (n - 1)) : 1;
  const nResamples = Math.round(Math.min(Math.max(6e5 / n, 10000), 20000));
  const deviations = scores.map(() => new Float64Array(nResamples));
  const unseen = new Float64Array(nResamples);
  const [random, weights] = [randomNumbers(n), new Float64Array(n)];
  for (let r = 0; r < nResamples; r++) {
    let all = (unseen[r] = -Math.log(1 - random()));
    for (let k = 0; k < n; k++) all += weights[k] = -Math.log(1 - random());
    unseen[r] /= all;
    for (let k = 0; k < n; k++) weights[k] = inflation * (weights[k] / all - 1 / n);
    for (let c = 0; c < scores.length; c++) {
      for (let k = 0; k < n; k++) deviations[c][r] += weights[k] * residuals[c][k];
    }
  }
  const luck = scores.map(() => Float64Array.from(unseen, random));
  const interval = (center, values) => {
    if (n === 1) return { mean: center, low: NaN, high: NaN };
    const [low, high] = [0.025, 0.975].map((share) => center + quantile(values.sort(), share));
    return { mean: center, low: Math.min(low, center), high: Math.max(high, center) };
  };
  const differing = (a, b) =>
    clusters.filter((group) => group.some((i) => Math.abs(scores[b][i] - scores[a][i]) > EQUAL)).length;
  return {
    n,
    means,
    deviations,
    mean(c) {
      const values = deviations[c].map((value, r) => value + unseen[r] * (Math.round(luck[c][r]) - means[c]));
      const { low, high } = interval(means[c], values);
      return { mean: means[c], low: Math.max(low, 0), high: Math.min(high, 1) };
    },
    difference(a, b) {
      const gaps = byCluster(scores[b].map((value, i) => value - scores[a][i])).map(Math.abs);
      const largest = Math.max(...gaps) <= EQUAL ? 1 : Math.min(Math.max(...gaps), 1);
      const values = deviations[b].map(
        (value, r) => value - deviations[a][r] + unseen[r] * largest * Math.sign(luck[b][r] - luck[a][r]),
      );
      const found = interval(means[b] - means[a], values);
      if (differing(a, b) >= LEAST_CLUSTERS) return found;
      return { ...found, low: Math.min(found.low, 0), high: Math.max(found.high, 0) };
    },
    isBetter(a, b) {
      const rest = residuals[b].map((value, k) => value - residuals[a][k]);
      const error = Math.sqrt(total(rest.map((value) => value ** 2)) / (n * (n - 1)));
      return n > 1 && means[b] - means[a] > error + EQUAL;
    },
    // What knowing the best would gain over this candidate, on average.
    gain(c) {
      const best = unseen.map((_, r) => Math.max(...means.map((value, k) => value + deviations[k][r])));
      return mean(best.map((value, r) => value - means[c] - deviations[c][r]));
    },
  };
}
// Scores so far, which candidate to use, and whether that is enough. grades: one map of document -> grade a question.
function standingOf(data, grades) {
  const judged = data.questions.map((_, i) => i).filter((i) => [...grades[i].values()].some((grade) => grade > 0));
  if (!judged.length) return null;
  const scores = data.candidates.map((_, c) => judged.map((i) => score(data.questions[i].ranks[c], grades[i])));
  const labels = judged.map((i) => {
    if (data.questions[i].cluster) return [`cluster ${data.questions[i].cluster}`];
    return [...grades[i]].filter(([, grade]) => grade > 0).map(([key]) => key);
  });
  const samples = resample(scores, labels);
  const order = data.candidates.map((_, c) => c).sort((a, b) => samples.means[b] - samples.means[a]);
  const chosen = order.find((c) => c !== data.default && samples.isBetter(data.default, c)) ?? data.default;
  const apart = order.length > 1 ? samples.difference(order[1], order[0]) : { low: 1 };
  const gain = 100 * samples.gain(chosen);
  const isSeparated = apart.low > 0;
  const isEnough = samples.n >= LEAST_CLUSTERS && (isSeparated || gain <= 1);
  return { n: judged.length, chosen, gain, order, samples, isSeparated, isEnough };
}
// Cohen's kappa of two maps of the same keys; NaN if chance alone would agree.
function kappaOf(mine, theirs) {
  const cut = (grade) => Math.min(grade, RIGHT);
  const pairs = [...mine].filter(([key]) => theirs.has(key)).map(([key, grade]) => [cut(grade), cut(theirs.get(key))]);
  const agreement = mean(pairs.map(([a, b]) => Number(a === b)));
  const share = (side, grade) => mean(pairs.map((pair) => Number(pair[side] === grade)));
  const chance = total([0, 1, 2].map((grade) => share(0, grade) * share(1, grade)));
  return { n: pairs.length, agreement, kappa: (agreement - chance) / (1 - chance) };
}
// The rows of a file: [question, document, grade]. If no score is above 1, then 1 means right.
function readQrels(text) {
  const rows = text.split(/\r?\n/).map((line) => line.split("\t")).filter((row) => row.length >= 3);
  const judged = rows.map((row) => [row[0], row.at(-2), Math.max(Number(row.at(-1)), 0)]);
  return asGrades(judged.filter(([, , grade]) => Number.isInteger(grade)));
}
function asGrades(rows) {
  const isBinary = rows.every(([, , grade]) => grade <= 1);
  return rows.map(([question, document, grade]) => [question, document, isBinary ? RIGHT * grade : grade]);
}
// The place of the next document to judge; -1 after a right one, or if all are judged.
function nextOf(pool, grades, goesOn) {
  for (let place = 0; place < pool.length; place++) {
    if (!grades.has(pool[place])) return place;
    if (grades.get(pool[place]) >= RIGHT && !goesOn) return -1;
  }
  return -1;
}
// What a log has judged: for each question its grades, and whether it is skipped or goes on.
function replay(data, log) {
  const places = new Map(data.questions.map((question, i) => [question.id, i]));
  const ids = new Map(data.documents.map((one, d) => [one.id, d]));
  const rowsOf = ({ id, known }) => Object.entries(known).map(([d, grade]) => [id, data.documents[d].id, grade]);
  const state = data.questions.map(() => ({ grades: new Map(), isSkipped: false, goesOn: false }));
  const put = (rows, replaces) => {
    for (const [question, key, grade] of rows) {
      const own = state[places.get(question)];
      // a document that the page does not have is kept under its id
      const at = ids.get(key) ?? key;
      if (own && (replaces || !own.grades.has(at))) own.grades.set(at, grade);
      if (own) own.isSkipped = false;
    }
  };
  put(asGrades(data.questions.flatMap(rowsOf)), true);
  for (const [question, key, grade] of log) {
    const own = state[places.get(question)];
    if (grade === FILE) put(key, false);
    else if (own && grade === SKIP) own.isSkipped = true;
    else if (own && grade === ON) own.goesOn = true;
    else put([[question, key, grade]], true);
  }
  return state;
}
function qrelsOf(data, state) {
  const line = (i, [key, grade]) => `${data.questions[i].id}\t${data.documents[key]?.id ?? key}\t${grade}\n`;
  const lines = state.flatMap(({ grades }, i) => [...grades].map((entry) => line(i, entry)));
  return `query-id\tcorpus-id\tscore\n${lines.join("")}`;
}
if (typeof module !== "undefined") {
  module.exports = { kappaOf, nextOf, qrelsOf, readQrels, replay, resample, score, standingOf };
}
// ---- the page

async function start() {
  const $ = (id) => document.getElementById(id);
  const letters = atob($("data").textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const packed = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  // The lines of passages and texts are parsed when they are shown: the first question must not wait for all of them.
  const [first, ...lines] = (await new Response(packed).text()).split("\n");
  const data = JSON.parse(first);
  const place = `mteb-longembed judge ${data.signature}`;
  let [log, isStored] = [[], true];
  try {
    log = JSON.parse(localStorage.getItem(place) || "[]");
  } catch {
    isStored = false;
  }
  // the chosen place is of a document that is judged again
  let [state, current, chosenPlace, since] = [replay(data, log), 0, null, Date.now()];
  const isDone = (i) => state[i].isSkipped || nextOf(data.questions[i].pool, state[i].grades, state[i].goesOn) < 0;
  const nKnown = data.questions.filter((_, i) => isDone(i)).length;
  const open = () => data.questions.map((_, i) => i).filter((i) => !isDone(i));
  const show = (id, isShown) => ($(id).hidden = !isShown);
  const element = (tag, textContent = "", className = "") =>
    Object.assign(document.createElement(tag), { textContent, className });
  function save(text, name) {
    const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    Object.assign(element("a"), { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  }
  // Words of the question are marked, also with other endings. Scripts without spaces are marked anywhere.
  function marked(tag, text, terms) {
    const made = element(tag);
    const stems = terms.map((term) => (term.length > 4 ? term.slice(0, Math.max(4, term.length - 2)) : term));
    const choices = stems.map((stem) => stem.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).map((stem) => {
      if (/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u.test(stem)) return stem;
      return `(?<![\\p{L}\\p{N}])${stem}${stem.length > 3 ? "\\p{L}{0,4}" : ""}(?![\\p{L}\\p{N}])`;
    });
    const parts = choices.length ? text.split(new RegExp(`(${choices.join("|")})`, "giu")) : [text];
    made.append(...parts.map((part, i) => (i % 2 ? element("mark", part) : part)));
    return made;
  }
  function record(question, key, grade) {
    log.push([question, key, grade, Math.min((Date.now() - since) / 1000, 120)]);
    changed();
  }
  function changed() {
    [chosenPlace, since] = [null, Date.now()];
    const before = open().length;
    state = replay(data, log);
    try {
      localStorage.setItem(place, JSON.stringify(log));
    } catch {
      isStored = false;
    }
    if (isDone(current) || before !== open().length) setTimeout(drawStanding);
    draw();
  }
  function go(step) {
    current = (current + step + data.questions.length) % data.questions.length;
    [chosenPlace, since] = [null, Date.now()];
    draw();
  }
  function goOn() {
    const left = open();
    if (left.length) go((left.find((i) => i > current) ?? left[0]) - current);
  }
  function judge(grade) {
    const { pool, id } = data.questions[current];
    const at = chosenPlace ?? nextOf(pool, state[current].grades, state[current].goesOn);
    if (at >= 0) record(id, data.documents[pool[at]].id, grade);
  }
  function undo() {
    const last = log.pop();
    const back = data.questions.findIndex((question) => last && question.id === last[0]);
    if (back >= 0) current = back;
    changed();
  }
  const acts = {
    1: () => judge(RIGHT),
    2: () => judge(1),
    0: () => judge(0),
    s: () => (record(data.questions[current].id, "", SKIP), goOn()),
    u: undo,
    j: () => record(data.questions[current].id, "", ON),
    t: () => ($("whole").open = !$("whole").open),
    n: goOn,
    ArrowLeft: () => go(-1),
    ArrowRight: () => go(1),
  };
  function draw() {
    const question = data.questions[current];
    const { grades, goesOn, isSkipped } = state[current];
    const at = chosenPlace ?? nextOf(question.pool, grades, goesOn);
    const isAsking = at >= 0;
    const nOpen = open().length;
    const nDone = data.questions.length - nOpen;
    const minutes = (total(log.map((entry) => entry[3])) / Math.max(nDone - nKnown, 1) / 60) * nOpen;
    const left = log.length && nOpen ? `, about ${Math.max(Math.round(minutes), 1)} min left` : "";
    $("progress").value = nDone / data.questions.length;
    $("count").textContent = `${nDone} of ${data.questions.length} questions done${left}`;
    $("stored").textContent = isStored ? "Saved in this browser." : "Not saved here: download before you leave.";
    $("number").textContent = `Question ${current + 1}${isSkipped ? ", skipped" : ""}`;
    $("question").textContent = question.text;
    show("document", isAsking);
    show("done", !isAsking);
    if (isAsking) {
      const shown = data.documents[question.pool[at]];
      $("place").textContent = `Document ${at + 1} of at most ${question.pool.length}`;
      $("title").textContent = shown.title || shown.id;
      $("name").textContent = shown.title ? shown.id : "";
      $("passages").replaceChildren(...JSON.parse(lines[current])[question.pool[at]].map((text) => marked("blockquote", text, question.terms)));
      const [text, cut = ""] = JSON.parse(lines[data.questions.length + question.pool[at]]);
      $("text").replaceChildren(marked("div", text, question.terms));
      $("cut").textContent = cut;
      $("whole").open = false;
      $("document").focus({ preventScroll: true });
    } else {
      const hasRight = [...grades.values()].some((grade) => grade >= RIGHT);
      const isLeft = question.pool.some((d) => !grades.has(d));
      $("found").textContent = hasRight ? "A right document is found." : "None of the best ten of any method is right.";
      $("go").textContent = nOpen ? "Next question (Enter)" : "All questions are done";
      $("go").disabled = !nOpen;
      show("on", hasRight && isLeft);
      $("go").focus({ preventScroll: true });
    }
    const items = question.pool.filter((d) => grades.has(d)).map((d) => {
      const word = ["Not", "Partly", "Right"][Math.min(grades.get(d), RIGHT)];
      const item = element("li", `${word}: ${data.documents[d].title || data.documents[d].id} `);
      item.append(element("button", "change"));
      item.lastChild.onclick = () => ((chosenPlace = question.pool.indexOf(d)), draw());
      return item;
    });
    $("judged").replaceChildren(...items);
    show("earlier", items.length);
  }
  function drawStanding() {
    const standing = standingOf(data, state.map((one) => one.grades));
    show("standing", standing);
    if (!standing) return;
    const { n, samples, chosen, order, gain, isSeparated, isEnough } = standing;
    const percent = (value, digits = 0) => (100 * value).toFixed(digits);
    const names = data.candidates;
    const rival = chosen === data.default ? order.find((c) => c !== chosen) : data.default;
    const use = chosen === data.default ? "stay with" : "use";
    let text = `${isEnough ? "Enough. " : ""}${n} question${n > 1 ? "s" : ""}: ${use} ${names[chosen]}`;
    if (rival !== undefined) {
      const [low, high] = samples.means[rival] > samples.means[chosen] ? [chosen, rival] : [rival, chosen];
      const lead = samples.difference(low, high);
      text += `; ${names[high]} leads ${names[low]} by ${percent(lead.mean, 1)} `;
      text += `(${percent(lead.low)} to ${percent(lead.high)})`;
    }
    $("verdict").textContent = `${text}.`;
    const more = `More questions of this kind could still gain about ${gain.toFixed(1)} points.`;
    $("more").textContent = isSeparated ? "The first two are separated." : more;
    show("few", samples.n < LEAST_CLUSTERS);
    const lines = order.map((c) => {
      const found = samples.mean(c);
      const row = element("tr", "", c === chosen ? "chosen" : "");
      const bar = element("td", "", "bar");
      for (const end of ["low", "mean", "high"]) bar.style.setProperty(`--${end}`, `${percent(found[end] || 0)}%`);
      const ends = samples.n > 1 ? ` (${percent(found.low)} to ${percent(found.high)})` : "";
      row.append(element("th", names[c]), element("td", `${percent(found.mean, 1)}${ends}`), bar);
      row.firstChild.scope = "row";
      return row;
    });
    $("scores").replaceChildren(...lines);
  }
  async function load(file) {
    const rows = readQrels(await file.text());
    const questions = data.questions.map((question) => ({ ...question, known: {} }));
    const theirs = replay({ ...data, questions }, [["", rows, FILE, 0]]);
    const rowsOf = ({ grades }, i) => [...grades].map(([key, grade]) => [`${i} ${key}`, grade]);
    const { n, agreement, kappa } = kappaOf(...[state, theirs].map((states) => new Map(states.flatMap(rowsOf))));
    const value = Number.isNaN(kappa) ? "" : `, Cohen's kappa ${kappa.toFixed(2)}`;
    const both = n ? `${n} judged by both: ${Math.round(100 * agreement)} % agree${value}.` : "None judged by both.";
    $("agreement").textContent = `${file.name}: ${rows.length} judgements. ${both}`;
    show("take", rows.length);
    $("take").onclick = () => (log.push(["", rows, FILE, 0]), show("take", false), changed());
  }
  $("command").textContent = data.command;
  $("download").onclick = () => save(qrelsOf(data, state), "qrels.tsv");
  $("copy").onclick = async () => {
    $("copied").value = qrelsOf(data, state);
    show("copied", true);
    $("copied").select();
    const isCopied = await navigator.clipboard?.writeText($("copied").value).then(() => true, () => false);
    $("copy").textContent = isCopied ? "Copied" : "Press Ctrl-C to copy";
  };
  $("file").onchange = () => $("file").files[0] && load($("file").files[0]);
  for (const button of document.querySelectorAll("[data-key]")) button.onclick = () => acts[button.dataset.key]();
  document.addEventListener("keydown", (event) => {
    const isOther = event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "TEXTAREA";
    if (isOther || !data.questions.length || !Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  });
  $("save-typed").onclick = () => {
    const typed = $("typed").value.split("\n").map((line) => line.trim()).filter(Boolean);
    save(typed.map((text, i) => `${JSON.stringify({ _id: `q${i + 1}`, text })}\n`).join(""), "typed.jsonl");
  };
  show(data.questions.length ? "judging" : "typing", true);
  if (!data.questions.length) return;
  current = open()[0] ?? 0;
  draw();
  setTimeout(drawStanding);
}
if (typeof document !== "undefined") start();
