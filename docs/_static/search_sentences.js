/*
 * Search for sentences. The search of Sphinx returns the pages that contain all words. This function, which replaces
 * its search for words, scores each page by the words that it contains: a rare word counts more, a word in a title or
 * keyword counts more, and a long page counts less. A page without some of the words is therefore found as well.
 */
"use strict";

// Words of a question that do not describe its subject.
const QUESTION_WORDS = new Set(
  ["anybodi", "anyon", "better", "can", "does", "equival", "get", "know", "make", "mean", "must", "need", "put", "realli", "see",
   "someon", "someth", "specifi", "thing", "use", "veri", "want", "way", "without", "work"],
);
// Endings of British and American spelling, of stems.
const SPELLINGS = [[/is$/, ""], [/is$/, "iz"], [/ys$/, "yz"], [/our$/, "or"], [/isat$/, ""]];
// Words of other libraries and fields, of stems, and the words of these pages.
const SYNONYMS = {
  accuraci: ["error"], anonym: ["publish"], area: ["region"], attribut: ["column"], chart: ["plot"], contribut: ["row"],
  custom: ["person"], datafram: ["tabl"], dataset: ["tabl"], delet: ["remov"], diagram: ["plot"], employe: ["person"], ep: ["epsilon"],
  entri: ["row"], evad: ["evas"], ethnic: ["race"], featur: ["column"], field: ["column"], folder: ["file"], gender: ["sex"], graph: ["plot"],
  hack: ["attack"], individu: ["person"], label: ["target"], leak: ["reveal"], legal: ["law"], member: ["person"],
  men: ["sex"], noisi: ["nois"], observ: ["record"], outcom: ["target"], particip: ["person", "respond"], pay: ["incom"], percent: ["proport"],
  percentag: ["proport"], protect: ["privat"], rule: ["constraint"], salari: ["incom"], subject: ["person"], staff: ["person"],
  synthes: ["synthet"], synthesi: ["synthet"], user: ["person"], variabl: ["column"], verifi: ["check"], wage: ["incom"], women: ["sex"], zip: ["postcod"],
};
const SYNONYM = 0.5; // factor of a word that is not in the question
const MIN_MISSPELLED_LETTERS = 5;
const TEXT = 1;
const HEADING = 3;
const KEYWORD = 3;
const TITLE = 6;
const PHRASE = 2.5; // added if a question contains all words of a keyword or of the title
const LINE = 0.75; // added if a line of the page contains all words of the question
const REPEATED = 3; // added to TEXT if many lines of a page contain the word, and half of it at HALF_REPEATED further lines
const HALF_REPEATED = 4;
const RARITY = 1.3; // exponent of the rarity of a word
const PARTIAL = 0.3; // factor if only a part of a word of the page is equal
const GROUPS = [
  [/^(guide|jobs|answers|choose|project\/(compatibility|security))/, 1],
  [/^(api|gallery|guarantees|lessons|notebooks|how_to)/, 0.4],
  [/./, 0.3], // changelog, benchmarks and others contain nearly all words
];
// Sections whose pages may have the title of a page of the guide.
const SECTIONS = { api: "API", benchmarks: "benchmark", gallery: "example", notebooks: "notebook" };
const MAX_SCORE = 60; // a keyword that is equal to the question has 100
const MAX_PAGES = 20;
const START_PAGES = ["guide/index", "choose", "answers/index", "answers/glossary", "api/index"];

const titleOf = (file) => {
  const { docnames, titles } = Search._index;
  const section = SECTIONS[docnames[file].split("/")[0]];
  return section && !docnames[file].endsWith("/index") ? `${titles[file]} (${section})` : titles[file];
};

// Return the stems of a text; Search._parseQuery would also store its words as words to highlight.
const stemmer = new Stemmer();
const stems = (text) => new Set(
  splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word)).map((word) => stemmer.stemWord(word)),
);

// Return the number of lines that contain each word.
const countLines = (lines) => {
  const counts = new Map();
  for (const [, words] of lines) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
};

const pageTables = () => {
  const { docnames, indexentries, terms, titles } = Search._index;
  const lengths = docnames.map(() => 0);
  for (const files of Object.values(terms)) [files].flat().forEach((file) => lengths[file]++);
  const meanLength = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  const keywords = docnames.map(() => []);
  for (const [entry, places] of Object.entries(indexentries)) {
    if (/ \(.*\)$/.test(entry)) continue; // objects of the API
    for (const [file] of places) keywords[file].push(stems(entry));
  }
  const lines = docnames.map((name) => (PAGE_LINES[name] ?? []).map((line) => [line, stems(line)]));
  return docnames.map((name, file) => ({
    file,
    counts: countLines(lines[file]),
    keywords: keywords[file],
    title: stems(titles[file]),
    weight: GROUPS.find(([group]) => group.test(name))[1],
    length: 0.7 + (0.3 * lengths[file]) / meanLength,
    lines: lines[file],
  }));
};

// Return whether one letter is added, removed or replaced, or two neighbors are exchanged.
const isMisspelled = (word, term) => {
  let first = 0;
  while (first < word.length && word[first] === term[first]) first++;
  const [left, right] = [word.slice(first), term.slice(first)];
  const isExchanged = left[0] === right[1] && left[1] === right[0] && left.slice(2) === right.slice(2);
  return isExchanged || left.slice(1) === right.slice(1) || left.slice(1) === right || left === right.slice(1);
};

// Return the words of the index that are meant by a word: itself, another spelling, or the nearest ones.
const findWords = (word, known) => {
  if (known.has(word)) return [word];
  const spelled = SPELLINGS.map(([ending, other]) => word.replace(ending, other)).filter((other) => known.has(other));
  if (spelled.length || word.length < MIN_MISSPELLED_LETTERS) return spelled;
  return [...known].filter((term) => term.length >= MIN_MISSPELLED_LETTERS - 1 && isMisspelled(word, term));
};

// Return the weight of a word on each page, by the most prominent place in which it stands.
const placeWord = (word, pages) => {
  const { terms, titleterms } = Search._index;
  const weights = new Map();
  const add = (file, weight) => weights.set(file, Math.max(weight, weights.get(file) ?? 0));
  for (const [place, index] of [[TEXT, terms], [HEADING, titleterms]]) {
    const isKnown = Object.hasOwn(index, word);
    const found = isKnown ? [word] : Object.keys(index).filter((term) => word.length > 3 && term.toLowerCase().includes(word));
    for (const term of found) [index[term]].flat().forEach((file) => add(file, isKnown ? place : PARTIAL * place));
  }
  for (const page of pages) {
    const nFurther = (page.counts.get(word) ?? 0) - 1;
    if (nFurther > 0) add(page.file, TEXT + (REPEATED * nFurther) / (nFurther + HALF_REPEATED));
    if (page.keywords.some((keyword) => keyword.has(word))) add(page.file, TEXT);
    if (page.title.has(word)) add(page.file, TITLE);
  }
  return weights;
};

// Add weights of keywords, in proportion to the part of a keyword that the question contains.
const weighKeywords = (weights, rarities, pages) => {
  const rarityOf = (word) => rarities.get(word) ?? Search._rarities.get(word) ?? Math.log(1 + pages.length);
  for (const { file, keywords } of pages) {
    for (const keyword of keywords) {
      const asked = [...keyword].filter((word) => rarities.has(word));
      if (!asked.length) continue;
      const sum = (words) => words.reduce((total, word) => total + rarityOf(word), 0);
      const weight = KEYWORD * sum(asked) / sum([...keyword]);
      for (const word of asked) weights.get(word).set(file, Math.max(weight, weights.get(word).get(file) ?? 0));
    }
  }
};

// Return the line of a page with the largest sum of the rarities of its words, and this sum.
const findLine = (lines, rarities) => {
  let [best, largest] = ["", 0];
  for (const [line, contained] of lines) {
    let sum = 0;
    for (const [word, rarity] of rarities) if (contained.has(word)) sum += rarity;
    if (sum > largest) [best, largest] = [line, sum];
  }
  return [best || (lines[0]?.[0] ?? ""), largest];
};

// Return the first word of the pages that has a stem.
const findWritten = (stem) => {
  for (const { lines } of Search._pages) {
    for (const [line, contained] of lines) {
      if (contained.has(stem)) return splitQuery(line.toLowerCase()).find((word) => stemmer.stemWord(word) === stem) ?? stem;
    }
  }
  return stem;
};

// State above the results which words are on no page, and the words that replace misspelled ones.
const showUnknown = (unknown, corrected, nWords) => {
  Search._unknown = unknown;
  Search._corrected = corrected;
  const notes = [];
  if (unknown.length) {
    notes.push(`No page contains: ${unknown.join(", ")}. ${nWords ? "These pages have the other words." : "These pages list all others."}`);
  }
  for (const [word, others] of corrected) notes.push(`No page contains: ${word}. These pages have: ${others.join(", ")}.`);
  if (!notes.length || !Search.output) return;
  const note = document.createElement("p");
  note.textContent = notes.join(" ");
  Search.output.before(note);
};

Search.performTermsSearch = (searchTerms, excludedTerms) => {
  const { docnames, filenames, terms, titleterms } = Search._index;
  Search._pages ??= pageTables();
  Search._known ??= new Set([
    ...Object.keys(terms), ...Object.keys(titleterms),
    ...Search._pages.flatMap(({ keywords, title }) => [...keywords, title].flatMap((phrase) => [...phrase])),
  ]);
  Search._rarities ??= new Map(Object.entries(terms).map(
    ([term, files]) => [term, Math.log(1 + docnames.length / [files].flat().length)],
  ));
  const asked = [...searchTerms].filter((word) => !QUESTION_WORDS.has(word));
  const words = new Set();
  const [unknown, corrected] = [[], []];
  for (const word of asked.length ? asked : searchTerms) {
    const meant = findWords(word, Search._known);
    meant.forEach((other) => words.add(other));
    const isSpelled = meant.some((other) => other === word || SPELLINGS.some(([ending, end]) => word.replace(ending, end) === other));
    if (meant.length && !isSpelled) corrected.push([word, meant.map(findWritten)]);
    if (!meant.length && !placeWord(word, Search._pages).size) unknown.push(word);
    else if (!meant.length) words.add(word);
  }
  showUnknown(unknown, corrected, words.size);
  const rarities = new Map();
  const scores = docnames.map(() => 0);
  const weights = new Map();
  const add = (word, factor) => {
    if (weights.has(word)) return;
    weights.set(word, placeWord(word, Search._pages));
    rarities.set(word, factor * Math.log(1 + docnames.length / Math.max(weights.get(word).size, 1)) ** RARITY);
  };
  for (const word of words) add(word, 1);
  for (const word of words) (SYNONYMS[word] ?? []).forEach((other) => add(other, SYNONYM));
  weighKeywords(weights, rarities, Search._pages);
  for (const [word, places] of weights) {
    for (const [file, weight] of places) scores[file] += rarities.get(word) * weight;
  }
  const shown = [];
  for (const { file, keywords, title, weight, length, lines } of Search._pages) {
    const phrases = [...keywords, title].filter((keyword) => keyword.size && [...keyword].every((word) => rarities.has(word)));
    const sums = phrases.map((phrase) => [...phrase].reduce((sum, word) => sum + rarities.get(word), 0));
    const [line, sum] = findLine(lines, rarities);
    shown.push(line);
    scores[file] = (scores[file] / length + PHRASE * Math.max(0, ...sums) + LINE * sum) * weight;
  }
  const best = Math.max(...scores);
  const found = best > 0
    ? docnames.map((_, file) => file).filter((file) => scores[file] > 0)
    : docnames.map((_, file) => file).filter((file) => START_PAGES.includes(docnames[file]));
  return found
    .sort((a, b) => scores[b] - scores[a])
    .slice(0, MAX_PAGES)
    .map((file) => [
      docnames[file], titleOf(file), "", shown[file] || null,
      best > 0 ? (MAX_SCORE * scores[file]) / best : 0, filenames[file], "text",
    ]);
};
