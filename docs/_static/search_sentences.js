/*
 * Search for sentences. The search of Sphinx returns the pages that contain all words. This function, which replaces
 * its search for words, scores each page by the words that it contains: a rare word counts more, a word in a title or
 * keyword counts more, and a long page counts less. A page without some of the words is therefore found as well.
 */
"use strict";

// Words of a question that do not describe its subject.
const QUESTION_WORDS = new Set(
  ["can", "does", "get", "make", "mean", "need", "put", "see", "thing", "use", "want", "way", "without", "work"],
);
const TEXT = 1;
const HEADING = 2;
const KEYWORD = 3;
const TITLE = 4;
const PHRASE = 4; // added if a question contains all words of a keyword or of the title
const PARTIAL = 0.3; // factor if only a part of a word of the page is equal
const GROUPS = [
  [/^(guide|jobs|answers|choose|project\/(compatibility|security))/, 1],
  [/^(api|gallery|guarantees|lessons|notebooks|how_to)/, 0.6],
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

const pageTables = () => {
  const { docnames, indexentries, terms, titles } = Search._index;
  const stems = (text) => Search._parseQuery(text)[1];
  const lengths = docnames.map(() => 0);
  for (const files of Object.values(terms)) [files].flat().forEach((file) => lengths[file]++);
  const meanLength = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  const keywords = docnames.map(() => []);
  for (const [entry, places] of Object.entries(indexentries)) {
    if (/ \(.*\)$/.test(entry)) continue; // objects of the API
    for (const [file] of places) keywords[file].push(stems(entry));
  }
  return docnames.map((name, file) => ({
    file,
    keywords: keywords[file],
    title: stems(titles[file]),
    weight: GROUPS.find(([group]) => group.test(name))[1],
    length: 0.7 + (0.3 * lengths[file]) / meanLength,
  }));
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
    if (page.keywords.some((keyword) => keyword.has(word))) add(page.file, KEYWORD);
    if (page.title.has(word)) add(page.file, TITLE);
  }
  return weights;
};

Search.performTermsSearch = (searchTerms, excludedTerms) => {
  const { docnames, filenames } = Search._index;
  Search._pages ??= pageTables();
  let words = [...searchTerms].filter((word) => !QUESTION_WORDS.has(word));
  if (!words.length) words = [...searchTerms];
  const rarities = new Map();
  const scores = docnames.map(() => 0);
  for (const word of words) {
    const weights = placeWord(word, Search._pages);
    const rarity = Math.log(1 + docnames.length / Math.max(weights.size, 1));
    rarities.set(word, rarity);
    for (const [file, weight] of weights) scores[file] += rarity * weight;
  }
  for (const { file, keywords, title, weight, length } of Search._pages) {
    const phrases = [...keywords, title].filter((keyword) => keyword.size && [...keyword].every((word) => rarities.has(word)));
    const sums = phrases.map((phrase) => [...phrase].reduce((sum, word) => sum + rarities.get(word), 0));
    scores[file] = (scores[file] / length + PHRASE * Math.max(0, ...sums)) * weight;
  }
  const best = Math.max(...scores);
  const found = best > 0
    ? docnames.map((_, file) => file).filter((file) => scores[file] > 0)
    : docnames.map((_, file) => file).filter((file) => START_PAGES.includes(docnames[file]));
  return found
    .sort((a, b) => scores[b] - scores[a])
    .slice(0, MAX_PAGES)
    .map((file) => [
      docnames[file], titleOf(file), "", null,
      best > 0 ? (MAX_SCORE * scores[file]) / best : 0, filenames[file], "text",
    ]);
};
