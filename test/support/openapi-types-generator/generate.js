export { astToString, default as generateTypes } from "openapi-typescript";
