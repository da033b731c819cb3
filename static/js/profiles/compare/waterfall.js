// Where the difference of two totals went, as a waterfall; the table beside it has the same numbers.

import { loadECharts, makeChart } from "../../charts/echarts.js";
import { onColours, readColours, readTokens } from "../../charts/palette.js";
import { axisMicro, clean } from "../../charts/text.js";
import { heightOf, isTotal, lowerEnd, toneOf } from "./steps.js";

/** px; below, there is little room for the names of steps */
const NARROW = 600;
/** px, of a step; of the axis and what surrounds it */
const ROW = 24;
const AROUND = 48;
/** colour tokens by `toneOf` */
const TONES = { slower: "--bad", faster: "--good", more: "--ink-soft", less: "--line-strong", total: "--bar" };
let shown = null;
let observer = null;

/** Draw the waterfall of the page when it comes into view; `open(address)` follows a step's link. */
export function showWaterfall(open) {
  shown?.chart.dispose();
  shown = null;
  observer?.disconnect();
  const box = document.getElementById("waterfall-chart");
  const data = document.getElementById("waterfall-data");
  if (!box || !data) return;
  const steps = JSON.parse(data.textContent);
  box.hidden = false;
  box.style.height = `${steps.length * ROW + AROUND}px`;
  observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    draw(box, steps, open);
  });
  observer.observe(box);
}

async function draw(box, steps, open) {
  let echarts;
  try {
    echarts = await loadECharts(box.dataset.echarts);
  } catch {
    box.textContent = box.dataset.failed;
    box.style.height = "";
    return;
  }
  if (!box.isConnected) return;
  // on a narrow screen names of steps are cut short in the chart
  document.getElementById("waterfall-table").open = box.clientWidth < NARROW;
  const chart = makeChart(echarts, box);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", box.dataset.label);
  shown = { chart, box, steps };
  chart.on("click", ({ dataIndex }) => {
    const link = document.querySelectorAll("#waterfall tbody tr")[dataIndex]?.querySelector("a[data-swap]");
    if (link) open(link.href);
  });
  paint();
}

function paint() {
  if (shown) shown.chart.setOption(optionOf(shown.steps, shown.box), true);
}

/** What ECharts draws, a row for each step: an unseen bar up to its lower end, and the step after it. */
function optionOf(steps, box) {
  const colours = { ...readColours(), ...readTokens(TONES) };
  const names = steps.map((step) => clean(step.name, 40));
  const nameWidth = box.clientWidth < NARROW ? 110 : 240;
  const axisText = axisMicro(1e6 * Math.max(...steps.map((step) => step.to)));
  const text = { color: colours.soft, fontFamily: colours.sans, fontSize: 12 };
  return {
    animation: false,
    // on the right an amount may follow the longest bar
    grid: { left: 8, right: 88, top: 8, bottom: 8, containLabel: true },
    tooltip: {
      trigger: "axis",
      axisPointer: { type: "shadow" },
      renderMode: "richText",
      backgroundColor: colours.surface,
      borderColor: colours.strong,
      textStyle: { color: colours.ink, fontFamily: colours.sans },
      formatter: ([{ dataIndex }]) => describe(steps[dataIndex], names[dataIndex], box),
    },
    xAxis: {
      type: "value",
      axisLabel: { ...text, hideOverlap: true, formatter: (value) => axisText(1e6 * value) },
      splitLine: { lineStyle: { color: colours.line } },
    },
    yAxis: {
      type: "category",
      data: names,
      inverse: true,
      axisLabel: { ...text, interval: 0, width: nameWidth, overflow: "truncate" },
      axisLine: { lineStyle: { color: colours.strong } },
      axisTick: { show: false },
    },
    series: [
      { type: "bar", stack: "all", silent: true, itemStyle: { color: "transparent" }, data: steps.map(lowerEnd) },
      {
        type: "bar",
        stack: "all",
        barCategoryGap: "25%",
        data: steps.map((step) => ({
          value: heightOf(step),
          itemStyle: { color: colours[toneOf(step)] },
        })),
        label: {
          show: true,
          position: "right",
          ...text,
          formatter: ({ dataIndex }) => steps[dataIndex].amount,
        },
      },
    ],
  };
}

function describe(step, name, box) {
  if (isTotal(step)) return `${name}\n${step.amount}`;
  const verdict = step.tone ? ` (${box.dataset[step.tone]})` : "";
  return `${name}\n${step.amount}${verdict}\n= ${step.total}`;
}

onColours(paint);
addEventListener("resize", () => {
  shown?.chart.resize();
  paint();
});
