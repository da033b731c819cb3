// Apache ECharts, loaded on demand when the first chart comes into view, because it is larger than the page.

let loading = null;

/** A promise of the library. Rejects if it cannot be fetched; the next call tries again. */
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

/** Create a chart in `element`. The wheel scrolls the page; with Ctrl it zooms charts with zoom. */
export function makeChart(echarts, element) {
  const letPageScroll = (event) => {
    // ECharts prevents scrolling over a chart with zoom, even for wheel events that do not zoom
    if (!event.ctrlKey) event.stopPropagation();
  };
  for (const kind of ["wheel", "mousewheel"]) {
    element.addEventListener(kind, letPageScroll, { capture: true, passive: true });
  }
  return echarts.init(element, null, { renderer: "canvas" });
}
