// Colours of the charts: the page's design tokens, and the Okabe-Ito palette for operator types.
//
// Okabe and Ito, "Color Universal Design", 2008, without its yellow, which has too little contrast on
// light pages. Types also differ by symbol, and bars by pattern: colour is never the only distinction.

import { binaryStep, bytesize } from "../format.js";
import { onTheme } from "../theme.js";

const OKABE_ITO = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7"];
const DOWN = "path://M0,0 L10,0 L5,9 Z";
const PLUS = "path://M3,0 L6,0 L6,3 L9,3 L9,6 L6,6 L6,9 L3,9 L3,6 L0,6 L0,3 L3,3 Z";
const SYMBOLS = ["circle", "rect", "triangle", "diamond", DOWN, PLUS];
/** The number of types with their own colour; all others share one. */
export const COLOURED_TYPES = OKABE_ITO.length;

const TOKENS = {
  ink: "--ink",
  soft: "--ink-soft",
  line: "--line",
  strong: "--line-strong",
  surface: "--surface",
  sunken: "--sunken",
  accent: "--accent",
  bar: "--bar",
  live: "--live",
  warn: "--warn",
  bad: "--bad",
  good: "--good",
};

/**
 * Read colour tokens in the page's current theme: `#rrggbb` by the keys of `tokens`.
 * @param {Record<string, string>} tokens
 */
export function readTokens(tokens) {
  // the value of a custom property keeps its light-dark(); the computed colour of an element resolves it
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const style = getComputedStyle(probe);
  const read = Object.entries(tokens).map(([name, token]) => {
    probe.style.color = `var(${token})`;
    return [name, hexOf(style.color)];
  });
  probe.remove();
  return Object.fromEntries(read);
}

/** Convert a computed colour, `rgb(r, g, b)`, to `#rrggbb`. */
export function hexOf(colour) {
  const parts = colour.match(/\d+/g).slice(0, 3);
  return `#${parts.map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`;
}

/** The page's colours in its current theme, and its font family (`sans`). */
export function readColours() {
  const sans = getComputedStyle(document.documentElement).getPropertyValue("--sans").trim();
  return { ...readTokens(TOKENS), sans };
}

/** Call `listener` when the theme changes between light and dark; returns a function that ends this. */
export function onColours(listener) {
  const endTheme = onTheme(listener);
  // dispatched before and after printing, which uses light colours
  addEventListener("colours", listener);
  return () => {
    endTheme();
    removeEventListener("colours", listener);
  };
}

/** Colour and symbol of an operator type; rank 0 is the type with the most time. */
export function styleOf(rank, colours) {
  if (rank < 0 || rank >= COLOURED_TYPES) return { colour: colours.strong, symbol: "emptyCircle" };
  return { colour: OKABE_ITO[rank], symbol: SYMBOLS[rank] };
}

/** Black or white, whichever has more contrast on `#rrggbb` (WCAG 2 relative luminance). */
export function inkOn(colour) {
  const channel = (offset) => {
    const value = parseInt(colour.slice(offset, offset + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5) > 0.179 ? "#000000" : "#ffffff";
}

/** Diagonal stripes of `colour` on `ground`, as a fill pattern for ECharts. */
export function stripes(colour, ground, step = 6) {
  const canvas = document.createElement("canvas");
  canvas.width = step;
  canvas.height = step;
  const paint = canvas.getContext("2d");
  paint.fillStyle = ground;
  paint.fillRect(0, 0, step, step);
  paint.strokeStyle = colour;
  paint.lineWidth = step / 3;
  paint.beginPath();
  for (const shift of [-step, 0, step]) {
    paint.moveTo(shift - 1, step + 1);
    paint.lineTo(shift + step + 1, -1);
  }
  paint.stroke();
  return { image: canvas, repeat: "repeat" };
}

/** The option of an axis in the style of all charts; `more` overrides it. */
export function axis(colours, more = {}) {
  return {
    axisLine: { lineStyle: { color: colours.strong } },
    axisTick: { lineStyle: { color: colours.strong } },
    splitLine: { lineStyle: { color: colours.line } },
    axisLabel: { color: colours.soft, hideOverlap: true },
    nameTextStyle: { color: colours.soft },
    ...more,
  };
}

/** The option of an x axis of steps or ranks, with its name below. */
export const orderAxis = (colours, more) => axis(colours, { type: "value", minInterval: 1, nameLocation: "middle", nameGap: 28, splitLine: { show: false }, ...more });

/** The option of a y axis of bytes from 0 to at least `most`, in the grid `gridIndex`. */
export function bytesAxis(colours, most, gridIndex = 0) {
  const interval = Math.max(1, binaryStep(most));
  const max = Math.max(1, Math.ceil(most / interval)) * interval;
  return axis(colours, { type: "value", gridIndex, min: 0, interval, max, axisLabel: { color: colours.soft, formatter: bytesize, hideOverlap: true } });
}

/**
 * The option of a grid that stays at these distances from the edges of the chart. ECharts would shrink
 * it until all labels of its axes fit, so that its edges depend on the last label. The distances must
 * leave room for labels.
 */
export function fixedGrid(distances) {
  return { ...distances, outerBoundsMode: "none" };
}

/** The options for zooming by wheel and by a slider below the chart. zoom: the axis and the visible range. */
export function zooms(colours, zoom) {
  return [
    { ...zoom, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true },
    {
      ...zoom,
      type: "slider",
      height: 18,
      bottom: 8,
      showDetail: false,
      showDataShadow: false,
      brushSelect: false,
      borderColor: colours.line,
      fillerColor: `${colours.accent}33`,
      handleStyle: { color: colours.surface, borderColor: colours.accent },
      moveHandleStyle: { color: colours.strong },
    },
  ];
}

/** The visible range of an axis with the options of `zooms`, without the rounding to pixels. */
export function visibleRange(chart) {
  return chart.getModel().getComponent("dataZoom").getValueRange();
}
