// Search in the names and sections that names.js has.
"use strict";
(function () {
  var input = document.getElementById("search");
  var box = document.getElementById("results");
  var up = document.body.dataset.up;
  var chosen = 0;

  // How well an entry fits; 0 if it does not.
  function rank(entry, query, words) {
    var title = entry[0].toLowerCase();
    var own = title.replace(/^.*[.:]/, "");
    var text = title + " " + entry[2].toLowerCase();
    if (!words.every(function (word) { return text.indexOf(word) >= 0; }))
      return 0;
    var name = title.indexOf("mw.") === 0 ? 1.5 : entry[3] ? 1 : 0;
    if (title === query || own === query) return 10 + name;
    if (own.indexOf(query) === 0 || title.indexOf(query) === 0)
      return 7 + name;
    if (title.indexOf(query) >= 0) return 5 + name;
    if (words.every(function (word) { return title.indexOf(word) >= 0; }))
      return 3 + name;
    return 1;
  }

  function find(query) {
    var words = query.split(/\s+/);
    return NAMES.map(function (entry, i) {
      return { entry: entry, rank: rank(entry, query, words), i: i };
    }).filter(function (hit) { return hit.rank > 0; })
      .sort(function (a, b) { return b.rank - a.rank || a.i - b.i; })
      .slice(0, 20);
  }

  // The words of an entry around the first that was looked for.
  function excerpt(text, query) {
    var at = text.toLowerCase().indexOf(query.split(/\s+/)[0]);
    if (text.length <= 120) return text;
    var from = Math.max(0, at - 40);
    return (from > 0 ? "… " : "") + text.substr(from, 120) + " …";
  }

  function show() {
    var query = input.value.trim().toLowerCase();
    box.textContent = "";
    box.hidden = query === "";
    if (box.hidden) return;
    var hits = find(query);
    hits.forEach(function (hit, i) {
      var link = document.createElement("a");
      link.href = up + hit.entry[1];
      var title = document.createElement(hit.entry[3] ? "code" : "b");
      title.textContent = hit.entry[0];
      var text = document.createElement("span");
      text.textContent = excerpt(hit.entry[2], query);
      link.append(title, text);
      if (i === chosen) link.className = "chosen";
      box.append(link);
    });
    if (hits.length === 0) box.textContent = "Nothing found";
  }

  function choose(by) {
    var n = box.querySelectorAll("a").length;
    chosen = n > 0 ? (chosen + by + n) % n : 0;
    show();
    var link = box.querySelector(".chosen");
    if (link) link.scrollIntoView({ block: "nearest" });
  }

  function close() {
    input.value = "";
    show();
    input.blur();
  }

  input.addEventListener("input", function () { chosen = 0; show(); });
  input.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown") choose(1);
    else if (event.key === "ArrowUp") choose(-1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter") {
      var link = box.querySelector(".chosen");
      if (link) location.href = link.href;
      close();
    } else return;
    event.preventDefault();
  });
  box.addEventListener("click", close);
  document.addEventListener("keydown", function (event) {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  var asked = /[?&]q=([^&]*)/.exec(location.search);
  if (asked) {
    input.value = decodeURIComponent(asked[1].replace(/\+/g, " "));
    show();
  }
})();
