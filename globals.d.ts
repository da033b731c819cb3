// Global variables of the scripts, for `make lint` (tsc --checkJs). Elements have loose types, because
// scripts look them up by selectors.

interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}

interface Element {
  closest(selector: string): any;
}

interface EventTarget {
  [member: string]: any;
}

interface Document {
  getElementById(id: string): any;
}

interface Event {
  detail?: any;
}

interface Window {
  echarts: any;
  SwaggerUIBundle: any;
  /** Set by Netron in its own page. */
  __view__: any;
  /** Set by Perfetto in its own page. */
  app: any;
  raf: any;
}

/** Of Web Workers. */
declare const FileReaderSync: any;
