import { defineConfig } from "vite";

const proxy = { "/api": process.env.BACK_END ?? "http://localhost:4000" };

export default defineConfig({ esbuild: { jsx: "automatic" }, server: { proxy }, preview: { proxy } });
