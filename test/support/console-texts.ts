import { completeTexts } from "../../src/admin/language.ts";

// Modules of pages behind the sign-in read their texts when they load: import this one before them.
await completeTexts();
