"use strict";
const content = document.getElementById("content");
const state = document.getElementById("live");
const nameOf = (details) => {
  const part = details.closest("figure, section");
  const heading = part ? part.querySelector("figcaption, h2") : null;
  return (heading ? heading.textContent : "") + "/" + details.querySelector("summary").textContent;
};
async function refresh(event) {
  const answer = await fetch("/content");
  if (!answer.ok) return;
  const markup = await answer.text();
  const open = new Set([...content.querySelectorAll("details[open]")].map(nameOf));
  content.innerHTML = markup;
  for (const details of content.querySelectorAll("details")) details.open = open.has(nameOf(details));
  state.textContent = event.data;
}
const source = new EventSource("/events");
source.addEventListener("update", refresh);
source.addEventListener("error", () => { state.textContent = "Connection lost; trying again."; });
