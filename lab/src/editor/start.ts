/** Starts the program of the editor, which the page contains as text. */

import { byId } from "../dom";
import type { Editor, EditorEvents } from "./editor";

/** Runs the program, and makes the editor. The policy of the page has the digest of the program. */
export function startEditor(parent: HTMLElement, events: EditorEvents): Editor {
  const program = document.createElement("script");
  program.textContent = byId("editor-program").textContent;
  document.head.append(program);
  return makeEditor(parent, events);
}
