// What scripts use without an import, for `make lint` (tsc --checkJs). Elements that a page looks up are
// known by their selectors, not by their types.

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
  /** Netron's, on its own page. */
  __view__: any;
}

declare const htmx: any;
