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
