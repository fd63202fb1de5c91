// The script of a document's page: the app's tables in the place of those that the page is written with.

import { held } from "./data.js";
import { tables, theme } from "./shell.js";
import { speak } from "./translate.js";

speak(held.words, held.language);
theme();
tables().then(() => { document.documentElement.dataset.drawn = ""; });
