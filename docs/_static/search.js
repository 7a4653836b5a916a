// Also find each section with a title that contains all words of the query, or their beginnings.
// Sphinx finds a section only if the query has half of the letters of the title.
if (typeof Search !== "undefined") {
  const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const perform = Search._performSearch;

  Search._performSearch = (query, ...terms) => {
    const { alltitles, docnames, filenames, titles } = Search._index;
    const words = wordsOf(query);
    const sections = [];
    for (const [title, places] of Object.entries(alltitles)) {
      const parts = wordsOf(title);
      if (!words.every((word) => parts.some((part) => part.startsWith(word)))) continue;
      for (const [file, id] of places) {
        const isPage = titles[file] === title;
        const name = isPage ? title : `${titles[file]} > ${title}`;
        const anchor = id === null ? "" : `#${id}`;
        const score = (isPage ? 65 : 20) + (40 * words.length) / parts.length;
        sections.push([docnames[file], name, anchor, null, score, filenames[file], "title"]);
      }
    }
    // Sphinx shows the last result first.
    const named = new Set(sections.map((one) => one[0] + one[2]));
    const others = perform(query, ...terms).filter((one) => !named.has(one[0] + one[2]));
    return [...others, ...sections].sort((one, other) => one[4] - other[4]);
  };
}
