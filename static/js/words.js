// Texts in the user's language that a template holds for scripts.

/**
 * The texts of the elements with `data-word`, by its value.
 * @param {ParentNode} content of a `<template>`
 */
export function wordsOf(content) {
  const elements = /** @type {HTMLElement[]} */ ([...content.querySelectorAll("[data-word]")]);
  return Object.fromEntries(elements.map((element) => [element.dataset.word, element.textContent]));
}
