// Lint rules for the scripts of pages, for `make lint`. tsc checks the types (tsconfig.json).

import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  // scripts match control characters, which names from files may contain
  { rules: { "no-control-regex": "off" } },
  { files: ["**/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["**/*_worker.js"], languageOptions: { globals: globals.worker } },
  { files: ["**/*.mjs"], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
];
