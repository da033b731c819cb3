// Rules for the scripts of pages, for `make lint`. Types are checked by tsc (tsconfig.json).

import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  // names from files may hold control characters, which scripts look for
  { rules: { "no-control-regex": "off" } },
  { files: ["**/*.js"], languageOptions: { globals: { ...globals.browser, htmx: "readonly" } } },
  { files: ["**/*.mjs"], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
];
