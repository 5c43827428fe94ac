// Makes elements, and changes those that are there.
"use strict";

const SPACE = "http://www.w3.org/2000/svg";

const element = (id) => document.getElementById(id);

// Text only: names come from files of other people.
function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SPACE, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A path that may be broken behind its dots and slashes, and nowhere else.
function breakable(path) {
  return path.split(/(?<=[./])/).flatMap((part, index) => (index ? [make("wbr"), part] : [part]));
}

// Writing the same text again would cost another layout of what is around it.
function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Gives `place` these children. What is there already and of the same kind is kept and changed, which takes a browser less time to draw than new
// elements. For what has no listeners: those of new elements are lost.
function redraw(place, ...wanted) {
  const there = [...place.childNodes];
  wanted.forEach((made, index) => {
    const old = there[index];
    if (!old) place.append(made);
    else if (old.nodeName !== made.nodeName) old.replaceWith(made);
    else if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== made.data) old.data = made.data;
    } else {
      takeAttributes(old, made);
      redraw(old, ...made.childNodes);
    }
  });
  for (const surplus of there.slice(wanted.length)) surplus.remove();
}

function takeAttributes(old, made) {
  for (const { name, value } of made.attributes) {
    if (old.getAttribute(name) === value) continue;
    // The page's policy refuses styles that are set as attributes.
    if (name === "style") old.style.cssText = value;
    else old.setAttribute(name, value);
  }
  if (old.attributes.length === made.attributes.length) return;
  for (const name of old.getAttributeNames()) if (!made.hasAttribute(name)) old.removeAttribute(name);
}
