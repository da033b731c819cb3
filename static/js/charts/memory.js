// Memory over the execution order, in three stacked layers, with a table of the blocks at the peak.

import { bytesize, fill } from "../format.js";
import { select } from "../profiles/result/selection.js";
import { bytesAxis, orderAxis, stripes } from "./palette.js";
import { clean } from "./text.js";

const GRID = { left: 76, right: 20, top: 26, bottom: 46 };

/** The upper edge of each layer at each step, bytes; the lowest layer first. */
function layersOf({ persistent, planned, estimated }) {
  return [
    { name: "persistent", tops: planned.map(() => persistent) },
    { name: "planned", tops: planned.map((bytes) => persistent + bytes) },
    { name: "estimated", tops: planned.map((bytes, step) => persistent + bytes + estimated[step]) },
  ];
}

export function memoryChart({ data, operators, words, chart, parts }) {
  const steps = data.rows.length;
  const layers = layersOf(data);
  const tops = layers.at(-1).tops;
  const stepOf = new Map(data.rows.map((row, step) => [row, step]));
  const nameOf = (row) => (row < 0 ? "–" : clean(operators.names[row]));
  listDevices(parts, data);
  listOwners(parts, data, { words, nameOf });

  function layer({ name, tops: values }, fill_, edge) {
    return {
      type: "line",
      name: words[name],
      step: "middle",
      symbol: "none",
      sampling: "max",
      silent: true,
      lineStyle: { color: edge, width: 1.5 },
      itemStyle: { color: edge },
      areaStyle: { color: fill_, opacity: 1 },
      data: values.map((top, step) => [step + 1, top]),
    };
  }

  return {
    length: data.peak < 0 ? 0 : steps,
    option(colours) {
      const paints = {
        persistent: colours.line,
        planned: colours.bar,
        estimated: stripes(colours.bar, colours.surface),
      };
      const edges = { persistent: colours.strong, planned: colours.bar, estimated: colours.bar };
      // the highest layer is drawn first, and the lower ones cover it
      const series = layers.map((entry) => layer(entry, paints[entry.name], edges[entry.name])).reverse();
      series[0].markLine = {
        silent: true,
        symbol: ["none", "none"],
        lineStyle: { color: colours.bad, type: "solid" },
        label: { color: colours.ink, formatter: () => fill(words.peak, { size: bytesize(data.peak_bytes) }) },
        data: [{ xAxis: data.peak + 1 }],
      };
      return {
        animation: false,
        grid: GRID,
        xAxis: orderAxis(colours, { min: 1, max: Math.max(steps, 2), name: words.execution_order }),
        yAxis: bytesAxis(colours, data.peak_bytes),
        series,
      };
    },
    describe: (step) => [
      nameOf(data.rows[step]),
      fill(words.memory, {
        step: step + 1,
        total: bytesize(tops[step]),
        persistent: bytesize(data.persistent),
        planned: bytesize(data.planned[step]),
        estimated: bytesize(data.estimated[step]),
      }),
    ],
    rectsOf: (step) => {
      const x = chart.convertToPixel({ xAxisIndex: 0 }, step + 1);
      return [[x - 1, GRID.top, 2, chart.getHeight() - GRID.top - GRID.bottom]];
    },
    rowOf: (step) => (data.rows[step] < 0 ? null : data.rows[step]),
    find: (row) => (stepOf.has(row) ? [stepOf.get(row)] : []),
    fromPoint: (x, y) => {
      if (!chart.containPixel({ gridIndex: 0 }, [x, y])) return -1;
      const step = Math.round(chart.convertFromPixel({ xAxisIndex: 0 }, x)) - 1;
      return Math.max(0, Math.min(step, steps - 1));
    },
    *tableRows() {
      for (let step = 0; step < steps; step += 1) {
        yield [
          nameOf(data.rows[step]),
          String(step + 1),
          bytesize(tops[step]),
          bytesize(data.planned[step]),
          bytesize(data.estimated[step]),
        ];
      }
    },
    tableCount: steps,
  };
}

/** List the devices in a select, which is hidden if there is only one. */
function listDevices({ device, devices }, data) {
  devices.hidden = data.devices.length < 2;
  device.replaceChildren(...data.devices.map((name) => new Option(clean(name, 40), name, false, name === data.device)));
}

/** List the blocks that are allocated at the peak, the largest first, with a link to the operator that writes each. */
function listOwners({ owners, ownerlist }, data, { words, nameOf }) {
  ownerlist.hidden = !data.owners.length;
  owners.replaceChildren(
    ...data.owners.map((owner) => {
      const row = document.createElement("tr");
      const name = document.createElement("th");
      name.scope = "row";
      name.className = "chart__owner hostile";
      name.textContent = clean(owner.name);
      const cells = [bytesize(owner.bytes), words[owner.kind], `${owner.first + 1}–${owner.last + 1}`].map((text) => {
        const cell = document.createElement("td");
        cell.className = "table__number";
        cell.textContent = text;
        return cell;
      });
      row.append(name, ...cells, operatorCell(owner.row, nameOf));
      return row;
    }),
  );
}

function operatorCell(row, nameOf) {
  const cell = document.createElement("td");
  if (row < 0) {
    cell.textContent = "–";
    return cell;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chart__link hostile";
  button.textContent = nameOf(row);
  button.addEventListener("click", () => select(row, "owners"));
  cell.append(button);
  return cell;
}
