import type { FindingPath, LintCode } from "../finding.ts";

/** Reports one finding. The code determines the severity, and the path determines the line. */
export type Report = (code: LintCode, path: FindingPath, message: string) => void;
