// Time by name scope: a treemap whose areas are times and whose leaves are operators.
//
// ECharts has no public API for the position of a leaf; `rectOf` reads it from the internal model of
// the pinned version (6.1.0), which a browser test checks.

import { fill, percent } from "../format.js";
import { inkOn, styleOf } from "./palette.js";
import { clean, describeOperator, micro } from "./text.js";

const BREADCRUMB_PX = 30;
const GREY = "#808080";
/** Nodes in one view; with more, most would be too small to see. */
const MAX_NODES = 400;

/**
 * Convert the server's tree to ECharts' format. A node has the colour of the type with the most time
 * in it, because a scope is drawn as one box if the level below it is not shown.
 */
export function toNodes(tree, { nameOf, moreName, typeOf, timeOf, colourOf }) {
  let scopes = 0;
  const painted = (node, times) => {
    let [type, max] = [undefined, -Infinity];
    for (const [candidate, time] of times) if (time > max) [type, max] = [candidate, time];
    const colour = colourOf(type);
    return { ...node, itemStyle: { color: colour }, label: { color: inkOn(colour) } };
  };
  /** Convert a node: [node, Map of the time of each type in it]. */
  const convert = (node) => {
    const times = new Map();
    const add = (type, time) => times.set(type, (times.get(type) ?? 0) + time);
    if (!node.c) {
      for (const row of node.r) add(typeOf(row), timeOf(row));
      const name = node.r.length > 1 ? moreName(node.r.length) : nameOf(node.r[0]);
      return [painted({ id: `r${node.r[0]}`, rows: node.r, value: node.t, name }, times), times];
    }
    scopes += 1;
    const id = `s${scopes}`;
    const children = node.c.map((child) => {
      const [converted, childTimes] = convert(child);
      for (const [type, time] of childTimes) add(type, time);
      return converted;
    });
    const value = children.reduce((sum, child) => sum + child.value, 0);
    return [painted({ id, name: clean(node.n), children, value }, times), times];
  };
  return tree.map((node) => convert(node)[0]);
}

/** The leaves in the order of the chart: by scope, the slowest first. */
export function leavesOf(nodes) {
  const bySize = [...nodes].sort((a, b) => b.value - a.value);
  return bySize.flatMap((node) => (node.children ? leavesOf(node.children) : [node]));
}

/** The number of levels with at most `max` nodes in total; at least one. */
export function depthFor(nodes, max = MAX_NODES) {
  let [depth, level, total] = [0, nodes, 0];
  while (level.length) {
    total += level.length;
    if (depth && total > max) return depth;
    depth += 1;
    level = level.flatMap(({ children }) => children ?? []);
  }
  return Math.max(depth, 1);
}

const isDrawn = (layout) => Boolean(layout && !layout.invisible && layout.isInView);

/** The rectangle of a node or, if it is too small to be drawn, of the scope around it; null if none is drawn. */
function rectOf(chart, id) {
  const series = chart.getModel().getSeriesByIndex(0);
  const root = rootOf(chart);
  let node = root.getNodeById(id);
  while (node && node !== root && !isDrawn(node.getLayout())) node = node.parentNode;
  if (!node || node === root) return null;
  const { width, height } = node.getLayout();
  let { x: left, y: top } = series.layoutInfo;
  for (; node; node = node.parentNode) {
    left += node.getLayout().x ?? 0;
    top += node.getLayout().y ?? 0;
  }
  return [left, top, width, height];
}

export function scopesChart({ data, operators, words, chart }) {
  const nodesIn = (colours) =>
    toNodes(data.tree, {
      nameOf: (row) => clean(operators.names[row]),
      moreName: (number) => fill(words.merged, { number }),
      typeOf: operators.rankOf,
      timeOf: (row) => operators.us[row] ?? 0,
      colourOf: (rank) => hex(styleOf(rank, colours).colour),
    });
  const leaves = leavesOf(nodesIn({ strong: GREY }));
  const items = new Map(leaves.flatMap(({ rows }, item) => rows.map((row) => [row, item])));
  chart.on("click", ({ componentType, data: node }) => {
    if (componentType === "series" && node?.children) open(chart, node.id);
  });
  return {
    length: leaves.length,
    option: (colours) => {
      const nodes = nodesIn(colours);
      return {
        series: [
          {
            type: "treemap",
            data: nodes,
            left: 0,
            right: 0,
            top: 0,
            bottom: BREADCRUMB_PX,
            roam: false,
            nodeClick: false,
            leafDepth: depthFor(nodes),
            drillDownIcon: "",
            // a treemap reads this option only in the series; with a duration of 0 its positions become NaN
            animation: false,
            visibleMin: 4,
            emphasis: { disabled: true },
            breadcrumb: {
              bottom: 2,
              height: 22,
              itemStyle: { color: colours.sunken, borderColor: colours.line, textStyle: { color: colours.ink } },
              emphasis: { itemStyle: { color: colours.line } },
            },
            itemStyle: { color: colours.line, borderColor: colours.surface, borderWidth: 1, gapWidth: 1 },
            label: { show: true, overflow: "truncate", fontSize: 11 },
            upperLabel: { show: true, height: 18, color: colours.ink, backgroundColor: colours.line, fontSize: 11 },
            levels: [{ upperLabel: { show: false }, itemStyle: { gapWidth: 2 } }],
            name: words.all,
          },
        ],
      };
    },
    describe: (item) => {
      const { rows, value, name } = leaves[item];
      return rows.length > 1
        ? [name, `${micro(value, operators.unit)}, ${percent(value / operators.total)}`]
        : describeOperator(operators, rows[0], words);
    },
    rectsOf: (item) => {
      const rect = rectOf(chart, leaves[item].id);
      return rect ? [rect] : [];
    },
    rowOf: (item) => (leaves[item].rows.length > 1 ? null : leaves[item].rows[0]),
    find: (row) => (items.has(row) ? [items.get(row)] : []),
    fromEvent: ({ componentType, data: node }) =>
      componentType === "series" && node?.rows ? items.get(node.rows[0]) : -1,
    show: (item) => {
      if (isOpened(chart) && !rectOf(chart, leaves[item].id)) open(chart, rootOf(chart).getId());
    },
    *tableRows() {
      for (const { scope, time, number } of scopeRows(data.tree)) {
        yield [scope || words.all, { us: time }, percent(time / operators.total), String(number)];
      }
    },
    tableCount: scopeRows(data.tree).length,
  };
}

const hex = (colour) => (/^#[0-9a-f]{6}$/i.test(colour) ? colour : GREY);
const rootOf = (chart) => chart.getModel().getSeriesByIndex(0).getData().tree.root;
const isOpened = (chart) => chart.getModel().getSeriesByIndex(0).getViewRoot() !== rootOf(chart);

function open(chart, targetNodeId) {
  chart.dispatchAction({ type: "treemapRootToNode", seriesIndex: 0, targetNodeId });
}

/** All scopes with their time and number of operators, sorted by time. */
export function scopeRows(tree) {
  const rows = [];
  const walk = (nodes, scope) => {
    let [time, number] = [0, 0];
    for (const node of nodes) {
      const inner = node.c ? walk(node.c, scope ? `${scope}.${clean(node.n)}` : clean(node.n)) : null;
      time += inner ? inner.time : node.t;
      number += inner ? inner.number : node.r.length;
    }
    rows.push({ scope, time, number });
    return { time, number };
  };
  if (tree.length) walk(tree, "");
  return rows.sort((a, b) => b.time - a.time);
}
