// How Sphinx's search ranks pages: a page that answers a question comes before a picture of it.
// The score of Sphinx is multiplied by the weight of the part of the site that a page is in, and a page that has
// no other description is described by its first sentence (skdp_search.py writes them).
var Scorer = {
  weights: [
    ["answers/glossary", 1],
    ["answers/", 4],
    ["choose", 4],
    ["guide/", 3],
    ["api/generated/", 2],
    ["api/", 1.5],
    ["guarantees/", 1.5],
    ["lessons/", 1],
    ["project/", 0.5],
    ["gallery/", 0.5],
    ["how_to/", 0.5],
    ["decisions/", 0.5],
    ["benchmarks/", 0.25],
  ],
  score: (result) => {
    const page = result[0];
    if (!result[3] && typeof PAGE_SENTENCES !== "undefined") {
      result[3] = PAGE_SENTENCES[page] || null;
    }
    // Every estimator has a `ledger` and an `epsilon`: a page about the word comes before its parameters.
    const isMember = result[6] === "object" && /(attribute|method|property),/.test(result[3]);
    const memberWeight = isMember ? 0.25 : 1;
    const part = Scorer.weights.find(([start]) => page.startsWith(start));
    // Sphinx takes the best word of a question only; a title that has several of its words is nearer to it.
    const title = result[1].toLowerCase();
    const nInTitle = Scorer.words.filter((word) => title.includes(word)).length;
    return (result[4] + Scorer.wordInTitle * nInTitle) * (part ? part[1] : 1) * memberWeight;
  },

  words: [],
  wordInTitle: 5,

  // As Sphinx has them: what a match in a name, a title or the text counts.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Sphinx's own function, which also notes the words of the question.
var splitQuery = (query) => {
  const words = query
    .split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu)
    .filter((word) => word);
  Scorer.words = words.map((word) => word.toLowerCase()).filter((word) => word.length > 2);
  return words;
};
