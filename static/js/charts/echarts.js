// Apache ECharts, fetched when the first picture comes into view: it is larger than the page.

let loading = null;

/** The library, once it is there. Rejects if it cannot be fetched; the next call tries again. */
export function loadECharts(url) {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.addEventListener("load", () => resolve(window.echarts));
    script.addEventListener("error", () => {
      loading = null;
      script.remove();
      reject(new Error("ECharts could not be fetched"));
    });
    document.head.append(script);
  });
  return loading;
}

/** A chart in `element`. The wheel scrolls the page; with Ctrl it zooms a chart that can. */
export function makeChart(echarts, element) {
  const leave = (event) => {
    // ECharts stops each turn of the wheel over a chart that zooms, also those that zoom nothing
    if (!event.ctrlKey) event.stopPropagation();
  };
  for (const kind of ["wheel", "mousewheel"]) {
    element.addEventListener(kind, leave, { capture: true, passive: true });
  }
  return echarts.init(element, null, { renderer: "canvas" });
}
