"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  root.classList.add("scripted");

  // Tooltips: whatever carries data-tip reads it when pointed at or focused.
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
    const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  };
  const show = (element, x, y) => {
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    place(x, y);
  };
  const hide = () => { tip.hidden = true; };
  const reader = (event) => event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  document.addEventListener("pointermove", (event) => {
    const element = reader(event);
    if (element) show(element, event.clientX, event.clientY); else hide();
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("focusin", (event) => {
    const element = reader(event);
    if (!element || !element.matches(":focus-visible")) return hide();
    const box = element.getBoundingClientRect();
    show(element, box.left + Math.min(box.width, innerWidth) / 2, box.top + Math.min(box.height, 40));
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // All that belongs to one cause shows it when a part of it is pointed at or focused.
  const kin = (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#cause']") : null;
    const cause = link ? link.getAttribute("href") : "";
    for (const band of document.querySelectorAll("a.band"))
      band.classList.toggle("kin", band.getAttribute("href") === cause);
  };
  document.addEventListener("pointerover", kin);
  document.addEventListener("focusin", kin);

  // A link to evidence opens it.
  const open = () => {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    const details = target ? target.closest("details") : null;
    if (!details) return;
    details.open = true;
    details.firstElementChild.scrollIntoView({ block: "start" });
    details.firstElementChild.focus({ preventScroll: true });
  };
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
    const href = link ? link.getAttribute("href") : "";
    if (href && href === location.hash) open();
  });

  // Paper shows the evidence that the screen folds away.
  const unfolded = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details.cause:not([open]), details.fold:not([open])")) {
      details.open = true;
      unfolded.push(details);
    }
  });
  addEventListener("afterprint", () => { while (unfolded.length) unfolded.pop().open = false; });

  // Flame graphs: zoom, search, keys, and the same time by the innermost function.
  const ROW = 18;
  const percent = (element, name) => parseFloat(element.getAttribute(name));
  const drawn = (element) => ({
    element,
    words: element.querySelector("text"),
    name: element.dataset.tip.split("\n", 1)[0],
    left: percent(element, "x"),
    width: percent(element, "width"),
    row: percent(element, "y"),
    change: parseFloat(element.dataset.change || "0") * 100,
  });

  // Frames by the innermost function: under each its callers. What a frame has beyond its
  // children is its own time.
  const inverted = (frames) => {
    const [top] = frames;
    const root = { name: top.name, width: 0, change: 0, look: top.element, below: new Map() };
    const path = [];
    frames.forEach((frame, at) => {
      path[frame.row / ROW] = frame;
      let [width, change] = [frame.width, frame.change];
      for (let next = at + 1; next < frames.length && frames[next].row > frame.row; next++) {
        if (frames[next].row !== frame.row + ROW) continue;
        width -= frames[next].width;
        change -= frames[next].change;
      }
      if (frame === top || width < 0.02) return;
      let node = root;
      node.width += width;
      node.change += change;
      for (let depth = frame.row / ROW; depth > 0; depth--) {
        const caller = path[depth];
        if (!node.below.has(caller.name))
          node.below.set(caller.name, { name: caller.name, width: 0, change: 0, look: caller.element, below: new Map() });
        node = node.below.get(caller.name);
        node.width += width;
        node.change += change;
      }
    });
    return root;
  };
  const colour = (node) => {
    const kept = [...node.look.classList].filter((name) => !/^(up|down)\d$|^(alike|away|above|hit-name)$/.test(name));
    if (node.look.dataset.change === undefined) return kept.join(" ");
    const part = node.change / (2 * node.width);
    const step = [0.05, 0.2, 0.5].filter((least) => Math.abs(part) >= least).length;
    return [...kept, step === 0 ? "alike" : (part < 0 ? "down" : "up") + step].join(" ");
  };
  const share = (number) => Math.abs(number).toFixed(1) + " %";
  const made = (root) => {
    const elements = [];
    const whole = root.width || 1;
    const SVG = root.look.namespaceURI;
    const make = (node, left, depth) => {
      const element = document.createElementNS(SVG, "svg");
      element.setAttribute("class", colour(node));
      element.setAttribute("x", left / whole * 100 + "%");
      element.setAttribute("y", depth * ROW);
      element.setAttribute("width", node.width / whole * 100 + "%");
      element.setAttribute("height", ROW);
      element.setAttribute("tabindex", depth === 0 ? "0" : "-1");
      const differs = node.look.dataset.change !== undefined;
      const sign = node.change < 0 ? "−" : "+";
      element.dataset.tip = node.name + "\n" + share(node.width / whole * 100) +
        (differs ? ", change " + sign + share(node.change / whole * 100) + " of the mean" : "");
      const area = document.createElementNS(SVG, "rect");
      area.setAttribute("width", "100%");
      area.setAttribute("height", ROW - 1);
      const words = document.createElementNS(SVG, "text");
      words.setAttribute("x", 4);
      words.setAttribute("y", ROW - 5.5);
      element.append(area, words);
      elements.push(element);
      let at = left;
      for (const below of [...node.below.values()].sort((a, b) => b.width - a.width)) {
        if (below.width / whole >= 0.002) make(below, at, depth + 1);
        at += below.width;
      }
    };
    make(root, 0, 0);
    return elements;
  };
  const flame = (box) => {
    const picture = box.querySelector(".frames");
    const outermost = [...picture.querySelectorAll(".frame")].map(drawn);
    if (outermost.length === 0) return;
    let innermost = null;
    let frames = outermost;
    let [top] = frames;
    const back = box.querySelector(".back");
    const turn = box.querySelector(".turn");
    const find = box.querySelector("input");
    const found = box.querySelector(".found");
    let zoomed = top;
    const inside = (inner, outer) =>
      inner.left >= outer.left - 0.03 && inner.left + inner.width <= outer.left + outer.width + 0.03;
    const letter = 6.6;
    const write = () => {
      const all = picture.getBoundingClientRect().width;
      if (all === 0) return;
      for (const frame of frames) {
        const room = Math.floor((percent(frame.element, "width") / 100 * all - 7) / letter);
        const text = room < 3 ? "" : frame.name.length <= room ? frame.name : frame.name.slice(0, room - 1) + "…";
        if (frame.words.textContent !== text) frame.words.textContent = text;
      }
    };
    const zoom = (target) => {
      zoomed = target;
      for (const frame of frames) {
        const above = frame.row < target.row && inside(target, frame);
        const shown = above || (frame.row >= target.row && inside(frame, target));
        frame.element.classList.toggle("away", !shown);
        frame.element.classList.toggle("above", above);
        if (!shown) continue;
        frame.element.setAttribute("x", above ? "0%" : (frame.left - target.left) / target.width * 100 + "%");
        frame.element.setAttribute("width", above ? "100%" : frame.width / target.width * 100 + "%");
      }
      back.disabled = target === top;
      write();
    };
    const focus = (frame) => {
      if (!frame) return;
      for (const other of frames) other.element.setAttribute("tabindex", other === frame ? "0" : "-1");
      frame.element.focus();
    };
    const of = (event) => frames.find((frame) => frame.element === event.target.closest(".frame"));
    const shown = (frame) => !frame.element.classList.contains("away");
    const parent = (frame) =>
      frames.filter((other) => other.row < frame.row && inside(frame, other)).pop();
    const step = (frame, key) => {
      if (key === "ArrowUp") return parent(frame);
      if (key === "ArrowDown")
        return frames.find((other) => shown(other) && other.row > frame.row && inside(other, frame));
      const row = frames.filter((other) => shown(other) && other.row === frame.row);
      return row[row.indexOf(frame) + (key === "ArrowRight" ? 1 : -1)];
    };
    box.addEventListener("click", (event) => {
      const frame = of(event);
      if (frame) zoom(frame);
    });
    box.addEventListener("keydown", (event) => {
      const frame = of(event);
      if (!frame) return;
      if (event.key === "Enter" || event.key === " ") zoom(frame);
      else if (event.key === "Escape") zoom(top);
      else if (event.key.startsWith("Arrow")) focus(step(frame, event.key));
      else return;
      event.preventDefault();
    });
    back.addEventListener("click", () => zoom(zoomed === top ? top : parent(zoomed) || top));
    const search = () => {
      const wanted = find.value.trim().toLowerCase();
      const covered = [];
      for (const frame of frames) {
        const hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
        frame.element.classList.toggle("hit-name", hit);
        if (hit && !covered.some((outer) => inside(frame, outer))) covered.push(frame);
      }
      const sum = covered.reduce((sum, frame) => sum + frame.width, 0);
      found.textContent = wanted === "" ? "" : sum.toFixed(1) + " % of the time";
    };
    find.addEventListener("input", search);
    if (turn) turn.addEventListener("click", () => {
      const inner = frames === outermost;
      if (inner && innermost === null) innermost = made(inverted(outermost)).map(drawn);
      frames = inner ? innermost : outermost;
      [top] = frames;
      picture.replaceChildren(...frames.map((frame) => frame.element));
      picture.setAttribute("height", Math.max(...frames.map((frame) => frame.row)) + ROW);
      turn.setAttribute("aria-pressed", String(inner));
      zoom(top);
      search();
    });
    zoom(top);
    addEventListener("resize", write);
    const folded = box.closest("details");
    if (folded) folded.addEventListener("toggle", write);
  };
  document.querySelectorAll(".flame").forEach(flame);

  // Tables: a click on a column's head sorts by it, a second one the other way round.
  const units = { G: 1e9, M: 1e6, k: 1e3, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, min: 60, h: 3600 };
  const worth = (text) => {
    const found = /^([−-]?[\d.\u202f]+)\s*([a-zA-Zµ]*)/u.exec(text.trim());
    if (!found) return NaN;
    return parseFloat(found[1].replace("−", "-").replaceAll("\u202f", "")) * (units[found[2]] || 1);
  };
  const sort = (head) => {
    const body = head.closest("table").tBodies[0];
    const at = head.cellIndex;
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const text = (row) => row.cells[at] ? row.cells[at].textContent : "";
    const compare = (a, b) => {
      const [one, other] = [worth(text(a)), worth(text(b))];
      if (isNaN(one) || isNaN(other)) return isNaN(one) - isNaN(other) || text(a).localeCompare(text(b));
      return (one - other) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(compare));
  };
  for (const head of document.querySelectorAll(".scroll thead th")) {
    head.classList.add("sorts");
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }
  open();
})();
