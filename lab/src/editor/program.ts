/** The editor as a separate program, which the page runs after its first pictures. */

import { Editor } from "./editor";

globalThis.makeEditor = (parent, events) => new Editor(parent, events);
