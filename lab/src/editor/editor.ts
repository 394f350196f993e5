/** The editor of the scenario: colours, completion, and mistakes marked with the sentences of the command line. */

import {
  autocompletion,
  closeBrackets,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Keys, Problem } from "../core/types";
import { completeWith } from "./complete";
import { linkAt, offsetOfLink } from "./toml";

const CHECK_DELAY_MS = 300;

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--code-number)" },
  { tag: [tags.propertyName, tags.definition(tags.variableName)], color: "var(--code-key)" },
  { tag: tags.bracket, color: "var(--ink)" },
]);

export interface EditorEvents {
  /** Checks a text and returns its mistakes. */
  check(text: string): Promise<Problem[]>;
  /** The visitor wants the text to run. */
  run(): void;
  /** The text differs from the one of the run, or not. */
  edited(isEdited: boolean): void;
  /** The cursor stands in the table of a link, or elsewhere. */
  link(name: string | null): void;
  /** All keys of scenarios, for completion. */
  keys(): Promise<Keys>;
}

export class Editor {
  private readonly view: EditorView;
  private running = "";
  /** Asked for at the first focus, since they have 100 kB. */
  private keys: Promise<Keys> | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    parent: HTMLElement,
    private readonly events: EditorEvents,
  ) {
    const run = () => {
      events.run();
      return true;
    };
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          closeBrackets(),
          StreamLanguage.define(toml),
          syntaxHighlighting(colours),
          autocompletion({ override: [(context) => this.complete(context)] }),
          // Tab leaves the editor, so that the keyboard alone reaches the rest of the page.
          keymap.of([{ key: "Mod-Enter", run }, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          EditorView.domEventHandlers({ focus: () => void this.allKeys().catch(() => undefined) }),
          EditorView.contentAttributes.of({ "aria-label": "Scenario, in TOML", tabindex: "0" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) this.changed();
            if (update.selectionSet && this.view.hasFocus) {
              events.link(linkAt(this.text, update.state.selection.main.head));
            }
          }),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Replaces the text, and takes it for the one that runs. */
  load(text: string): void {
    this.running = text;
    if (text !== this.text) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
    this.show([]);
    this.events.edited(false);
  }

  /** Replaces the first occurrence of a part of the text, if it has one. */
  replace(before: string, after: string): void {
    const from = this.text.indexOf(before);
    if (from < 0) return;
    this.view.dispatch({ changes: { from, to: from + before.length, insert: after }, selection: { anchor: from }, scrollIntoView: true });
  }

  /** Notes that the present text runs. */
  started(): void {
    this.running = this.text;
    this.events.edited(false);
  }

  private allKeys(): Promise<Keys> {
    return (this.keys ??= this.events.keys());
  }

  /** Completes once the keys have come. */
  private async complete(context: CompletionContext): Promise<CompletionResult | null> {
    return completeWith(await this.allKeys())(context);
  }

  /** Marks mistakes in the text. */
  show(problems: Problem[]): void {
    const { doc } = this.view.state;
    const found = problems.map((problem): Diagnostic => {
      const line = doc.line(Math.min(doc.lines, Math.max(1, problem.line ?? 1)));
      const from = Math.min(line.to, line.from + Math.max(0, (problem.column ?? 1) - 1));
      return { from, to: line.to, severity: "error", message: problem.message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, found));
  }

  /** Scrolls to the table of a link. */
  reveal(link: string): void {
    const offset = offsetOfLink(this.text, link);
    if (offset === null) return;
    this.view.dispatch({ selection: { anchor: offset }, effects: EditorView.scrollIntoView(offset, { y: "start", yMargin: 24 }) });
  }

  private changed(): void {
    this.events.edited(this.text !== this.running);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.check(), CHECK_DELAY_MS);
  }

  private async check(): Promise<void> {
    const text = this.text;
    const problems = await this.events.check(text);
    if (text === this.text) this.show(problems);
  }
}
