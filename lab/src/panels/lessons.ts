/** The card with the present lesson, and the list of all. */

import { h } from "../dom";
import { LESSONS, type Lesson, type Try } from "../lessons";

export interface LessonEvents {
  open(lesson: Lesson): void;
  attempt(attempt: Try): void;
  list(): void;
}

export class LessonCard {
  constructor(
    private readonly box: HTMLElement,
    private readonly events: LessonEvents,
  ) {}

  show(lesson: Lesson): void {
    const number = LESSONS.indexOf(lesson);
    const next = LESSONS[number + 1];
    const attempt = h(
      "div",
      { class: "try" },
      h("p", {}, h("b", {}, "Try: "), lesson.attempt.text),
      h("button", { type: "button", onclick: () => this.events.attempt(lesson.attempt) }, lesson.attempt.button),
    );
    const answer = h("details", {}, h("summary", {}, "Answer"), h("p", {}, lesson.answer));
    this.box.replaceChildren(
      h("p", { class: "count" }, number === 0 ? "Welcome" : `Lesson ${number} of ${LESSONS.length - 1}`),
      h("h2", { id: "lesson-title" }, lesson.title),
      h("p", {}, lesson.sentences.join(" ")),
      attempt,
      h("p", { class: "question" }, lesson.question),
      answer,
      h(
        "div",
        { class: "more" },
        h("button", { type: "button", "aria-haspopup": "dialog", onclick: () => this.events.list() }, "All lessons"),
        next === undefined ? null : h("button", { type: "button", onclick: () => this.events.open(next) }, `Next: ${next.title}`),
      ),
    );
  }

  /** A visitor's own scenario: no lesson. */
  showOwn(title: string): void {
    this.box.replaceChildren(
      h("p", { class: "count" }, "Your scenario"),
      h("h2", { id: "lesson-title" }, title || "Without title"),
      h("p", {}, "The text below is the whole experiment: links, flows and events. Change it and press Run. A mistake is marked where it stands."),
      h("div", { class: "more" }, h("button", { type: "button", "aria-haspopup": "dialog", onclick: () => this.events.list() }, "All lessons")),
    );
  }
}

/** The list of lessons, as buttons. */
export function lessonList(open: (lesson: Lesson) => void): HTMLElement {
  return h(
    "ol",
    { class: "list" },
    ...LESSONS.map((lesson, number) =>
      h(
        "li",
        {},
        h("button", { type: "button", onclick: () => open(lesson) }, h("b", {}, number === 0 ? lesson.title : `${number}. ${lesson.title}`), h("span", {}, lesson.summary)),
      ),
    ),
  );
}
